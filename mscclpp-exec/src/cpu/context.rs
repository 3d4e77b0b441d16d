//! What a world keeps of a plan: its program, counters and scratch, and the state of its agents.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize};

use super::fifo::{Fifo, Trigger};
use super::program::Program;
use crate::numeric::Line;

/// A plan in a world. Launches of all sizes share it, one at a time.
pub(super) struct Context {
    pub(super) program: Program,
    /// Per channel: signals that arrived, and waits that were begun.
    pub(super) inbound: Box<[AtomicU64]>,
    pub(super) expected: Box<[AtomicU64]>,
    /// Units of each semaphore.
    pub(super) semaphores: Box<[AtomicI64]>,
    /// Arrivals at each barrier, over all launches.
    pub(super) barriers: Box<[AtomicU64]>,
    /// Thread blocks as in the program, then proxies.
    pub(super) agents: Box<[Agent]>,
    /// One queue per proxy.
    pub(super) fifos: Box<[Fifo]>,
    pub(super) progress: Progress,
    /// Per rank.
    pub(super) scratch: Mutex<Vec<Scratch>>,
}

/// Scratch of a rank; grows as messages need it.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) plain: Vec<Line>,
    pub(super) packets: Vec<Line>,
}

/// A thread block or proxy, and who works on it.
#[repr(align(64))]
pub(super) struct Agent {
    /// The launch in which it finished last.
    pub(super) finished: AtomicU64,
    pub(super) state: Mutex<State>,
}

/// Where an agent stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// The launch that this is about.
    pub(super) launch: u64,
    pub(super) at: Position,
    /// What the operation at hand waits for: a count of signals or arrivals, or a position in a queue.
    pub(super) ticket: u64,
    /// The loop at hand; it ends at `loop_end`, outside of loops that is 0.
    pub(super) loop_start: u32,
    pub(super) loop_end: u32,
    pub(super) trips: u64,
    /// Bytes of its window.
    pub(super) unit: u64,
    /// What a proxy is at.
    pub(super) trigger: Option<Trigger>,
}

/// What changes when an agent gets on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The instruction.
    pub(super) instr: u32,
    /// The reference, channel or semaphore in it.
    pub(super) number: u32,
    /// Whether the operation at hand has begun to wait.
    pub(super) waiting: bool,
    /// Bytes done.
    pub(super) done: u64,
    /// Iteration of the loop at hand.
    pub(super) iteration: u64,
}

/// How far a launch is.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Progress {
    /// Visits in which an agent got on.
    pub(super) events: AtomicU64,
    /// Thread blocks that have not finished.
    pub(super) remaining: AtomicUsize,
    /// An [`Outcome`].
    pub(super) outcome: AtomicU8,
    /// Pieces of the division at the end that were taken.
    pub(super) divided: AtomicU64,
}

/// How a launch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Outcome {
    Running = 0,
    Finished = 1,
    Stalled = 2,
    Failed = 3,
}

impl Progress {
    pub(super) fn outcome(&self) -> Outcome {
        match self.outcome.load(Acquire) {
            0 => Outcome::Running,
            1 => Outcome::Finished,
            2 => Outcome::Stalled,
            _ => Outcome::Failed,
        }
    }

    /// Ends the launch, unless it has ended.
    pub(super) fn end(&self, outcome: Outcome) {
        let _ = self.outcome.compare_exchange(
            Outcome::Running as u8,
            outcome as u8,
            std::sync::atomic::Ordering::AcqRel,
            Relaxed,
        );
    }
}

impl Context {
    pub(super) fn new(program: Program) -> Self {
        let zeros = |len: usize| (0..len).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        let agents = program.agents.len() + program.proxies.len();
        let agent = |_| Agent { finished: AtomicU64::new(0), state: Mutex::default() };
        let context = Self {
            inbound: zeros(program.channels.len()),
            expected: zeros(program.channels.len()),
            semaphores: program.semaphores.iter().map(|_| AtomicI64::new(0)).collect(),
            barriers: zeros(program.barriers.len()),
            agents: (0..agents).map(agent).collect(),
            fifos: program.proxies.iter().map(|_| Fifo::new()).collect(),
            progress: Progress::default(),
            scratch: Mutex::default(),
            program,
        };
        context.reset();
        context
    }

    /// Counters, semaphores, barriers and queues as before the first launch. A launch that failed leaves them anyhow.
    pub(super) fn reset(&self) {
        for counter in self.inbound.iter().chain(&self.expected).chain(&self.barriers) {
            counter.store(0, Relaxed);
        }
        for (semaphore, of) in self.semaphores.iter().zip(&self.program.semaphores) {
            semaphore.store(of.initial, Relaxed);
        }
        for agent in &self.agents {
            agent.state.clear_poison();
        }
        self.fifos.iter().for_each(Fifo::reset);
    }

    /// Makes ready for a launch. Agents reset themselves when they see a new launch number.
    pub(super) fn begin(&self) {
        let progress = &self.progress;
        progress.events.store(0, Relaxed);
        progress.remaining.store(self.program.agents.len(), Relaxed);
        progress.divided.store(0, Relaxed);
        progress.outcome.store(Outcome::Running as u8, Relaxed);
    }
}
