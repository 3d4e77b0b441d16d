//! Selects the agent to run next, and detects when no agent can make progress.
//!
//! # Why stall detection is exact
//!
//! A worker runs an agent under its lock, and counts an event before it unlocks if the agent made progress. A worker
//! that finds every agent either finished (its last event counted), or unlocked and unable to make progress, and that
//! reads the same number of events before and after that round, has proved a stall. For suppose that an agent made
//! progress during the round, and take the first one that did. No worker was running it when the round reached it, or
//! its lock would have been taken. If that run ended before, its event was counted in the round, and the number
//! differs. If it began after, the agent could not make progress when the round reached it, so another one must have
//! made progress between the two, which then was the first. Agents wait for nothing other than each other, so when none
//! can make progress, none ever will.

use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError, TryLockError};

use super::executor::lock;
use super::plan_state::{Outcome, PlanState};
use mscclpp_base::error::Stall;
use mscclpp_base::interpret::program::Block;
use mscclpp_base::interpret::timeline::Stamps;
use mscclpp_base::interpret::{AgentState, Launch, Progress, Worker};
use mscclpp_base::numeric::{LINE, LINES};
use mscclpp_base::random::Random;

/// Order in which agents run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Schedule {
    /// One after the other, each until it blocks or finishes, on all workers.
    #[default]
    RoundRobin,
    /// One worker runs agents in random order and switches at random points, the same ones for the same seed. Slow; it
    /// exposes plans that work only in favorable orders.
    Seeded(u64),
}

/// Result of a round.
#[derive(Clone, Copy, Default)]
struct Round {
    /// Whether an agent made progress.
    progress: bool,
    /// Whether another worker was running an agent.
    busy: bool,
}

/// Number of rounds without progress in which a worker spins before it yields its processor.
const SPINS: u32 = 20;

/// A launch whose agents are scheduled on the workers.
pub(super) struct LaunchSchedule<'a, R> {
    pub(super) context: &'a PlanState,
    pub(super) launch: Launch<'a>,
    pub(super) runner: R,
}

