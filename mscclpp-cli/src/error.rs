//! Errors that end a command early, with their exit codes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mscclpp_core::diag::Diagnostics;
use mscclpp_core::types::ReduceOp;
use thiserror::Error;

use crate::exit;
use crate::msccl::Mistake;
use crate::size::human;

/// Reason why a command did not succeed.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// Invalid usage that clap cannot detect.
    #[error("{0}")]
    Usage(String),
    /// An algorithm that cannot be built as requested.
    #[error("{0}")]
    Build(String),
    /// A name that is neither an algorithm nor a file.
    #[error("`{name}` is neither an algorithm nor a file{}{}", suggestion_hint(.suggestions), LIST_HINT)]
    UnknownName {
        /// The requested name.
        name: String,
        /// Similar names, best first.
        suggestions: Vec<String>,
    },
    /// A name that no plan of the artifacts has.
    #[error("no plan is called `{name}`{}\n         help: there are {known}", suggestion_hint(.suggestion.as_slice()))]
    NotEmbedded {
        /// What was asked for.
        name: String,
        /// A name that looks like it.
        suggestion: Option<String>,
        /// The plans that there are.
        known: String,
    },
    /// Artifacts that contain no plan.
    #[error(
        "no plan in {}{}{}\n         help: a plan that a program does not use is not linked into it; the library of its crate has it \
         (`cargo mscclpp list --lib`)",
        .searched.join(", "),
        if *builtin == 0 { String::new() } else { format!(" apart from {builtin} of the library's algorithms") },
        .rejected.as_ref().map(|why| format!("; {why}")).unwrap_or_default()
    )]
    NoPlans {
        /// What was searched.
        searched: Vec<String>,
        /// Why the first bytes that begin like a plan are none.
        rejected: Option<String>,
        /// Number of plans of the library's algorithms.
        builtin: usize,
    },
    /// A build that failed, as cargo has reported.
    #[error("{0}")]
    Cargo(String),
    /// An unknown diagnostic code.
    #[error("unknown diagnostic `{code}`{}\n         help: list all diagnostics with `mscclpp explain`", suggestion_hint(.suggestions))]
    UnknownCode {
        /// The requested code.
        code: String,
        /// Similar codes, best first.
        suggestions: Vec<String>,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", name(path))]
    Read {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file larger than the limit.
    #[error(
        "{} is larger than {}, the limit for plan files",
        name(path), human(*limit)
    )]
    TooLong {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A file that is not a plan.
    #[error("{} is not a valid plan", name(path))]
    NotAPlan {
        /// The file; `-` is standard input.
        path: PathBuf,
        /// Its errors.
        findings: Diagnostics,
    },
    /// An algorithm whose program is invalid with the given arguments.
    #[error("cannot build `{name}` with these arguments")]
    Program {
        /// The algorithm.
        name: String,
        /// Its errors.
        findings: Diagnostics,
    },
    /// An invalid plan.
    #[error("{what}")]
    Findings {
        /// One sentence: which plan, how many findings, which step was skipped.
        what: String,
        /// The findings.
        findings: Diagnostics,
    },
    /// A run that failed.
    #[error("{what}")]
    Run {
        /// One sentence.
        what: &'static str,
        /// The finding: one diagnostic.
        findings: Diagnostics,
        /// The exit code.
        code: u8,
    },
    /// An output that cannot be written.
    #[error("cannot write {}: {source}{}", path.display(), folder_hint(path))]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// More memory than is available.
    #[error(
        "{what} needs {} of memory ({needed} bytes), but {} is available\n         help: use a smaller --size, or \
         fewer --ranks or --instances",
        human(*needed), human(*available)
    )]
    Memory {
        /// What needs it: `a run of 1 TiB on 8 ranks`.
        what: String,
        /// Bytes needed; saturated at the largest number.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// Ranks that failed to join, or to complete the rendezvous.
    #[error("{}{}", .0, .0.help().map(|help| format!("\n         help: {help}")).unwrap_or_default())]
    Group(#[from] mscclpp_bootstrap::Error),
    /// Data of another rank that arrived corrupted.
    #[error("{what} from rank {rank} received other bytes than were sent")]
    CorruptData {
        /// The connection.
        what: String,
        /// The sender.
        rank: u32,
    },
    /// A connection between two ranks that broke.
    #[error("the connection to rank {rank} failed: {reason}")]
    Broken {
        /// The other rank.
        rank: u32,
        /// Error of the system.
        reason: String,
    },
    /// A program that cannot be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// Error of the system.
        source: io::Error,
        /// The exit code.
        code: u8,
    },
    /// A rank whose launcher has ended.
    #[error("the launcher exited before its rank started")]
    LauncherExited,
    /// Processors on which a rank cannot run.
    #[error("cannot bind the rank to processors {cpus}: {source}; start without --bind")]
    Bind {
        /// The processors.
        cpus: String,
        /// The reason.
        source: std::io::Error,
    },
    /// No job, or several of them.
    #[error("{0}")]
    NoJob(String),
    /// An address at which this process cannot listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// No port for rank 0.
    #[error("cannot find a free port for rank 0: {0}")]
    NoPort(io::Error),
    /// No secret for the job.
    #[error("cannot generate a secret for the job: {0}")]
    NoSecret(String),
    /// Signals that cannot be handled.
    #[error("cannot install signal handlers: {0}")]
    Signals(io::Error),
    /// A dump that cannot be read.
    #[error(transparent)]
    Dump(#[from] mscclpp_communicator::flight_recorder::DumpError),
    /// A failed collective call, or ranks that failed to join.
    #[error(transparent)]
    Call(Box<mscclpp_exec::Error>),
    /// An unknown machine.
    #[error(
        "unknown machine `{name}`{}\n         help: list the machines with `mscclpp machine list`; a path to a machine file contains `/` or \
         ends with `.toml`",
        suggestion_hint(.suggestions)
    )]
    UnknownMachine {
        /// The requested name, or that of the base of a file.
        name: String,
        /// Similar names, best first.
        suggestions: Vec<String>,
    },
    /// A machine file that cannot be used.
    #[error("{}: {reason}", path.display())]
    MachineFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of MSCCL that is no algorithm.
    #[error("{}:{}: {}{}{}", path.display(), mistake.line, mistake.element, if mistake.element.is_empty() { "" } else { ": " }, mistake.reason)]
    Msccl {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        mistake: Mistake,
    },
    /// Standard output was closed by its reader.
    #[error("standard output was closed")]
    Closed,
    /// Another failure of standard output.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

