//! Writing: data to standard output, whole files atomically, messages to standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use mscclpp_exec::file;
use serde_json::Value;

use crate::error::{Error, Result};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Standard output. Colours are stripped where it is no terminal.
fn stdout() -> anstream::AutoStream<io::StdoutLock<'static>> {
    anstream::AutoStream::auto(io::stdout()).lock()
}

/// Prints something to standard output, and a line end if it has none.
///
/// It is written as it is made, so that a long text needs no memory and ends early when nobody reads on.
///
/// # Errors
/// [`Error::Closed`] if the reader is gone, [`Error::Output`] for any other failure.
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

/// A writer that knows what it wrote last.
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
/// As [`print()`].
pub(crate) fn print_json(value: &Value) -> Result<()> {
    print(format_args!("{value:#}"))
}

/// A warning on standard error. What cannot be said there is lost.
pub(crate) fn warn(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{WARNING}warning{WARNING:#}: {text}");
}

/// Something that is good to know, on standard error, with its level in front. What cannot be said there is lost.
pub(crate) fn note(level: &str, text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{level}: {text}");
}

/// One sentence about an error that is not the command's own.
pub(crate) fn error(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{ERROR}error{ERROR:#}: {text}");
}

/// An error on standard error, with the findings it stands for.
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
/// [`Error::Write`] with what the system said; the old file is then untouched.
pub(crate) fn write_file(path: &Path, text: &[u8]) -> Result<()> {
    file::write_atomic(path, text).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Whether [`write_file`] will be possible, as far as that shows beforehand.
///
/// # Errors
/// [`Error::Write`] with what the system said.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    file::check_writable(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}
