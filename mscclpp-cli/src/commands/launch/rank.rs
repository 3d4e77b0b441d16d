//! One rank's process.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::low_level::signal_name;

use super::environment::Environment;
use crate::error::{Error, Result};
use crate::exit;
use crate::jobs::number_of_process;

/// A rank that was started.
#[derive(Debug)]
pub(super) struct Rank {
    /// Rank in the whole job.
    pub(super) rank: u32,
    /// Its process.
    pub(super) child: Child,
    /// Its exit status, once it has ended.
    pub(super) ended: Option<ExitStatus>,
}

impl Rank {
    /// Starts the program as a rank, for the first time or after `restarts` restarts: in a separate process group, so that signals reach its child processes and a
    /// terminal's signals come from the launcher alone.
    ///
    /// # Errors
    /// [`Error::Start`].
    pub(super) fn start(command: &[OsString], environment: &Environment, inherit: bool, restarts: u32) -> Result<Self> {
        let start = |source| cannot_start(command, source);
        let output = || if inherit { Stdio::inherit() } else { Stdio::piped() };
        let mut guard = Command::new(std::env::current_exe().map_err(start)?);
        guard.arg("guard").arg(std::process::id().to_string());
        if let Some(cpus) = &environment.cpus {
            guard.arg("--cpus").arg(cpus);
        }
        guard.arg("--").args(command);
        guard.stdin(Stdio::null()).stdout(output()).stderr(output()).process_group(0);
        for (name, value) in &environment.variables {
            match value {
                Some(value) => guard.env(name, value),
                None => guard.env_remove(name),
            };
        }
        if restarts > 0 {
            guard.env("MSCCLPP_RESTART", restarts.to_string());
        }
        Ok(Self { rank: environment.rank, child: guard.spawn().map_err(start)?, ended: None })
    }

    /// Returns its process number, for signals.
    pub(super) fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Sends a signal to its process group, unless it was reaped: its number may have been reused.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().filter(|_| self.ended.is_none()) {
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Reaps the ended process, and ends child processes that it left running.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::KILL);
        self.ended = self.child.wait().ok();
        self.ended
    }
}

/// Sends a signal to the processes of ranks that handle it. Others, such as a shell that has started the program, or a program that
/// has not joined its job yet, would end by it.
pub(super) fn forward_to_handlers(ranks: &[Rank], signal: i32) {
    let Some(named) = Signal::from_named_raw(signal) else { return };
    let live = ranks.iter().filter(|rank| rank.ended.is_none());
    let groups: Vec<_> = live.map(|rank| u64::from(rank.child.id())).collect();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for process in
        processes.filter(|process| number_of_process(*process, 5).is_some_and(|group| groups.contains(&group)))
    {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| has_disposition(&process.to_string(), "SigCgt:", signal)) {
            let _ = kill_process(pid, named);
        }
    }
}

/// Returns whether a signal is in a mask of a process: `SigIgn:` or `SigCgt:`.
pub(super) fn has_disposition(process: &str, mask: &str, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix(mask)?.trim(), 16).ok());
    // Bit 0 represents signal 1.
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Returns the error for a rank that the system cannot start.
pub(super) fn cannot_start(command: &[OsString], source: io::Error) -> Error {
    let program = command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    Error::Start { program, source, code: exit::UNAVAILABLE }
}

/// Describes the exit status of a rank.
pub(super) fn description(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => match signal_name(signal) {
            Some(name) => format!("was terminated by signal {signal} ({name})"),
            None => format!("was terminated by signal {signal}"),
        },
        (None, None) => "ended with an unknown status".into(),
    }
}

/// Returns the exit code for the exit status of a rank.
pub(super) fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_described_and_converted() {
        let killed = ExitStatus::from_raw(9);
        assert_eq!((description(killed).as_str(), code(killed)), ("was terminated by signal 9 (SIGKILL)", 137));
        let failed = ExitStatus::from_raw(3 << 8);
        assert_eq!((description(failed).as_str(), code(failed)), ("exited with code 3", 3));
    }
}
