//! The ranks of a job: their events, and the reactions.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{ChildStderr, ChildStdout, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_communicator::flight_recorder::DumpSignal;
use nix::sys::signal::{self, SigSet};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::environment::Environment;
use super::lines;
use super::rank::{self, Rank};
use super::restart::{Restarts, Scheduled};
use crate::args::LaunchArgs;
use crate::error::{Error, Result};
use crate::{exit, output};

/// Minimum time of ranks between the request to end and being killed.
const ASKED: Duration = Duration::from_secs(2);
/// Exit code of a Rust program whose main thread has panicked.
const PANICKED: u8 = 101;
/// Limit on draining output after the last rank has ended, as a process outside of its group may hold it open: a number
/// of polls, so that a machine that is suspended meanwhile loses nothing.
const DRAIN: (u32, Duration) = (20, Duration::from_millis(50));

/// The ranks of a job that run on this host.
#[derive(Debug)]
pub(super) struct Job {
    command: Vec<OsString>,
    /// Whether the ranks write to the launcher's output.
    inherit: bool,
    ranks: Vec<Rank>,
    /// By index in `ranks`.
    environments: Vec<Environment>,
    restarts: Restarts,
    started: Instant,
    grace: Duration,
    /// The signal on which ranks write dumps, if there is one.
    dump_signal: Option<i32>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    /// The first rank whose main thread panicked, as its output says.
    panicked: Option<u32>,
    /// Output streams that have not ended.
    open: usize,
    stage: Stage,
    /// The exit code, once it is determined.
    code: Option<u8>,
}

/// An event.
#[derive(Debug)]
enum Event {
    /// A rank has ended; its index in `ranks`.
    Ended(usize),
    /// The main thread of a rank panics.
    Panicked(u32),
    /// The launcher received a signal.
    Signal(i32),
    /// A stream of output has ended, or could not be written to the launcher's, of which this is the name.
    Output(&'static str, io::Result<()>),
}

/// Stage of ending the ranks.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// They run.
    Runs,
    /// They may end without a request until then.
    Grace(Instant),
    /// They were requested to end, and are killed then.
    Asked(Instant),
    /// They were killed.
    Killed,
}

impl Job {
    /// Creates a job without ranks. From now on it handles signals, also those that the parent process has blocked, except those that are
    /// ignored, so that `nohup` works.
    ///
    /// # Errors
    /// [`Error::Signals`].
    pub(super) fn new(args: &LaunchArgs, dump_signal: Option<DumpSignal>) -> Result<Self> {
        let (sender, events) = channel();
        let dump_signal = dump_signal.map(|signal| if signal == DumpSignal::Usr1 { SIGUSR1 } else { SIGUSR2 });
        let heard = [SIGHUP, SIGINT, SIGTERM].into_iter().chain(dump_signal).filter(|signal| !is_ignored(*signal));
        // If the end of a child is ignored, as the parent process may have set it, no child can be waited for.
        let heard: Vec<i32> = heard.chain([SIGCHLD]).collect();
        let mut signals = Signals::new(&heard).map_err(Error::Signals)?;
        let heard = heard.into_iter().map(signal::Signal::try_from).collect::<nix::Result<SigSet>>();
        heard.and_then(|heard| heard.thread_unblock()).map_err(|error| Error::Signals(error.into()))?;
        let to = sender.clone();
        let listen = move || {
            for signal in signals.forever().filter(|signal| *signal != SIGCHLD) {
                let _ = to.send(Event::Signal(signal));
            }
        };
        thread::Builder::new().spawn(listen).map_err(Error::Signals)?;
        let started = Instant::now();
        Ok(Self {
            command: args.command.clone(),
            inherit: args.no_prefix,
            ranks: Vec::new(),
            environments: Vec::new(),
            restarts: Restarts::new(args.restarts),
            started,
            grace: args.grace,
            dump_signal,
            sender,
            events,
            panicked: None,
            open: 0,
            stage: Stage::Runs,
            code: None,
        })
    }

    /// Starts a rank.
    ///
    /// # Errors
    /// [`Error::Start`]; the ranks that were started are killed.
    pub(super) fn start(&mut self, environment: Environment) -> Result<()> {
        self.environments.push(environment);
        self.start_at(self.environments.len() - 1, 0)
    }

