//! Files: read up to a limit, written atomically.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use mscclpp_core::plan::{Format, Plan};
use tempfile::NamedTempFile;

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It is longer than the limit.
    TooLong,
    /// Error of the system.
    Io(io::Error),
}

/// Returns the bytes of a file of at most `limit` bytes. Never holds more than that.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(ReadError::Io)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if bytes.len() as u64 > limit { Err(ReadError::TooLong) } else { Ok(bytes) }
}

/// Writes a file atomically: first next to its destination, then renamed onto it, so that no reader sees a part of it.
///
/// A link is followed and stays a link; an old file's permissions stay. A destination that exists and is not a regular
/// file (a pipe, `/dev/null`) is written in place.
///
/// # Errors
/// The system's error; the old file is then unchanged.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some((path, mut file)) = temporary_file_for(path)? else { return fs::write(path, bytes) };
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Checks that [`write_atomic`] can write a file, as far as this is known beforehand, for callers with long work before
/// they have something to write. Leaves no file.
///
/// # Errors
/// The system's error.
pub fn check_writable(path: &Path) -> io::Result<()> {
    temporary_file_for(path).map(drop)
}

/// Saves plans. An extension of [`Plan`], whose crate does no I/O.
///
/// ```no_run
/// use mscclpp_exec::file::SavePlan;
///
/// let algorithm = mscclpp_algorithms::find("allreduce_ring").expect("a built-in algorithm");
/// let plan = algorithm.plan(algorithm.spec(8, 8), &[])?;
/// plan.save("allreduce_ring.plan")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait SavePlan {
    /// Writes a plan to a file, with [`write_atomic`], in the format of the path's extension: `.json` MSCCL++ JSON, `.plan` text,
    /// `.mscclpp` the image. [`Plan::load`] reads them all.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a path with another extension or none; what the system says.
    fn save(&self, path: impl AsRef<Path>) -> io::Result<()>;
}

impl SavePlan for Plan {
    fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let unknown = || {
            let message =
                format!("expected a file name that ends in .json, .plan or .mscclpp, found {}", path.display());
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        write_atomic(path, &self.to_bytes(Format::of_path(path).ok_or_else(unknown)?))
    }
}

/// Returns the file to which a path refers, and a new one next to it; `None` if it has to be written in place.
fn temporary_file_for(path: &Path) -> io::Result<Option<(PathBuf, NamedTempFile)>> {
    let (path, old) = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => return Ok(None),
        Ok(found) => (fs::canonicalize(path)?, Some(found)),
        Err(_) => (path.to_owned(), None),
    };
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As for any new file: the umask applies.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(folder)?;
    if let Some(old) = old {
        file.as_file().set_permissions(old.permissions())?;
    }
    Ok(Some((path, file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_atomically_without_leftovers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.json");
        check_writable(&path).expect("it can be written");
        assert!(!path.exists());
        write_atomic(&path, b"one").expect("it can be written");
        write_atomic(&path, b"two").expect("it can be written");
        assert_eq!(fs::read(&path).expect("it is there"), b"two");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn plan_is_saved_in_the_format_of_the_extension() {
        let algorithm = mscclpp_algorithms::find("allgather_ring").expect("it is in the library");
        let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(2, 2), &[]).expect("it compiles"));
        let folder = tempfile::tempdir().expect("a folder");
        for format in Format::ALL {
            let path = folder.path().join("ring").with_extension(format.extension());
            plan.save(&path).expect("it can be written");
            let bytes = fs::read(&path).expect("it is there");
            assert_eq!(bytes, plan.to_bytes(format));
            assert_eq!(Plan::load(&bytes).expect("it is a plan"), plan);
        }
        for name in ["ring", "ring.txt"] {
            let error = plan.save(folder.path().join(name)).expect_err("no format");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("ends in .json, .plan or .mscclpp"), "{error}");
        }
    }

    #[test]
    fn folder_and_missing_folder_are_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        for path in [folder.path().to_owned(), folder.path().join("no/such"), PathBuf::from("/")] {
            assert!(write_atomic(&path, b"").is_err(), "{}", path.display());
            assert!(check_writable(&path).is_err(), "{}", path.display());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn links_permissions_and_pipes_are_preserved() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt};
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, b"old").expect("it can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).expect("it is ours");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        write_atomic(&link, b"new").expect("it can be written");
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(fs::read(&file).expect("it is there"), b"new");
        assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o660);
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from(0o600)).expect("a pipe");
        // Opening both ends does not block.
        let mut end = File::options().read(true).write(true).open(&pipe).expect("it is there");
        check_writable(&pipe).expect("it can be written");
        write_atomic(&pipe, b"new").expect("it can be written");
        assert!(fs::metadata(&pipe).expect("it is there").file_type().is_fifo());
        let mut found = [0; 3];
        end.read_exact(&mut found).expect("what was written");
        assert_eq!(&found, b"new");
    }
}
