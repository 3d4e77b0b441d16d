//! One process of a job, as the test sees it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::{HANG, LIVENESS, TIMEOUT};

/// One process.
pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts a rank.
    pub(crate) fn start(rank: u32, size: u32, port: u16, calls: u32, secret: &str) -> Self {
        Self::start_as("messages", rank, size, port, calls, secret)
    }

    pub(crate) fn start_as(work: &str, rank: u32, size: u32, port: u16, calls: u32, secret: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["rank::one_of_a_job", "--exact", "--ignored", "--nocapture"])
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", size.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string())
            .env("MSCCLPP_SECRET", secret)
            .env("MSCCLPP_TIMEOUT", TIMEOUT.to_string())
            .env("MSCCLPP_LIVENESS", LIVENESS.to_string())
            .env("FAULT_WORK", work)
            .env("FAULT_CALLS", calls.to_string())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process starts");
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix('@') {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { name: format!("rank {rank}"), child, lines }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).expect("a child that was not waited for takes signals");
    }

    /// Waits until it is connected; `false` if it ended before.
    pub(crate) fn wait_connected(&self) -> bool {
        self.lines.recv_timeout(HANG).is_ok_and(|line| line == "connected")
    }

    /// Waits until it has ended in order, and returns how.
    pub(crate) fn outcome(mut self) -> String {
        let until = Instant::now() + HANG;
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            assert!(!line.starts_with("leak"), "{}: {line}", self.name);
            if let Some(said) = line.strip_prefix("end: ") {
                let status = self.child.wait().unwrap();
                assert!(status.success(), "{} {status} after {said}", self.name);
                return said.to_owned();
            }
        }
        let _ = self.child.kill();
        let output = std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap_or_default();
        panic!("{} hangs or died: {output}", self.name);
    }
}

/// Whatever it does, it ends.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