/// Help for an unknown name.
const LIST_HINT: &str = "\n         help: list the algorithms with `mscclpp plan list`";

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Converts an error of the executor.
    pub(crate) fn run(error: &mscclpp_exec::Error) -> Self {
        use mscclpp_exec::Error as Exec;
        use mscclpp_exec::error::ErrorKind;
        let (what, code) = match error {
            Exec::Stalled(_) => ("the run stalled", exit::FAILURE),
            Exec::InvalidPlan { .. } => ("the plan cannot be run", exit::FAILURE),
            Exec::TooLarge { .. }
            | Exec::ScratchLimit { .. }
            | Exec::OutOfMemory { .. }
            | Exec::LimitExceeded { .. }
            | Exec::SpawnThread(_)
            | Exec::NoDevice(_)
            | Exec::Driver(_)
            | Exec::NotCoResident { .. }
            | Exec::System { .. }
            | Exec::Internal(_) => ("the run is not possible on this machine", exit::UNAVAILABLE),
            Exec::Bootstrap(error) if error.kind() == ErrorKind::Mismatch => {
                ("ranks make different calls", exit::FAILURE)
            }
            Exec::Interrupted(_) | Exec::RankLost { .. } | Exec::Bootstrap(_) => {
                ("ranks are missing", exit::UNAVAILABLE)
            }
            _ => ("the plan cannot be run with these arguments", exit::USAGE),
        };
        let mut finding = error.diagnostic();
        // The executor's help is for callers of the Rust API.
        match error {
            Exec::MessageSize { .. } => {
                finding = finding.help("use another size, or disable this check with --any-size")
            }
            Exec::FixedReduction { requested, .. } if *requested != ReduceOp::Avg => {
                finding = finding.help("remove --op, or use a plan of sums, which supports any reduction")
            }
            Exec::UnsupportedAccumulator { .. } => {
                finding = finding
                    .help("remove --accumulate; floats accumulate in f64, and those of at most 32 bits also in f32")
            }
            _ => {}
        }
        Self::Run { what, findings: finding.into(), code }
    }

    /// Returns the exit code; see [`exit`].
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Findings { .. } | Self::Group(_) | Self::CorruptData { .. } | Self::Broken { .. } => exit::FAILURE,
            Self::Run { code, .. } | Self::Start { code, .. } => *code,
            Self::Usage(_)
            | Self::Build(_)
            | Self::Program { .. }
            | Self::UnknownName { .. }
            | Self::NotEmbedded { .. }
            | Self::NoPlans { .. }
            | Self::Cargo(_)
            | Self::UnknownCode { .. }
            | Self::Read { .. }
            | Self::TooLong { .. }
            | Self::Dump(_)
            | Self::UnknownMachine { .. }
            | Self::MachineFile { .. }
            | Self::Msccl { .. }
            | Self::NoJob(_)
            | Self::NotAPlan { .. } => exit::USAGE,
            Self::Write { .. }
            | Self::Memory { .. }
            | Self::Output(_)
            | Self::LauncherExited
            | Self::Bind { .. }
            | Self::NoPort(_)
            | Self::NoSecret(_)
            | Self::Listen { .. }
            | Self::Signals(_) => exit::UNAVAILABLE,
            Self::Call(error) => match &**error {
                mscclpp_exec::Error::Select { .. }
                | mscclpp_exec::Error::NoPlan { .. }
                | mscclpp_exec::Error::TuningTable(_) => exit::USAGE,
                mscclpp_exec::Error::Bootstrap(_)
                | mscclpp_exec::Error::Selector { .. }
                | mscclpp_exec::Error::NativeAlgorithm { .. }
                | mscclpp_exec::Error::Length { .. }
                | mscclpp_exec::Error::Root { .. }
                | mscclpp_exec::Error::ReceiveMemory { .. } => exit::UNAVAILABLE,
                error => return Self::run(error).code(),
            },
            Self::Closed => exit::BROKEN_PIPE,
        })
    }

    /// Returns the findings of the error, if it has some.
    pub(crate) fn findings(&self) -> Option<&Diagnostics> {
        match self {
            Self::NotAPlan { findings, .. }
            | Self::Program { findings, .. }
            | Self::Findings { findings, .. }
            | Self::Run { findings, .. } => Some(findings),
            _ => None,
        }
    }
}

