//! Processes of a job, each with a rank.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use super::player::RANK;
use crate::mock;
use crate::port::Port;

/// Processes of a job, each with a rank; killed when dropped.
pub(crate) struct Job {
    ranks: Vec<Child>,
    _port: Port,
}

impl Job {
    /// Starts `ranks` processes in a role; `per_node` of them count as one node.
    pub(crate) fn start(role: &str, driver: &str, seed: u64, ranks: u32, per_node: u32) -> Result<Self, Failed> {
        let port = Port::new();
        let number = port.number;
        let libraries = if driver == "mock" { Some(mock::link_nvml()?) } else { None };
        let mut job = Self { ranks: Vec::new(), _port: port };
        for rank in 0..ranks {
            let child = Command::new(std::env::current_exe()?)
                .env(RANK, format!("{role} {driver} {seed}"))
                .envs([("RANK", rank.to_string()), ("WORLD_SIZE", ranks.to_string())])
                .envs(
                    [("LOCAL_RANK", rank % per_node), ("LOCAL_WORLD_SIZE", per_node)].map(|(k, v)| (k, v.to_string())),
                )
                .envs([("MASTER_ADDR", "127.0.0.1".to_owned()), ("MASTER_PORT", number.to_string())])
                .envs([("MSCCLPP_SECRET", format!("{seed:032x}")), ("MSCCLPP_TIMEOUT", "120".to_owned())])
                .env("MSCCLPP_HOST_ID", format!("node {}", rank / per_node))
                // Tests count threads and sockets, of which UCX has some.
                .env("MSCCLPP_TRANSPORT", std::env::var("MSCCLPP_TRANSPORT").as_deref().unwrap_or("tcp"))
                // Messages between nodes are late and out of order.
                .envs(role.starts_with("hostile").then(|| ("MSCCLPP_HOSTILE", seed.to_string())))
                .envs(libraries.iter().map(|folder| ("LD_LIBRARY_PATH", folder)))
                .env("MSCCLPP_HEARTBEAT_TIMEOUT", if role == "stopped" { "6" } else { "60" })
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            job.ranks.push(child);
        }
        Ok(job)
    }

    /// Kills a process.
    pub(crate) fn kill(&mut self, rank: usize) -> Result<(), Failed> {
        Ok(self.ranks[rank].kill()?)
    }

    /// Stops a process by a signal, without ending it.
    pub(crate) fn stop(&mut self, rank: usize) -> Result<(), Failed> {
        let done = Command::new("kill").args(["-s", "STOP", &self.ranks[rank].id().to_string()]).status()?;
        if done.success() { Ok(()) } else { Err("kill failed".into()) }
    }

    /// Waits until a rank has printed a line.
    pub(crate) fn wait_for_line(&mut self, rank: usize, line: &str) -> Result<(), Failed> {
        let mut text = Vec::new();
        let output = self.ranks[rank].stdout.as_mut().ok_or("no output")?;
        let mut byte = [0];
        while !text.ends_with(line.as_bytes()) {
            if output.read(&mut byte)? == 0 {
                return Err(format!("rank {rank} said `{}`", String::from_utf8_lossy(&text)).into());
            }
            text.push(byte[0]);
        }
        Ok(())
    }

    /// Waits for all processes; returns for each whether it succeeded, and its output.
    pub(crate) fn wait(self) -> Result<Vec<(bool, String)>, Failed> {
        self.wait_without(None)
    }

    /// Waits for all processes; one may run until all others have ended.
    pub(crate) fn wait_without(mut self, except: Option<usize>) -> Result<Vec<(bool, String)>, Failed> {
        let mut last = except.map(|rank| self.ranks.remove(rank));
        // A guard against hangs only.
        let deadline = Instant::now() + Duration::from_secs(500);
        // The output must be read, or a process with much output would block.
        let listen = |child: &mut Child| {
            let pipes: [Option<Box<dyn Read + Send>>; 2] = [
                child.stdout.take().map(|pipe| Box::new(pipe) as _),
                child.stderr.take().map(|pipe| Box::new(pipe) as _),
            ];
            pipes.map(|pipe| {
                thread::spawn(move || {
                    let mut text = String::new();
                    let _ = pipe.map(|mut pipe| pipe.read_to_string(&mut text));
                    text
                })
            })
        };
        let texts: Vec<_> = self.ranks.iter_mut().map(listen).collect();
        let mut ended = Vec::new();
        for (child, texts) in self.ranks.iter_mut().zip(texts) {
            let status = loop {
                match child.try_wait()? {
                    Some(status) => break status,
                    None if Instant::now() > deadline => {
                        let _ = child.kill();
                        break child.wait()?;
                    }
                    None => thread::sleep(Duration::from_millis(5)),
                }
            };
            let texts = texts.map(|text| text.join().unwrap_or_default()).concat();
            ended.push((status.success(), format!("{status}: {texts}")));
        }
        if let Some(last) = &mut last {
            last.kill()?;
            last.wait()?;
        }
        Ok(ended)
    }

    /// Waits for all processes, which must succeed.
    pub(crate) fn succeed(self) -> Result<(), Failed> {
        let ended = (0..).zip(self.wait()?);
        let failed: Vec<String> = ended
            .filter(|(_, (succeeded, _))| !succeeded)
            .map(|(rank, (_, text))| format!("rank {rank}, {text}"))
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
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