/// How thread blocks run: [`Plain`], or with stamps by thread block.
pub(super) trait Runner {
    /// Runs the thread block of this number.
    fn run(&self, launch: &Launch<'_>, worker: &mut Worker, number: usize, state: &mut AgentState) -> Progress;
}

/// Records nothing.
pub(super) struct Plain;

impl Runner for Plain {
    fn run(&self, launch: &Launch<'_>, worker: &mut Worker, number: usize, state: &mut AgentState) -> Progress {
        launch.run(worker, code(launch, number), state)
    }
}

impl Runner for &[Mutex<Stamps>] {
    fn run(&self, launch: &Launch<'_>, worker: &mut Worker, number: usize, state: &mut AgentState) -> Progress {
        launch.run_recorded(worker, code(launch, number), state, &mut *lock(&self[number]))
    }
}

fn code<'l>(launch: &'l Launch<'_>, number: usize) -> &'l Block {
    &launch.program.agents[number]
}

impl<R: Runner> LaunchSchedule<'_, R> {
    /// Returns the report of a stall, after all workers have left.
    pub(super) fn stall(&self) -> Stall {
        let waiting: Vec<(u32, AgentState)> = (0..self.launch.program.agents.len() as u32)
            .zip(&self.context.agents)
            .filter(|(_, agent)| agent.finished.load(Relaxed) != self.launch.number)
            .map(|(number, agent)| (number, *agent.state.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect();
        self.launch.stall(&waiting, &[], &[])
    }

    /// Runs the launch as worker `index` of `of` until it has ended.
    pub(super) fn work(&self, worker: &mut Worker, index: usize, of: usize, schedule: Schedule) {
        match schedule {
            Schedule::RoundRobin => self.round_robin(worker, index, of),
            Schedule::Seeded(seed) => self.seeded(worker, seed),
        }
        if self.context.progress.outcome() == Outcome::Finished {
            self.divide(worker);
        }
    }

    fn round_robin(&self, worker: &mut Worker, index: usize, of: usize) {
        let agents = self.context.agents.len();
        let progress = &self.context.progress;
        let own = agents * index / of..agents * (index + 1) / of;
        let mut idle = 0;
        while progress.outcome() == Outcome::Running {
            let before = progress.events.load(Acquire);
            let mut round = Round::default();
            self.visit_all(worker, own.clone(), &mut round);
            if !round.progress && of > 1 {
                // Run the agents of other workers.
                self.visit_all(worker, own.end..agents, &mut round);
                self.visit_all(worker, 0..own.start, &mut round);
            }
            if self.is_finished() {
                progress.end(Outcome::Finished);
            } else if round.progress {
                idle = 0;
            } else if !round.busy && progress.events.fetch_add(0, AcqRel) == before {
                progress.end(Outcome::Stalled);
            } else {
                idle += 1;
                if idle < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
        }
    }

    fn seeded(&self, worker: &mut Worker, seed: u64) {
        let agents = self.context.agents.len();
        let progress = &self.context.progress;
        let mut random = Random(seed ^ self.launch.number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        while progress.outcome() == Outcome::Running {
            let mut any = false;
            for _ in 0..2 * agents {
                worker.fuel = 1 + random.below(6);
                worker.quantum = LINE as u64 * (1 + random.below(2 * LINES as u64));
                let mut round = Round::default();
                self.visit(worker, random.below(agents as u64) as usize, &mut round);
                any |= round.progress;
            }
            worker.fuel = u64::MAX;
            if self.is_finished() {
                progress.end(Outcome::Finished);
            } else if !any {
                // The random selection may have missed a runnable agent, so run all of them.
                let mut round = Round::default();
                self.visit_all(worker, 0..agents, &mut round);
                if !round.progress && !self.is_finished() {
                    progress.end(Outcome::Stalled);
                }
            }
        }
        worker.quantum = u64::MAX;
    }

    /// Returns whether every thread block and every proxy has finished.
    fn is_finished(&self) -> bool {
        let context = self.context;
        context.progress.remaining.load(Acquire) == 0 && context.counters.fifos.iter().all(|fifo| fifo.is_drained())
    }

    fn visit_all(&self, worker: &mut Worker, agents: Range<usize>, round: &mut Round) {
        for agent in agents {
            self.visit(worker, agent, round);
        }
    }

    fn visit(&self, worker: &mut Worker, number: usize, round: &mut Round) {
        let agent = &self.context.agents[number];
        if agent.finished.load(Acquire) == self.launch.number {
            return;
        }
        let mut state = match agent.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => {
                round.busy = true;
                return;
            }
            // Another worker panicked there, and has ended the launch.
            Err(TryLockError::Poisoned(_)) => return,
        };
        if agent.finished.load(Acquire) == self.launch.number {
            return;
        }
        if state.launch != self.launch.number {
            let start = self.launch.program.agents.get(number).map_or(0, |code| code.start);
            *state = AgentState::begin(self.launch.number, start);
        }
        let before = state.at;
        let progress = &self.context.progress;
        let step = match number.checked_sub(self.launch.program.agents.len()) {
            None => self.runner.run(&self.launch, worker, number, &mut state),
            Some(proxy) => self.launch.serve(worker, proxy, &mut state),
        };
        if step == Progress::Next {
            progress.remaining.fetch_sub(1, AcqRel);
        }
        if state.at != before || step == Progress::Next {
            round.progress = true;
            self.launch.count(&progress.events, AcqRel);
        }
        // Last: a worker that skips a finished agent must observe its progress, or it takes the launch for stalled.
        if step == Progress::Next {
            agent.finished.store(self.launch.number, Release);
        }
    }

    /// Divides the results by the number of ranks, if the reduction is an average. The workers share the parts.
    fn divide(&self, worker: &mut Worker) {
        const PART_BYTES: u64 = 1 << 18;
        if self.launch.params.divide.is_none() {
            return;
        }
        let ranks = self.launch.program.shape.ranks;
        let parts = self.launch.params.layout.output.len.div_ceil(PART_BYTES);
        loop {
            let part = self.context.progress.divided.fetch_add(1, AcqRel);
            let Some(rank) = part.checked_div(parts).filter(|&rank| rank < ranks.into()) else {
                return;
            };
            if let Some(area) = self.launch.params.result(self.launch.program, rank as u32) {
                self.launch.divide(worker, area, part % parts * PART_BYTES, PART_BYTES);
            }
        }
    }
}