/// Returns what to do if the folder of a file does not exist.
fn folder_hint(path: &Path) -> String {
    let missing = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    missing.map_or_else(String::new, |folder| format!("; create the folder {} first", folder.display()))
}

impl From<mscclpp_exec::Error> for Error {
    fn from(error: mscclpp_exec::Error) -> Self {
        Self::Call(Box::new(error))
    }
}

/// Converts failures of standard output, to which data is written.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output(error),
        }
    }
}

fn name(path: &std::path::Path) -> String {
    if path.as_os_str() == "-" { "standard input".into() } else { format!("`{}`", path.display()) }
}

/// Formats `; a similar name exists: …` or `; similar names exist: …`; empty without any.
pub(crate) fn suggestion_hint(suggestions: &[String]) -> String {
    let exist = match suggestions {
        [] => return String::new(),
        [_] => "a similar name exists",
        _ => "similar names exist",
    };
    let names: Vec<_> = suggestions.iter().map(|name| format!("`{name}`")).collect();
    format!("; {exist}: {}", names.join(", "))
}

/// Returns at most three of `known` that are similar to `name`, best first.
pub(crate) fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let name = name.to_lowercase();
    let mut scored: Vec<_> = known
        .into_iter()
        .map(|known| {
            let lower = known.to_lowercase();
            // A part of a long name counts more than its letters: `ring` means `allreduce_ring`.
            let part = name.len() >= 3 && lower.contains(&name);
            (if part { 1.0 } else { strsim::jaro_winkler(&name, &lower) }, known)
        })
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, known)| known.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::similar;

    #[test]
    fn similar_names_are_sorted_and_others_omitted() {
        let known = ["allreduce_ring", "allgather", "reducescatter"];
        assert_eq!(similar("ring", known), ["allreduce_ring"]);
        assert_eq!(similar("allgahter", known)[0], "allgather");
        assert!(similar("xyzzy", known).is_empty());
        assert!(similar("", known).is_empty());
    }
}
