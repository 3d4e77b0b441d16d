//! Writing: data to standard output, whole files atomically, messages to standard error.

use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
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
    for finding in error.findings().into_iter().flat_map(|findings| findings.condensed(5)) {
        let _ = writeln!(err, "{ERROR}error{ERROR:#}: {finding}\n");
    }
    let _ = writeln!(err, "{ERROR}error{ERROR:#}: {error}");
}

/// Writes a whole file: beside its destination first, then renamed onto it, so that nobody ever sees a part of it.
///
/// A destination that exists and is no regular file (a pipe, `/dev/null`) is written in place.
///
/// # Errors
/// [`Error::Write`] with what the system said; the old file is then untouched.
pub(crate) fn write_file(path: &Path, text: &[u8]) -> Result<()> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(failed(io::ErrorKind::IsADirectory.into())),
        Ok(found) if !found.is_file() => fs::write(path, text).map_err(failed),
        // A link is followed, so that it stays a link.
        Ok(_) => fs::canonicalize(path).and_then(|path| replace(&path, text)).map_err(failed),
        Err(_) => replace(path, text).map_err(failed),
    }
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As the old file, or as any new file: the umask applies.
        let mode = fs::metadata(path).map_or(0o666, |old| old.permissions().mode());
        builder.permissions(fs::Permissions::from_mode(mode & 0o777));
    }
    let mut file = builder.tempfile_in(directory)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plan.json");
        write_file(&path, b"one").unwrap();
        write_file(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_and_a_missing_directory_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(write_file(directory.path(), b""), Err(Error::Write { .. })));
        assert!(matches!(write_file(&directory.path().join("no/such"), b""), Err(Error::Write { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }
}
