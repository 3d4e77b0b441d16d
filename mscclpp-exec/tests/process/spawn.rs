//! Ranks as processes: this test program starts itself, once per rank, with a role.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mscclpp_bootstrap::Bootstrap;
use mscclpp_exec::process::{Executor, Options};

use crate::common::port::Port;

/// Environment variable for the role of a process.
const ROLE: &str = "MSCCLPP_TEST_ROLE";

/// Timeout of the ranks' waits for each other, in seconds: longer than any successful test takes.
pub const DEADLINE: u64 = 120;

/// Timeout of ranks of which one is stopped, in seconds; longer than any of them may go without a processor.
const SHORT: u64 = 5;

/// The processes of a job; killed when dropped.
pub struct Job {
    pub ranks: Vec<Child>,
    _port: Port,
}

/// Result of a process: its exit code, and its output.
pub struct Ended {
    pub code: Option<i32>,
    pub text: String,
}

impl Job {
    /// Starts `ranks` processes in a role; `per_node` of them count as one node.
    pub fn start(role: &str, ranks: u32, per_node: u32) -> Self {
        let port = Port::new();
        let start = |rank: u32| {
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["--exact", "process::spawn::role", "--nocapture", "--test-threads=1"]);
            command.env(ROLE, role).env("RUST_BACKTRACE", "0");
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
            command.env("LOCAL_RANK", (rank % per_node).to_string()).env("LOCAL_WORLD_SIZE", per_node.to_string());
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.number.to_string());
            // A stopped rank is detected by the timeout of calls.
            command.env("MSCCLPP_TIMEOUT", DEADLINE.to_string()).env("MSCCLPP_HEARTBEAT_TIMEOUT", DEADLINE.to_string());
            command.env("MSCCLPP_HOST_ID", format!("node {}", rank / per_node));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process")
        };
        Self { ranks: (0..ranks).map(start).collect(), _port: port }
    }

    /// Sends a signal to a rank.
    pub fn signal(&self, rank: usize, signal: &str) {
        let pid = self.ranks[rank].id().to_string();
        let done = Command::new("kill").args(["-s", signal, &pid]).status().expect("kill");
        assert!(done.success(), "kill -s {signal} {pid}");
    }

    /// Waits until a rank has printed a line.
    pub fn wait_for_line(&mut self, rank: usize, line: &str) {
        let mut text = Vec::new();
        let output = self.ranks[rank].stdout.as_mut().expect("a pipe");
        let mut byte = [0];
        while !text.ends_with(line.as_bytes()) {
            assert_eq!(output.read(&mut byte).expect("a pipe"), 1, "{}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
    }

    /// Waits for all ranks, with a limit of some minutes as a guard against hangs.
    pub fn wait(mut self) -> Vec<Ended> {
        // A guard against hangs only; long soak tests take longer.
        let soak = std::env::var("MSCCLPP_SOAK").ok().and_then(|calls| calls.parse::<u64>().ok()).unwrap_or(0);
        let deadline = Instant::now() + Duration::from_secs(300 + soak / 100);
        let waits = |child: &mut Child| {
            while child.try_wait().expect("a child").is_none() {
                assert!(Instant::now() < deadline, "a rank hangs");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        self.ranks.iter_mut().for_each(waits);
        let ended = |mut child: Child| {
            let mut text = String::new();
            let _ = child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut text));
            let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut text));
            Ended { code: child.wait().expect("a child").code(), text }
        };
        std::mem::take(&mut self.ranks).into_iter().map(ended).collect()
    }

    /// Waits for all ranks, all of which must succeed.
    pub fn succeed(self) -> Vec<String> {
        let ended = self.wait();
        for (rank, ended) in ended.iter().enumerate() {
            assert_eq!(ended.code, Some(0), "rank {rank}: {}", ended.text);
        }
        ended.into_iter().map(|ended| ended.text).collect()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for child in &mut self.ranks {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Not a test by itself: the work of a process that was started with a role.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let group = Bootstrap::from_env().expect("a group");
    let deadline = Duration::from_secs(if role == "stopped" { SHORT } else { DEADLINE });
    let transport = Executor::with_options(Arc::new(group), Options::default().timeout(deadline)).expect("a transport");
    super::processes::play(&role, transport);
}