    /// Starts the rank at an index, in place of its ended process.
    fn start_at(&mut self, place: usize, restarts: u32) -> Result<()> {
        let started = Rank::start(&self.command, &self.environments[place], self.inherit, restarts);
        let started = started.and_then(|mut rank| {
            let output = (rank.child.stdout.take(), rank.child.stderr.take());
            match self.ranks.get_mut(place) {
                Some(ended) => *ended = rank,
                None => self.ranks.push(rank),
            }
            self.spawn_monitors(place, output).map_err(|source| rank::cannot_start(&self.command, source))
        });
        if started.is_err() {
            self.kill();
        }
        started
    }

    /// Starts the threads that monitor a rank.
    fn spawn_monitors(
        &mut self,
        place: usize,
        (stdout, stderr): (Option<ChildStdout>, Option<ChildStderr>),
    ) -> io::Result<()> {
        let (rank, pid) = (self.ranks[place].rank, self.ranks[place].pid());
        if let Some(stdout) = stdout {
            self.pass_on(rank, stdout, ("standard output", io::stdout()))?;
        }
        if let Some(stderr) = stderr {
            self.pass_on(rank, stderr, ("standard error", io::stderr()))?;
        }
        let to = self.sender.clone();
        if let Some(pid) = pid {
            let wait = move || {
                // Waits without reaping the process: until it is reaped, its number is not reused.
                while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
                    .is_err_and(|error| error == rustix::io::Errno::INTR)
                {}
                let _ = to.send(Event::Ended(place));
            };
            thread::Builder::new().spawn(wait)?;
        }
        Ok(())
    }

    fn pass_on(
        &mut self,
        rank: u32,
        from: impl Read + Send + 'static,
        (name, to): (&'static str, impl Write + Send + 'static),
    ) -> io::Result<()> {
        let sender = self.sender.clone();
        let copy = move || {
            let copied = lines::copy(rank, from, to, || _ = sender.send(Event::Panicked(rank)));
            let _ = sender.send(Event::Output(name, copied));
        };
        thread::Builder::new().spawn(copy)?;
        self.open += 1;
        Ok(())
    }

    /// Waits until all ranks have ended, and returns the exit code.
    pub(super) fn run(mut self) -> u8 {
        while self.restarts.is_pending() || self.ranks.iter().any(|rank| rank.ended.is_none()) {
            match self.next() {
                Some(Event::Ended(place)) => self.ended(place),
                Some(Event::Panicked(rank)) => _ = self.panicked.get_or_insert(rank),
                Some(Event::Signal(signal)) => self.signalled(signal),
                Some(Event::Output(name, copied)) => self.output_ended(name, copied),
                None => self.expired(),
            }
        }
        let mut looks = DRAIN.0;
        while self.open > 0 && looks > 0 {
            match self.events.recv_timeout(DRAIN.1) {
                Ok(Event::Output(name, copied)) => self.output_ended(name, copied),
                Ok(_) => {}
                Err(_) => looks -= 1,
            }
        }
        self.code.unwrap_or(exit::SUCCESS)
    }

    /// Returns the next event, or `None` when the stage's time has expired or a rank is to be restarted.
    fn next(&self) -> Option<Event> {
        let until = match self.stage {
            Stage::Grace(until) | Stage::Asked(until) => Some(until),
            Stage::Runs | Stage::Killed => self.restarts.next(),
        };
        match until {
            Some(until) => self.events.recv_timeout(until.saturating_duration_since(Instant::now())).ok(),
            None => self.events.recv().ok(),
        }
    }

    fn ended(&mut self, place: usize) {
        let Some(status) = self.ranks[place].reap() else { return };
        if !status.success() && !self.schedule_restart(place, status) {
            self.failed(self.ranks[place].rank, status);
        }
    }

