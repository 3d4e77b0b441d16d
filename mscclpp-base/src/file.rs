//! Files: regular ones are read up to a limit, and all are written atomically.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use mscclpp_core::plan::{Format, Plan};
use tempfile::NamedTempFile;

use crate::system::limits::exceeded_by_file;

/// Returns the bytes of a regular file of at most `limit` bytes. Never holds more than that, and never waits for a
/// process that writes to a pipe.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] for a longer file, [`ErrorKind::InvalidInput`] for a pipe, a device, a socket or a folder,
/// and what the system says.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_regular(&open(path)?, limit)
}

/// Opens a file, without waiting for another process if it is a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits() as i32);
    }
    options.open(path)
}

/// Does what [`read`] does, with an open file.
pub fn read_regular(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let found = file.metadata()?;
    check_regular(found.file_type())?;
    let mut bytes = Vec::new();
    // The file may grow, and files of the kernel have no length.
    if found.len() <= limit {
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    match found.len().max(bytes.len() as u64) > limit {
        true => Err(io::Error::new(ErrorKind::FileTooLarge, format!("expected at most {limit} bytes, found more"))),
        false => Ok(bytes),
    }
}

/// Checks the path of a library before the loader opens it, which waits for a process that writes to a pipe. What else is wrong with
/// the path is for the loader to say, and names without a folder are for it to find.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a pipe, a device, a socket or a folder.
#[doc(hidden)]
pub fn check_library(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if path.components().count() > 1 => check_regular(found.file_type()),
        _ => Ok(()),
    }
}

fn check_regular(found: FileType) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => {
            let message = format!("expected a regular file, found {}", kind(found));
            Err(io::Error::new(ErrorKind::InvalidInput, message))
        }
    }
}

/// Returns what a file is that is not regular.
fn kind(found: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        match found {
            found if found.is_fifo() => return "a pipe",
            found if found.is_socket() => return "a socket",
            found if found.is_block_device() || found.is_char_device() => return "a device",
            _ => {}
        }
    }
    if found.is_dir() { "a folder" } else { "a special file" }
}

/// Writes a file atomically: first next to its destination, then renamed onto it, so that no reader sees a part of it.
///
/// A link is followed and stays a link; an old file's permissions stay. A destination that exists and is not a regular
/// file (a pipe, `/dev/null`) is written in place.
///
/// # Errors
/// The system's error, and [`ErrorKind::FileTooLarge`] beyond the limit of the process, where writing would end it; the
/// old file is then unchanged.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some((path, file)) = temporary_file_for(path)? else { return fs::write(path, bytes) };
    fill(file, bytes)?.persist(path).map(drop).map_err(|error| error.error)
}

/// Writes a file atomically that does not exist yet. Follows no link.
///
/// # Errors
/// As [`write_atomic`], and [`ErrorKind::AlreadyExists`] for a path that exists, even if it is a link to nothing.
#[cfg(feature = "process")]
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fill(temporary_file(path, 0o666)?, bytes)?.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// Writes a file atomically that only its owner can access. Follows no link: an old file or link is replaced.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fill(temporary_file(path, 0o600)?, bytes)?.persist(path).map(drop).map_err(|error| error.error)
}

/// Writes the contents of a temporary file.
fn fill(mut file: NamedTempFile, bytes: &[u8]) -> io::Result<NamedTempFile> {
    if let Some(limit) = exceeded_by_file(bytes.len() as u64) {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("{limit}; {}", limit.help())));
    }
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
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
    /// `.mscclpp` the image. `Plan::load` reads them all.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a path with another extension or none; what the system says.
    fn save(&self, path: impl AsRef<Path>) -> io::Result<()>;
}

impl SavePlan for Plan {
    fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let unknown = || {
            let message =
                format!("expected a file name that ends in .json, .plan or .mscclpp, found {}", path.display());
            io::Error::new(ErrorKind::InvalidInput, message)
        };
        write_atomic(path, &self.to_bytes(Format::of_path(path).ok_or_else(unknown)?))
    }
}

/// Returns the file to which a path refers, and a new one next to it; `None` if it has to be written in place.
fn temporary_file_for(path: &Path) -> io::Result<Option<(PathBuf, NamedTempFile)>> {
    let (path, old) = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => return Ok(None),
        Ok(found) => (fs::canonicalize(path)?, Some(found)),
        Err(_) => (path.to_owned(), None),
    };
    // As for any new file: the umask applies.
    let file = temporary_file(&path, 0o666)?;
    if let Some(old) = old {
        file.as_file().set_permissions(old.permissions())?;
    }
    Ok(Some((path, file)))
}

/// Creates a temporary file next to its destination. `mode`: its permissions, where a system has them.
fn temporary_file(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
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
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mscclpp_core::plan::LoadPlan;

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
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
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
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, b"12345").expect("it can be written");
        assert_eq!(read(&file, 5).expect("it fits"), b"12345");
        assert_eq!(read(&file, 4).expect_err("too long").kind(), ErrorKind::FileTooLarge);
        // Larger than any memory, and refused before it is read.
        File::options().write(true).open(&file).and_then(|file| file.set_len(1 << 42)).expect("it has holes");
        assert_eq!(read(&file, 1 << 20).expect_err("too long").kind(), ErrorKind::FileTooLarge);
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from(0o600)).expect("a pipe");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let cases = [(&*pipe, "a pipe"), (Path::new("/dev/zero"), "a device"), (folder.path(), "a folder")];
        for (path, kind) in cases {
            let error = read(path, 5).expect_err(kind);
            assert_eq!(error.to_string(), format!("expected a regular file, found {kind}"));
        }
        assert!(read(&socket, 5).is_err());
    }

    #[cfg(feature = "process")]
    #[test]
    fn new_files_follow_no_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, b"old").expect("it can be written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert_eq!(write_new(&link, b"new").expect_err("it is there").kind(), ErrorKind::AlreadyExists);
        assert_eq!(write_new(&file, b"new").expect_err("it is there").kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).expect("it is there"), b"old");
        write_new(&folder.path().join("new"), b"new").expect("it can be written");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
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
