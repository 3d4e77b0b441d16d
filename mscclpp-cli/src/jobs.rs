//! The jobs of this user that `mscclpp launch` has started on this machine.
//!
//! Each launcher writes a file to a folder that only the user can read: `mscclpp` in `XDG_RUNTIME_DIR`, or else
//! `/tmp/mscclpp-UID`. It has the address of rank 0 and the secret of the job, with which other commands can ask its ranks. A
//! launcher removes its file at the end; files of launchers that were killed are removed by the next command that reads them.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use mscclpp_bootstrap::{Address, Secret};
use rustix::fs::OFlags;
use serde_json::{Value, json};

/// Maximum length of a file, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// A job that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The launcher's process, which identifies the job.
    pub(crate) pid: u32,
    /// Where rank 0 listens.
    pub(crate) address: Address,
    pub(crate) secret: Secret,
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// The program and its arguments.
    pub(crate) command: String,
}

/// The file of a job, which is removed with this.
#[derive(Debug)]
pub(crate) struct Recorded {
    path: PathBuf,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // The next command removes a file that remains.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the text of a command for people, shortened.
pub(crate) fn command_text(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ").chars().take(200).collect()
}

/// Records a job of this process.
///
/// # Errors
/// The system's error, or that the folder is not private to the user.
pub(crate) fn record(job: &Job) -> io::Result<Recorded> {
    record_in(&folder(), job)
}

fn record_in(folder: &Path, job: &Job) -> io::Result<Recorded> {
    check_private(folder, true)?;
    let text = json!({
        "pid": job.pid,
        "started": start_time(job.pid),
        "address": job.address.to_string(),
        "secret": job.secret.to_hex(),
        "ranks": job.ranks,
        "command": job.command,
    });
    // Renamed when it is complete, so that no reader sees a part of it. A file that a process of the same number left is
    // replaced.
    let (part, path) = (folder.join(format!(".{}.part", job.pid)), folder.join(format!("{}.json", job.pid)));
    let _ = fs::remove_file(&part);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    let written = file.write_all(text.to_string().as_bytes()).and_then(|()| fs::rename(&part, &path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.map(|()| Recorded { path })
}

/// Returns the jobs that run, in the order of their processes. Removes the files of those that do not run any more.
///
/// # Errors
/// The system's error, or that the folder is not private to the user. No folder is no job.
pub(crate) fn running() -> io::Result<Vec<Job>> {
    running_in(&folder())
}

fn running_in(folder: &Path) -> io::Result<Vec<Job>> {
    match check_private(folder, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        checked => checked?,
    }
    let mut jobs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Some((job, started)) = read(&path).ok().and_then(|text| parse(&text)) else { continue };
        match start_time(job.pid) {
            Some(now) if Some(now) == started => jobs.push(job),
            // The process has ended, and its number may have been reused.
            _ => _ = fs::remove_file(&path),
        }
    }
    jobs.sort_by_key(|job| job.pid);
    Ok(jobs)
}

fn parse(text: &str) -> Option<(Job, Option<u64>)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let word = |name: &str| value[name].as_str();
    let number = |name: &str| u32::try_from(value[name].as_u64()?).ok();
    let job = Job {
        pid: number("pid")?,
        address: word("address")?.parse().ok()?,
        secret: word("secret")?.parse().ok()?,
        ranks: number("ranks")?,
        command: word("command")?.to_owned(),
    };
    Some((job, value["started"].as_u64()))
}

/// Reads a file of the folder. Opening does not wait, and follows no link.
fn read(path: &Path) -> io::Result<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("expected a regular file"));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute()) {
        Some(folder) => Path::new(&folder).join("mscclpp"),
        None => PathBuf::from(format!("/tmp/mscclpp-{}", user())),
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Checks that a folder exists, belongs to this user, and that no other user can read or change it; creates it if requested.
fn check_private(folder: &Path, create: bool) -> io::Result<()> {
    if create {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    // A link that another user has placed there is not followed.
    let found = fs::symlink_metadata(folder)?;
    let (owner, mode, user) = (found.uid(), found.mode() & 0o7777, user());
    if found.is_dir() && owner == user && mode & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{}: expected a folder of user {user} with mode 0700, found {} of user {owner} with mode {mode:04o}",
        folder.display(),
        if found.is_dir() { "a folder" } else { "a file" },
    )))
}

/// Returns when a process started, in clock ticks since boot; `None` if it has ended.
fn start_time(pid: u32) -> Option<u64> {
    number_of_process(pid, 22)
}

/// Returns a field of `/proc/PID/stat`, counted from 1 as in proc(5), after the name; `None` if the process has ended.
pub(crate) fn number_of_process(pid: u32, field: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the name in parentheses, may contain spaces and parentheses. The third is the state.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(field.checked_sub(4)?).filter(|_| !has_ended)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn job() -> Job {
        Job {
            pid: std::process::id(),
            address: "127.0.0.1:4711".parse().unwrap(),
            secret: Secret::derived(&["a test"]),
            ranks: 3,
            command: command_text(&["./train".into(), "-x".into()]),
        }
    }

    #[test]
    fn job_is_found_until_its_end_and_only_its_user_can_read_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("mscclpp");
        assert_eq!(running_in(&folder).unwrap(), []);
        let recorded = record_in(&folder, &job()).unwrap();
        assert_eq!(running_in(&folder).unwrap(), [job()]);
        for (path, mode) in [(&folder, 0o700), (&recorded.path, 0o600)] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
        }
        drop(recorded);
        assert_eq!(running_in(&folder).unwrap(), []);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn files_of_ended_processes_are_removed_and_invalid_ones_skipped() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("mscclpp");
        let recorded = record_in(&folder, &job()).unwrap();
        let text = fs::read_to_string(&recorded.path).unwrap();
        let started = start_time(std::process::id()).unwrap();
        // A process with this number that started at another time, and one that does not exist.
        fs::write(&recorded.path, text.replace(&started.to_string(), "1")).unwrap();
        let other = folder.join("0.json");
        fs::write(&other, text.replace(&format!("\"pid\":{}", std::process::id()), "\"pid\":4294967295")).unwrap();
        for name in ["a.json", "b.json"] {
            fs::write(folder.join(name), "{}").unwrap();
        }
        std::os::unix::fs::symlink("/dev/zero", folder.join("c.json")).unwrap();
        assert_eq!(running_in(&folder).unwrap(), []);
        assert!(!recorded.path.exists() && !other.exists() && folder.join("a.json").exists());
    }

    #[test]
    fn folder_that_others_can_change_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("mscclpp");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        for result in [record_in(&folder, &job()).map(drop), running_in(&folder).map(drop)] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("with mode 0700, found a folder") && error.contains("0755"), "{error}");
        }
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).unwrap();
        assert!(record_in(&link, &job()).is_err());
    }
}
