//! Dump file of one rank.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use mscclpp_bootstrap::Bootstrap;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use mscclpp_base::file;

/// Version of the file format.
const FORMAT: u32 = 1;
/// Maximum length of a file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The dump of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Dump {
    /// Identity of the rank.
    pub rank: RankRecord,
    /// Its last calls, the failed one last, in ascending order of their numbers.
    pub calls: Vec<CallRecord>,
    /// The failure of the last call; `None` in a dump that was requested while the rank ran.
    pub failure: Option<FailureRecord>,
    /// What the rank was doing; `None` in the dump of a failed call.
    pub state: Option<StateRecord>,
    /// What its thread blocks waited for, and those of other ranks as far as it knew.
    pub waits: Vec<WaitRecord>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line {
    Rank(RankRecord),
    Call(CallRecord),
    Failure(FailureRecord),
    State(StateRecord),
    Wait(WaitRecord),
}

/// Identity of the rank that wrote a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRecord {
    /// Version of the file format.
    pub format: u32,
    /// Version of the library.
    pub version: String,
    /// Distinguishes the job from all others: a random number.
    pub job: String,
    /// The rank in its communicator.
    pub rank: u32,
    /// Number of ranks of the communicator.
    #[serde(rename = "ranks")]
    pub num_ranks: u32,
    /// Distinguishes the communicator from others of the same job; `None` for the communicator of the whole job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupRecord>,
    /// Its process id.
    pub process: u32,
}

/// A subset of a job's ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// A name that no other communicator of the job has.
    pub name: String,
    /// Its ranks in order, as ranks of the job.
    pub ranks: Vec<u32>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Number of the call, counted from 1.
    pub number: u64,
    /// The request: `allreduce of 4 KiB f32, sum, in place, 4 ranks on 1 node`, or `barrier`.
    pub request: String,
    /// Source location of the call.
    pub at: String,
    /// Kernel of its last launch of a plan on a device: `interpreter`, or one of the plan, compiled `just-in-time` or `ahead-of-time`; `None`
    /// without a launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// Error of the call.
    pub message: String,
    /// The rank that the failure began with, if the error names one; of the ranks of the communicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_cause: Option<u32>,
}

/// What a rank is doing while it writes a dump.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// `between calls`, `in call` or `waiting`.
    pub state: String,
    /// For how long, in seconds.
    pub seconds: f64,
}

/// A blocked thread block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRecord {
    /// The blocked operation.
    #[serde(flatten)]
    pub op: OpRecord,
    /// What it waited for.
    pub waits_for: String,
    /// The operation that would have released it; `None` if no remaining operation would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_by: Option<OpRecord>,
}

/// An operation of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpRecord {
    /// Its rank.
    pub rank: u32,
    /// Its thread block.
    pub block: u32,
    /// Its number in the block.
    pub op: u32,
    /// Its kind: `wait`.
    pub operation: String,
    /// Its source location, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Why a file cannot be read as a dump.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The file cannot be read.
    #[error("cannot read dump `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is longer than any dump.
    #[error("dump `{}` is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Maximum length that is read, in bytes.
        limit: u64,
    },
    /// A line is not a valid line of a dump.
    #[error("{}:{line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// How it is invalid.
        what: String,
    },
}