    /// Schedules the restart of a rank that has failed, if the job runs and has restarts left.
    fn schedule_restart(&mut self, place: usize, status: ExitStatus) -> bool {
        let Some(restart) = self.restarts.schedule(place, Instant::now()) else { return false };
        let Scheduled { number, limit, delay } = restart;
        let (rank, after) = (self.ranks[place].rank, self.started.elapsed().as_secs_f64());
        self.panicked = self.panicked.filter(|panicked| *panicked != rank);
        output::warn(format_args!(
            "rank {rank} {} after {after:.1} s; restarting it in {} ms (restart {number} of {limit})",
            rank::description(status),
            delay.as_millis(),
        ));
        true
    }

    /// Restarts the ranks whose time has come.
    fn restart(&mut self) {
        while let Some((place, restarts)) = self.restarts.take_due(Instant::now()) {
            if let Err(error) = self.start_at(place, restarts) {
                output::error(format_args!("{error}; stopping the other ranks"));
                self.code.get_or_insert(exit::UNAVAILABLE);
                return;
            }
        }
    }

    /// The first rank to fail determines the exit code; later failures are consequences. A rank that panics takes longer to end than
    /// those that its end makes fail.
    fn failed(&mut self, rank: u32, status: ExitStatus) {
        if self.code.is_some() {
            return;
        }
        let has_not_ended = |first: &Rank| first.rank != rank && first.ended.is_none();
        let first = self.ranks.iter().find(|first| Some(first.rank) == self.panicked && has_not_ended(first));
        let (rank, description) = match first {
            Some(first) => (first.rank, "panicked".to_owned()),
            None => (rank, rank::description(status)),
        };
        self.code = Some(first.map_or(rank::code(status), |_| PANICKED));
        let after = self.started.elapsed().as_secs_f64();
        let others = self.ranks.iter().filter(|rank| rank.ended.is_none()).count();
        let rest = match others {
            0 => String::new(),
            1 => "; stopping the other rank".into(),
            _ => format!("; stopping the other {others} ranks"),
        };
        output::error(format_args!("rank {rank} {description} after {after:.1} s{rest}"));
        self.enter(Stage::Grace(Instant::now() + self.grace));
    }

    /// Ends the ranks, of which none is restarted any more.
    fn enter(&mut self, stage: Stage) {
        self.restarts.cancel();
        self.stage = stage;
    }

    /// The signal for dumps is forwarded to the ranks that handle it. Any other one is forwarded to all ranks, which have to
    /// end; the second one kills them.
    fn signalled(&mut self, signal: i32) {
        if Some(signal) == self.dump_signal {
            return rank::forward_to_handlers(&self.ranks, signal);
        }
        if let Stage::Asked(_) = self.stage {
            return self.kill();
        }
        self.code.get_or_insert(u8::try_from(128 + signal).unwrap_or(exit::FAILURE));
        let signal = match signal {
            SIGINT => Signal::INT,
            SIGHUP => Signal::HUP,
            _ => Signal::TERM,
        };
        self.signal(signal);
        self.enter(Stage::Asked(Instant::now() + self.grace.max(ASKED)));
    }

    /// Without an output the output of the ranks would be lost. A reader that has left needs no message.
    fn output_ended(&mut self, name: &str, copied: io::Result<()>) {
        self.open -= 1;
        let Err(error) = copied else { return };
        if self.code.is_none() {
            self.code = Some(match error.kind() {
                io::ErrorKind::BrokenPipe => exit::BROKEN_PIPE,
                _ => {
                    output::error(format_args!("cannot write to {name}: {error}; stopping the ranks"));
                    exit::UNAVAILABLE
                }
            });
            self.kill();
        }
    }

    fn expired(&mut self) {
        match self.stage {
            Stage::Runs => self.restart(),
            Stage::Grace(_) => {
                self.signal(Signal::TERM);
                self.enter(Stage::Asked(Instant::now() + ASKED));
            }
            _ => self.kill(),
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.enter(Stage::Killed);
    }

    fn signal(&self, signal: Signal) {
        self.ranks.iter().for_each(|rank| rank.signal(signal));
        // A stopped process does not receive other signals.
        if signal != Signal::KILL {
            self.ranks.iter().for_each(|rank| rank.signal(Signal::CONT));
        }
    }
}

/// Returns whether the parent process has set a signal to be ignored.
fn is_ignored(signal: i32) -> bool {
    rank::has_disposition("self", "SigIgn:", signal)
}
