//! Compiled images, kept in files between processes.
//!
//! Each image is one file, named after everything that it depends on. A file contains a hash of its contents: an image
//! whose file is truncated or changed is compiled again. Files are written atomically (they are renamed into place), so
//! any number of processes can share a folder.
//!
//! An image is code that this process will run, and its hash is no secret. So a folder or a file that another user owns or
//! can write to is not used, and neither is read nor written.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::compiler::Image;

/// Environment variable for the folder of the cache; an empty value disables the cache. Without it the folder is
/// `$XDG_CACHE_HOME/mscclpp`, or `~/.cache/mscclpp`.
pub const CACHE_VARIABLE: &str = "MSCCLPP_CACHE";

/// First bytes of every file; a different layout has different ones.
const MAGIC: [u8; 8] = *b"mscclpp1";

/// Length of the header: magic, hash of the rest, length of the code. Code and log follow.
const HEADER_BYTES: usize = 8 + 32 + 8;

/// Maximum size of a file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Maximum number of files in a folder; beyond it the oldest half is removed.
const MAX_FILES: usize = 1024;

/// A folder of images; or none, and nothing is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// No cache.
    pub const NONE: Self = Self { folder: None };

    /// Creates a cache in a folder, which is created when the first image is stored.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// Returns the cache in the folder that [`CACHE_VARIABLE`] names, or in the user's; none if there is neither.
    pub fn from_environment() -> Self {
        if let Some(folder) = std::env::var_os(CACHE_VARIABLE) {
            return Self { folder: (!folder.is_empty()).then(|| folder.into()) };
        }
        let path = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")));
        Self { folder: folder.map(|folder| folder.join("mscclpp")) }
    }

    /// Returns the folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn file(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.image")))
    }

    /// Returns the image that was stored under a key, if its file is intact.
    pub(crate) fn load(&self, key: &str) -> Option<Image> {
        let path = self.file(key)?;
        let read = || -> io::Result<Option<Image>> {
            check_private(&fs::metadata(self.folder.as_ref().unwrap_or(&path))?)?;
            let file = mscclpp_base::file::open(&path)?;
            check_private(&file.metadata()?)?;
            Ok(decode(key, &mscclpp_base::file::read_regular(&file, MAX_FILE_BYTES)?))
        };
        match read() {
            Ok(Some(image)) => return Some(image),
            Ok(None) => log::warn!("{}: damaged, compiled again", path.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log::warn!("{}: not used, compiled again: {error}", path.display()),
        }
        None
    }

    /// Returns the lock of a key.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) while another process has it; others if there is no folder that can be written.
    pub(super) fn try_lock(&self, key: &str) -> io::Result<KeyLock> {
        let path = self.private_folder()?.join(format!("{key}.lock"));
        let file = fs::File::options().create(true).truncate(false).write(true).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(KeyLock { file, path })
    }

    /// Returns the folder, which is created if it does not exist.
    fn private_folder(&self) -> io::Result<&Path> {
        let folder = self.folder().ok_or(io::ErrorKind::NotFound)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        check_private(&fs::metadata(folder)?)?;
        Ok(folder)
    }

    /// Stores an image. If a folder is not writable or not private, that is logged once for each image, and is no error.
    pub(super) fn store(&self, key: &str, image: &Image) {
        let Some(path) = self.file(key) else { return };
        let store = || -> io::Result<()> {
            evict(self.private_folder()?)?;
            mscclpp_base::file::write_private(&path, &encode(key, image))
        };
        if let Err(error) = store() {
            log::info!("{}: not kept: {error}", path.display());
        }
    }
}

/// The lock of a key, until it is dropped.
pub(super) struct KeyLock {
    file: fs::File,
    path: PathBuf,
}

impl Drop for KeyLock {
    /// Unlocks the file: to close it is not enough, since processes that were forked meanwhile have it too.
    fn drop(&mut self) {
        // Those that wait for it find the image, or compile it again.
        let _ = fs::remove_file(&self.path);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Checks that no other user except root can write to a file or folder.
fn check_private(found: &Metadata) -> io::Result<()> {
    let (user, what) = (rustix::process::geteuid().as_raw(), if found.is_dir() { "folder" } else { "file" });
    if found.uid() != user && found.uid() != 0 {
        let message = format!("the {what} belongs to user {}, expected user {user}", found.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        let message = format!("other users can write to the {what}: expected mode 700, found {mode:03o}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

fn digest(key: &str, rest: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(key);
    digest.update(rest);
    digest.finalize().into()
}

fn encode(key: &str, image: &Image) -> Vec<u8> {
    let mut rest = (image.code.len() as u64).to_le_bytes().to_vec();
    rest.extend(&image.code);
    rest.extend(image.log.as_bytes());
    let hash = digest(key, &rest);
    [&MAGIC[..], &hash, &rest].concat()
}

fn decode(key: &str, bytes: &[u8]) -> Option<Image> {
    let (head, rest) = (bytes.get(..HEADER_BYTES - 8)?, bytes.get(HEADER_BYTES - 8..)?);
    if head[..8] != MAGIC || head[8..] != digest(key, rest) {
        return None;
    }
    let len = u64::from_le_bytes(rest.get(..8)?.try_into().ok()?);
    let (code, log) = rest[8..].split_at_checked(usize::try_from(len).ok()?)?;
    Some(Image { code: code.to_vec(), log: String::from_utf8(log.to_vec()).ok()? })
}

/// Removes the oldest files of a full folder.
fn evict(folder: &Path) -> io::Result<()> {
    let is_image = |path: &Path| path.extension().is_some_and(|extension| extension == "image");
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_image(path));
    let files: Vec<PathBuf> = files.collect();
    if files.len() < MAX_FILES {
        return Ok(());
    }
    let age = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut aged: Vec<(SystemTime, PathBuf)> = files.into_iter().map(|path| (age(&path), path)).collect();
    aged.sort();
    // Another process may have removed the file first.
    aged.iter().take(MAX_FILES / 2).for_each(|(_, path)| drop(fs::remove_file(path)));
    Ok(())
}
