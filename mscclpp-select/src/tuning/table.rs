//! Tuning tables and their files.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::machine::MachineInfo;
use super::record::TuningEntry;
#[cfg(feature = "process")]
use super::reference::TunedConfigs;
use crate::choice::Choice;
use crate::request::Request;
use mscclpp_base::file;

/// Version of the file format.
const FORMAT: u32 = 1;
/// Maximum length of a file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Minimum and maximum to which sizes are rounded: the reference's limits.
const SIZE_LIMITS: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 28;

/// The fastest candidate for each request, on one machine. Its file is TOML, or JSON with the tuned configurations of MSCCL++'s benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningTable {
    format: u32,
    /// The machine on which it was measured.
    pub machine: MachineInfo,
    /// The entries, in the order in which they were measured. If several apply to a request, the first counts.
    #[serde(default, rename = "entry")]
    pub entries: Vec<TuningEntry>,
    /// Tuned configurations of MSCCL++, which apply where no entry does.
    #[cfg(feature = "process")]
    #[serde(skip)]
    tuned: Option<TunedConfigs>,
}

/// Why a table cannot be read or written.
#[derive(Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be read.
    #[error("cannot read tuning table `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is longer than any table.
    #[error("tuning table `{}` is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Maximum length that is read, in bytes.
        limit: u64,
    },
    /// The file is not a valid table.
    #[error("{}:{line}:{column}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// How it is invalid there.
        what: String,
    },
    /// The file cannot be written.
    #[error("cannot write tuning table `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl From<TableError> for mscclpp_base::Error {
    fn from(error: TableError) -> Self {
        Self::TuningTable(error.to_string())
    }
}

impl std::fmt::Debug for TableError {
    /// Writes the message, for programs that return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl TuningTable {
    /// Creates a table without entries.
    pub fn new(machine: MachineInfo) -> Self {
        Self {
            format: FORMAT,
            machine,
            entries: Vec::new(),
            #[cfg(feature = "process")]
            tuned: None,
        }
    }

    /// Returns the candidate for a request and the size for which it was measured: that of [`lookup`](Self::lookup), or of a tuned
    /// configuration of MSCCL++.
    pub(crate) fn choice(&self, request: &Request) -> Option<(Choice, u64)> {
        if let Some(entry) = self.lookup(request) {
            return Some((entry.fastest.choice(), entry.bytes));
        }
        #[cfg(feature = "process")]
        if let Some(tuned) = self.tuned.as_ref().and_then(|tuned| tuned.lookup(request)) {
            return Some((tuned.fastest.choice(), tuned.bytes));
        }
        None
    }

    /// Returns the fastest candidate for a request: the entry for its size rounded up to a power of two, at least 1
    /// KiB, at most 256 MiB. An entry of the same type and reduction takes precedence over others, which apply as well
    /// because times depend on bytes more than on types.
    pub fn lookup(&self, request: &Request) -> Option<&TuningEntry> {
        let bytes = rounded(request.bytes);
        let like = || self.entries.iter().filter(|entry| entry.bytes == bytes && entry.is_like(request));
        like().find(|entry| entry.dtype == request.dtype && entry.op == request.op).or_else(|| like().next())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`TableError::Read`], [`TableError::TooLong`] beyond 16 MiB, [`TableError::Malformed`] with line and column.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, TableError> {
        let path = path.as_ref();
        let bytes = file::read(path, MAX_FILE_BYTES).map_err(|source| match source.kind() {
            io::ErrorKind::FileTooLarge => TableError::TooLong { path: path.to_owned(), limit: MAX_FILE_BYTES },
            _ => TableError::Read { path: path.to_owned(), source },
        })?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            malformed(path, &before, before.len(), "expected UTF-8".to_owned())
        })?;
        Self::parse(path, text)
    }

    /// Reads the text of a file; `path` is for messages. Text that begins with `{` is that of MSCCL++'s benchmark.
    ///
    /// # Errors
    /// [`TableError::Malformed`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, TableError> {
        #[cfg(feature = "process")]
        if text.trim_start().starts_with('{') {
            return Self::parse_tuned_configs(path, text);
        }
        let table: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            malformed(path, text, at, error.message().to_owned())
        })?;
        if table.format != FORMAT {
            let what = format!("expected format {FORMAT}, found {}; measure again with `mscclpp tune`", table.format);
            return Err(malformed(path, text, text.find("format").unwrap_or(0), what));
        }
        Ok(table)
    }

    #[cfg(feature = "process")]
    fn parse_tuned_configs(path: &Path, text: &str) -> Result<Self, TableError> {
        let tuned = TunedConfigs::parse(text).map_err(|error| {
            // The place has fields of its own.
            let (line, column, what) = (error.line().max(1), error.column().max(1), error.to_string());
            let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what).to_owned();
            TableError::Malformed { path: path.to_owned(), line, column, what }
        })?;
        // The file does not say where it was measured, except for the kind of device.
        let machine = MachineInfo { devices: tuned.sku.clone(), ..MachineInfo::current() };
        Ok(Self { tuned: Some(tuned), ..Self::new(machine) })
    }

    /// Returns the text of its file; of one with tuned configurations of MSCCL++, that which was read.
    pub fn text(&self) -> String {
        #[cfg(feature = "process")]
        if let Some(tuned) = &self.tuned {
            return tuned.text.clone();
        }
        self.text_after("Written by `mscclpp tune`: the fastest algorithm per request. Times in microseconds.")
    }

    /// Returns its text after a line that says where it comes from.
    #[doc(hidden)]
    pub fn text_after(&self, origin: &str) -> String {
        // A table contains only values that TOML can represent.
        format!("# {origin}\n{}", toml::to_string(self).unwrap_or_default())
    }

    /// Writes a file [atomically](file::write_atomic): no reader sees a part of it.
    ///
    /// # Errors
    /// [`TableError::Write`]; an old file is then unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TableError> {
        let path = path.as_ref();
        let failed = |source| TableError::Write { path: path.to_owned(), source };
        file::write_atomic(path, self.text().as_bytes()).map_err(failed)
    }
}

/// Returns the size under which a table stores calls of a size: a power of two within the limits.
pub fn rounded(bytes: u64) -> u64 {
    bytes.clamp(*SIZE_LIMITS.start(), *SIZE_LIMITS.end()).next_power_of_two()
}

fn malformed(path: &Path, text: &str, at: usize, what: String) -> TableError {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    TableError::Malformed { path: path.to_owned(), line, column, what }
}
