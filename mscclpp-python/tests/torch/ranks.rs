//! Processes that a test starts, and ends.

use std::io::{Read, Seek, SeekFrom};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum duration of a process.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A process, which is ended with this.
pub(crate) struct Rank {
    child: Child,
    /// What it prints; a file, because a pipe would fill up.
    printed: std::fs::File,
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rank {
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let mut start = || -> std::io::Result<Self> {
            let printed = tempfile::tempfile()?;
            let (out, err) = (printed.try_clone()?, printed.try_clone()?);
            Ok(Self { child: command.stdin(Stdio::null()).stdout(out).stderr(err).spawn()?, printed })
        };
        start().map_err(|error| error.to_string())
    }

    /// Waits until the process has ended, and returns what it printed.
    ///
    /// # Errors
    /// The same text if it failed.
    pub(crate) fn output(mut self) -> Result<String, String> {
        let end = Instant::now() + TIMEOUT;
        let status = loop {
            match self.child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break Some(status),
                None if Instant::now() > end => break None,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut text = Vec::new();
        self.printed.seek(SeekFrom::Start(0)).map_err(|error| error.to_string())?;
        self.printed.read_to_end(&mut text).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&text).into_owned();
        match status {
            Some(status) if status.success() => Ok(text),
            Some(status) => Err(format!("{status}:\n{text}")),
            None => Err(format!("it did not end within {TIMEOUT:?}:\n{text}")),
        }
    }
}
