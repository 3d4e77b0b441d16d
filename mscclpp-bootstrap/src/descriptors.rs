//! How many file descriptors this process can still open, and what an error that there are none is about.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, IntoRawFd};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The last of the standard descriptors.
const STANDARD_ERROR: i32 = 2;

/// A limit of open files that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// That of this process.
    Process,
    /// That of all processes together.
    System,
}

impl Exhausted {
    /// Returns the limit that an error is about; `None` for another error.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error) {
            Some(Errno::MFILE) => Some(Self::Process),
            Some(Errno::NFILE) => Some(Self::System),
            _ => None,
        }
    }

    /// Returns its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Process => "RLIMIT_NOFILE",
            Self::System => "fs.file-max",
        }
    }

    /// Returns its value.
    pub(crate) fn allowed(self) -> u64 {
        let system = || fs::read_to_string("/proc/sys/fs/file-max").ok()?.trim().parse().ok();
        match self {
            Self::Process => getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
            Self::System => system().unwrap_or(u64::MAX),
        }
    }
}

/// Returns the number of descriptors that this process can still open.
pub(crate) fn free() -> usize {
    let limit = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
    match fs::read_dir("/dev/fd") {
        // One of them is that of the folder.
        Ok(open) => limit.saturating_sub(open.count().saturating_sub(1)),
        // A system that does not list them.
        Err(error) if error.kind() == ErrorKind::NotFound => limit / 2,
        Err(_) => 0,
    }
}

/// Opens `/dev/null` in place of closed standard descriptors, as each Rust program does at its start: what a program in another language
/// prints would get into a connection that has taken the number.
pub(crate) fn open_standard() {
    while let Ok(file) = File::options().read(true).write(true).open("/dev/null") {
        if file.as_raw_fd() > STANDARD_ERROR {
            return;
        }
        // It stays open.
        let _ = file.into_raw_fd();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::process::{Rlimit, setrlimit};

    use super::*;
    use crate::acceptor::Acceptor;
    use crate::protocol::Purpose;
    use crate::timeout::ActiveTimeout;
    use crate::{Bootstrap, Error, Secret, connect};

    /// Opens all descriptors that this process may have.
    fn take_all() -> Vec<fs::File> {
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..getrlimit(Resource::Nofile) }).unwrap();
        std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect()
    }

    #[test]
    fn job_without_descriptors_names_the_limit_and_continues() {
        // The limit holds for a whole process.
        let mut command = Command::new(std::env::current_exe().unwrap());
        let ended = command.args(["descriptors::tests::without_descriptors", "--exact", "--ignored", "--nocapture"]);
        let ended = ended.output().unwrap();
        let text = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        assert!(ended.status.success() && text.contains("1 passed"), "{}: {text}", ended.status);
    }

    #[test]
    #[ignore = "a process of another test"]
    fn without_descriptors() {
        const LIMIT: &str = "RLIMIT_NOFILE allows 64 open files, and all of them are open";
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(listener, Secret::derived(&[]), 0, 2).unwrap();
        let _waits = TcpStream::connect(at).unwrap();

        // An acceptor reports why it accepts no connection, once, and accepts it when there are descriptors again.
        let taken = take_all();
        let now = Instant::now();
        for seconds in 0..3 {
            acceptor.poll(now + Duration::from_secs(seconds));
        }
        assert_eq!(acceptor.rejections(), [format!("all connections (cannot accept a connection: {LIMIT})")]);
        let sockets = acceptor.sockets().count();
        drop(taken);
        while acceptor.sockets().count() <= sockets.max(1) {
            acceptor.poll(Instant::now() + Duration::from_secs(4));
            thread::sleep(Duration::from_millis(1));
        }

        // A rank that connects does not blame its peer.
        let purpose = Purpose::Stream { from: 2, to: 1, context: 0, id: 0, job: [0; 16] };
        let mut timeout = ActiveTimeout::new(Duration::from_secs(600));
        let taken = take_all();
        let error = connect::connect(&[at], purpose, &Secret::derived(&[]), &mut timeout, &|| Ok(())).unwrap_err();
        drop(taken);
        assert_eq!(error.to_string(), format!("rank 2 cannot connect to rank 1 at {at}: {LIMIT}"));
        assert!(error.help().unwrap().contains("ulimit -n"));

        // All ranks learn which rank has none.
        let [zero, one]: [Bootstrap; 2] = Bootstrap::local(2).unwrap().try_into().unwrap();
        let taken = take_all();
        let error = one.stream(0, 7).unwrap_err();
        drop(taken);
        assert_eq!(zero.barrier().unwrap_err(), error);
        let Error::CallFailed { who, call, reason, .. } = &error else { panic!("{error}") };
        assert_eq!((who.rank, error.kind(), error.lost()), (1, crate::ErrorKind::OutOfResources, vec![]));
        assert!(call.starts_with("stream 7 to rank 0") && reason.contains(LIMIT), "{error}");
    }

    #[test]
    fn open_files_are_not_free() {
        let limit = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(free() <= limit - files.len());
    }
}
