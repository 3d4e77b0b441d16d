//! Output: data to standard output, whole files atomically, messages to standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use mscclpp_exec::file;
use serde_json::Value;

use crate::error::{Error, Result};

/// Style of what begins an error.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Returns standard output. Colors are stripped unless it is a terminal.
fn stdout() -> anstream::AutoStream<io::StdoutLock<'static>> {
    anstream::AutoStream::auto(io::stdout()).lock()
}

/// Prints a text to standard output, and a line end if it has none.
///
/// The text is written as it is generated, so that a long text needs no memory and ends early when its reader has
/// closed the output.
///
/// # Errors
/// [`Error::Closed`] if the reader has closed the output, [`Error::Output`] for any other failure.
pub(crate) fn print(text: impl Display) -> Result<()> {
    let mut out = Ended { out: io::BufWriter::new(stdout()), last: b'\n' };
    write!(out, "{text}")?;
    if out.last != b'\n' {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints bytes to standard output as they are.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// A writer that records the last byte.
struct Ended<W> {
    out: W,
    last: u8,
}

impl<W: Write> Write for Ended<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        if let Some(last) = bytes[..written].last() {
            self.last = *last;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints JSON to standard output, indented by 2.
///
/// # Errors
/// Those of [`print()`].
pub(crate) fn print_json(value: &Value) -> Result<()> {
    print(format_args!("{value:#}"))
}

/// Prints a warning to standard error. A failure to write is ignored.
pub(crate) fn warn(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{WARNING}warning{WARNING:#}: {text}");
}

/// Prints a note to standard error, prefixed with its level. A failure to write is ignored.
pub(crate) fn note(level: &str, text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{level}: {text}");
}

/// Prints one sentence about an error other than the command's own.
pub(crate) fn error(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{ERROR}error{ERROR:#}: {text}");
}

/// Prints an error to standard error, with its findings.
pub(crate) fn report(error: &Error) {
    if matches!(error, Error::Closed) {
        return;
    }
    let mut err = anstream::stderr();
    for finding in error.findings().into_iter().flat_map(|findings| findings.deduplicated(5)) {
        let _ = writeln!(err, "{ERROR}error{ERROR:#}: {finding}\n");
    }
    let _ = writeln!(err, "{ERROR}error{ERROR:#}: {error}");
}

/// Writes a whole file: all of it, or nothing; see [`file::write_atomic`].
///
/// # Errors
/// [`Error::Write`] with the system's error; the old file is then unchanged.
pub(crate) fn write_file(path: &Path, text: &[u8]) -> Result<()> {
    file::write_atomic(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Checks whether [`write_file`] will be possible, as far as that can be determined in advance.
///
/// # Errors
/// [`Error::Write`] with the system's error.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    file::check_writable(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}
