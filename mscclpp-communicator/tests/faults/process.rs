//! One process of a job.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::HANG;
use crate::round::Round;

/// One process.
pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts a rank of a round.
    pub(crate) fn start(round: &Round, work: &str, rank: u32, calls: u32) -> Self {
        Self::start_with(round, work, rank, calls, &[])
    }

    /// Starts a rank of a round, with additional environment variables.
    pub(crate) fn start_with(
        round: &Round,
        work: &str,
        rank: u32,
        calls: u32,
        more: &[(&str, &std::ffi::OsStr)],
    ) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["rank::one_of_a_job", "--exact", "--ignored", "--nocapture"])
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", round.size.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", round.port.number.to_string())
            .env("MSCCLPP_SECRET", &round.secret)
            .env("MSCCLPP_TIMEOUT", round.timeout.as_secs().to_string())
            .env("MSCCLPP_HEARTBEAT_TIMEOUT", round.liveness.as_secs().to_string())
            .env("FAULT_WORK", work)
            .env("FAULT_CALLS", calls.to_string())
            .env("RUST_BACKTRACE", "0")
            .envs(more.iter().copied())
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

    /// Waits until it has its connection thread, which it starts when rank 0 has accepted it; `false` if it ended
    /// before.
    pub(crate) fn wait_taken_in(&mut self) -> bool {
        let tasks = format!("/proc/{}/task", self.child.id());
        let name = format!("mscclpp {}\n", self.name);
        let is_there = || {
            let tasks = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok()).any(|found| found == name)
        };
        while self.child.try_wait().unwrap().is_none() {
            if is_there() {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Waits until it is connected; `false` if it ended before.
    pub(crate) fn wait_connected(&self) -> bool {
        self.lines.recv_timeout(HANG).is_ok_and(|line| line == "connected")
    }

    /// Returns the numbers of the next line that begins with `name`.
    pub(crate) fn wait_numbers(&self, name: &str) -> Vec<f64> {
        let line = self.lines.recv_timeout(HANG).expect("the rank prints a line");
        let numbers = line.strip_prefix(name).unwrap_or_else(|| panic!("{}: expected {name}, found {line}", self.name));
        numbers.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    /// Waits until it has ended in order, and returns its result.
    pub(crate) fn outcome(mut self) -> String {
        let until = Instant::now() + HANG;
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            assert!(!line.starts_with("leak"), "{}: {line}", self.name);
            if let Some(said) = line.strip_prefix("end: ") {
                assert!(!said.contains("/src/"), "{} names a place within the library: {said}", self.name);
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

/// Kills the process in any case.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