impl Dump {
    /// Reads a file.
    ///
    /// # Errors
    /// [`DumpError::Read`], [`DumpError::TooLong`] beyond 64 MiB, [`DumpError::Malformed`] with the line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, DumpError> {
        let path = path.as_ref();
        let bytes = file::read(path, MAX_FILE_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::FileTooLarge => DumpError::TooLong { path: path.to_owned(), limit: MAX_FILE_BYTES },
            _ => DumpError::Read { path: path.to_owned(), source },
        })?;
        Self::parse(path, &bytes)
    }

    /// Reads the contents of a file; `path` is for messages.
    ///
    /// # Errors
    /// [`DumpError::Malformed`].
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, DumpError> {
        let malformed = |line, what| DumpError::Malformed { path: path.to_owned(), line, what };
        let (mut rank, mut failure, mut state, mut calls, mut waits) = (None, None, None, Vec::new(), Vec::new());
        let (mut last, mut number) = (0, 0);
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            last = index + 1;
            match serde_json::from_slice(line).map_err(|error| malformed(last, error.to_string()))? {
                Line::Rank(record) if record.format != FORMAT => {
                    return Err(malformed(last, format!("expected format {FORMAT}, found {}", record.format)));
                }
                Line::Rank(record) if record.rank >= record.num_ranks => {
                    return Err(malformed(
                        last,
                        format!(
                            "expected a rank below the number of ranks, found rank {} of {} ranks",
                            record.rank, record.num_ranks
                        ),
                    ));
                }
                Line::Rank(record) => rank = Some(record),
                Line::Call(record) if record.number <= number => {
                    return Err(malformed(last, format!("call {} after call {number}", record.number)));
                }
                Line::Call(record) => {
                    number = record.number;
                    calls.push(record);
                }
                Line::Failure(record) => failure = Some(record),
                Line::State(record) => state = Some(record),
                Line::Wait(record) => waits.push(record),
            }
        }
        let missing = |what: &str| malformed(last + 1, format!("expected a line of kind `{what}`, found none"));
        let rank = rank.ok_or_else(|| missing("rank"))?;
        if failure.is_none() && state.is_none() {
            return Err(missing("failure"));
        }
        Ok(Self { rank, calls, failure, state, waits })
    }

    /// Returns a name for its file. `number`: that of the dump among those of one process or folder.
    pub fn file_name(&self, number: u32) -> String {
        let RankRecord { rank, num_ranks: ranks, process, group, .. } = &self.rank;
        let part = group.as_ref().map_or_else(String::new, |group| format!("-{}", group.name));
        format!("mscclpp-rank-{rank}-of-{ranks}{part}-{process}-{number}.jsonl")
    }

    /// Returns the contents of its file.
    pub fn text(&self) -> String {
        let lines = [Line::Rank(self.rank.clone())].into_iter();
        let lines = lines.chain(self.calls.iter().cloned().map(Line::Call));
        let lines = lines.chain(self.failure.clone().map(Line::Failure));
        let lines = lines.chain(self.state.clone().map(Line::State));
        let lines = lines.chain(self.waits.iter().cloned().map(Line::Wait));
        // A dump contains only values that JSON can represent.
        lines.map(|line| serde_json::to_string(&line).unwrap_or_default() + "\n").collect()
    }
}

impl Dump {
    /// Writes the dump to a folder, which is created if there is none, and logs where.
    pub(crate) fn write_to(&self, folder: &Path) {
        /// Number of dumps that this process has written: communicators may be recreated with the same name.
        static WRITTEN: AtomicU32 = AtomicU32::new(0);
        /// Number of names that are tried: the names can be guessed, so others may have made files or links of them.
        const MAX_ATTEMPTS: u32 = 16;
        let (rank, text) = (self.rank.rank, self.text());
        // What is wrong with the folder, writing to it reports.
        let _ = std::fs::create_dir_all(folder);
        for attempt in 1..=MAX_ATTEMPTS {
            let path = folder.join(self.file_name(WRITTEN.fetch_add(1, Ordering::Relaxed) + 1));
            match file::write_new(&path, text.as_bytes()) {
                Ok(()) => return log::warn!("rank {rank} wrote a dump to {}", path.display()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS => {}
                Err(error) => return log::warn!("rank {rank} cannot write {}: {error}", path.display()),
            }
        }
    }
}

impl RankRecord {
    /// Returns the identity of a rank.
    pub(crate) fn of(group: &Bootstrap) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let job = format!("{:032x}", group.identity().1);
        let (rank, num_ranks, process) = (group.rank(), group.num_ranks(), std::process::id());
        let part = |number| GroupRecord { name: format!("group-{number:x}"), ranks: group.members().to_vec() };
        let group = (group.number() != 0).then(|| part(group.number()));
        Self { format: FORMAT, version, job, rank, num_ranks, group, process }
    }
}

impl std::fmt::Display for OpRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rank, block, op, operation, at } = self;
        write!(f, "rank {rank} / thread block {block} / operation {op} ({operation})")?;
        at.as_ref().map_or(Ok(()), |at| write!(f, " at {at}"))
    }
}
