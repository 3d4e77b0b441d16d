//! State of a plan in an executor: the resolved plan, its counters and scratch, and the state of its agents.

use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

use mscclpp_base::interpret::{AgentState, Counters, ResolvedPlan};
use mscclpp_base::numeric::Line;

/// State of a plan. Launches of all message sizes share it, one at a time.
pub(super) struct PlanState {
    pub(super) program: ResolvedPlan,
    pub(super) counters: Counters,
    /// Thread blocks as in the resolved plan, then proxies.
    pub(super) agents: Box<[Agent]>,
    pub(super) progress: Progress,
    /// By rank.
    pub(super) scratch: Mutex<Vec<Scratch>>,
}

/// Scratch of a rank; grows to the size that messages need.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) plain: Vec<Line>,
    pub(super) packets: Vec<Line>,
}

/// A thread block or proxy, locked by the worker that runs it.
#[repr(align(64))]
pub(super) struct Agent {
    /// The last launch in which it finished.
    pub(super) finished: AtomicU64,
    pub(super) state: Mutex<AgentState>,
}

/// Progress of a launch.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Progress {
    /// Number of runs in which an agent made progress.
    pub(super) events: AtomicU64,
    /// Number of thread blocks that have not finished.
    pub(super) remaining: AtomicUsize,
    /// An [`Outcome`].
    pub(super) outcome: AtomicU8,
    /// Number of parts of the final division that workers have taken.
    pub(super) divided: AtomicU64,
}

/// Outcome of a launch.
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

impl PlanState {
    pub(super) fn new(program: ResolvedPlan) -> Self {
        let agents = program.agents.len() + program.proxies.len();
        let agent = |_| Agent { finished: AtomicU64::new(0), state: Mutex::default() };
        Self {
            counters: Counters::new(&program),
            agents: (0..agents).map(agent).collect(),
            progress: Progress::default(),
            scratch: Mutex::default(),
            program,
        }
    }

    /// Resets counters and agents to their state before the first launch. A failed launch leaves them in any state.
    pub(super) fn reset(&self) {
        self.counters.reset(&self.program);
        for agent in &self.agents {
            agent.state.clear_poison();
        }
    }

    /// Prepares for a launch. Agents reset themselves when they run in a launch with a new number.
    pub(super) fn begin(&self) {
        let progress = &self.progress;
        progress.events.store(0, Relaxed);
        progress.remaining.store(self.program.agents.len(), Relaxed);
        progress.divided.store(0, Relaxed);
        progress.outcome.store(Outcome::Running as u8, Relaxed);
    }
}
