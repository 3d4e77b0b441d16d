//! Schedule fuzzer: runs a scaled-down plan under adversarial schedules and weak memory.
//!
//! It is independent of the checker and of the executors: it shares the plan types with them and nothing else. Passing proves
//! nothing; a failure is a defect of the plan. The plan is scaled down (chunks of a few vectors, blocks of a few threads) and run
//! over several launches, and every result is compared with the postcondition of its collective, contribution by contribution.
//!
//! What it models:
//!
//! * **Threads.** Every thread of a block executes independently between two block syncs. An operation assigns the
//!   elements of its range to threads round-robin: vectors of two cells in plain operations, cells in packet
//!   operations. Control operations are executed by thread i for their i-th channel or semaphore.
//! * **Weak memory.** A write is visible to another thread once a chain of block syncs, signals, waits, releases,
//!   acquires and barriers leads from one to the other; until then every read returns either value, and of two
//!   unordered writes either may remain. Relaxed signals and waits order execution, but publish nothing. When a kernel
//!   has ended its writes are visible to all threads, and to a starting kernel all earlier writes are visible.
//! * **Ports.** A channel reads its sources arbitrarily late, and the data arrives arbitrarily late, across launches
//!   too. One channel delivers in order: a signal after the puts before it. [`ScheduleFuzzer::reorders_puts`] keeps this
//!   order of signals, and of puts to the same memory, only. A flush waits until the sources were read, and for nothing else.
//! * **Packets** contain the launch in their flag. A packet that is overwritten before it is read is never found.
//!   Packets are in the same scratch as plain data, packet `k` over cells `2k` and `2k + 1`, if a plan has both.
//! * **Launches.** A rank starts its next launch when its own blocks have ended. In between its caller checks the
//!   outputs, writes new inputs and often poison to the outputs. A launch barrier between launches affects memory only:
//!   all earlier writes are visible to a kernel that starts, and to a caller. [`ScheduleFuzzer::without_barriers`]
//!   removes it: then the end of a kernel publishes what that kernel had written and what was visible to it, to its own
//!   rank and to ranks that acquire the start of the rank's next launch, and nothing else.
//! * **Sizes.** Loops make few iterations, or a few more than credits are released outside of them. Successive launches
//!   may have different sizes, in memory for the largest one; then all ranks synchronize in between, and no port has
//!   triggers of an earlier launch in flight. [`ScheduleFuzzer::sizes_follow`] removes that, too.
//! * **Switch channels** read and write every member's memory, element by element.
//! * **Schedules** that starve some agents: a rank, a block, a thread, all ports, the callers.
//!
//! * **Short chunks.** In half of the runs a message does not fill the last chunks of its parts: there zero is read, and
//!   what is written is discarded.
//!
//! What it does not model: thread-block limits, byte offsets, reductions other
//! than sums (all are executed as sums, so that double counting is detected), loads that are overtaken by later relaxed
//! signals, wake-ups of a semaphore's waiters in another order than first come, first served.
//!
//! ```
//! use mscclpp_fuzz::ScheduleFuzzer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let algorithm = mscclpp_algorithms::find("allreduce_one_shot_packets").expect("a built-in algorithm");
//! let mut plan = algorithm.compile_tree(algorithm.spec(2, 2), &[1])?;
//! assert_eq!(ScheduleFuzzer::new(&plan).find_failure(0..50)?, None);
//! // The packets of a fast rank's next launch overwrite those that a slow rank has not read.
//! plan.double_scratch = false;
//! assert!(ScheduleFuzzer::new(&plan).find_failure(0..50)?.is_some());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod at_counts;
mod caller;
mod clock;
mod failure;
mod memory;
mod port;
mod program;
mod random;
mod scale;
mod scale_down;
mod schedule;
mod simulator;
mod step;
mod value;

use std::ops::Range;

pub use at_counts::at_counts;
pub use failure::{Failure, UnsupportedPlan};
use mscclpp_core::plan::raw::PlanTree;

use crate::random::Random;
use program::Sized;
use scale::Scale;
use simulator::Simulator;

/// Runs a scaled-down plan under adversarial schedules and weak memory.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleFuzzer<'p> {
    plan: &'p PlanTree,
    launches: u32,
    max_steps: u64,
    target_block: Option<(u32, u32)>,
    barriers: bool,
    trips: Option<u64>,
    synchronizes: bool,
    frees_scratch: bool,
    reorders_puts: bool,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Every launch ended with the correct results.
    Passed {
        /// Unordered reads and overwrites of plain data, though the results are correct.
        unordered: u64,
    },
    /// The plan has a defect.
    Failed(Failure),
    /// The run reached its limit of steps.
    StepLimit,
}

impl<'p> ScheduleFuzzer<'p> {
    /// Creates a fuzzer for a plan: three successive launches, at most 20 million steps.
    pub fn new(plan: &'p PlanTree) -> Self {
        Self {
            plan,
            launches: 3,
            max_steps: 20_000_000,
            target_block: None,
            barriers: true,
            trips: None,
            synchronizes: true,
            frees_scratch: false,
            reorders_puts: false,
        }
    }

    /// Sets the number of launches.
    #[must_use]
    pub fn launches(mut self, launches: u32) -> Self {
        self.launches = launches.max(1);
        self
    }

    /// Sets the maximum number of steps of a run. A step moves an element or attempts to make progress. In plans with
    /// thousands of threads each step counts for several, since it takes longer.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = steps;
        self
    }

    /// Delays the threads of one thread block more often than others.
    #[must_use]
    pub fn target_block(mut self, rank: u32, block: u32) -> Self {
        self.target_block = Some((rank, block));
        self
    }

    /// Removes launch barriers: only signals, waits and the ends of kernels make the writes of other ranks visible to a rank's kernel
    /// and caller. Plans that can start and end without a barrier according to
    /// [`launch_boundaries`](mscclpp_core::check::launch_boundaries) pass.
    #[must_use]
    pub fn without_barriers(mut self) -> Self {
        self.barriers = false;
        self
    }

    /// Frees a rank's scratch when its last launch has ended: accesses of other ranks after that are failures, and so are
    /// their writes that may still be in flight. Plans that can free it without a barrier according to
    /// [`launch_boundaries`](mscclpp_core::check::launch_boundaries) pass.
    #[must_use]
    pub fn frees_scratch(mut self) -> Self {
        self.frees_scratch = true;
        self
    }

    /// Selects a size at which the longest loop makes `iterations` iterations, if the plan has loops. By default the seed
    /// selects few iterations, or a few more than the plan's credits or initial units.
    #[must_use]
    pub fn iterations(mut self, iterations: u64) -> Self {
        self.trips = Some(iterations.max(1));
        self
    }

    /// Lets launches of different sizes follow each other like those of one size. Plans whose sizes may follow
    /// according to [`launch_boundaries`](mscclpp_core::check::launch_boundaries) pass. By default sizes change, too,
    /// but all ranks synchronize before each change.
    #[must_use]
    pub fn sizes_follow(mut self) -> Self {
        self.synchronizes = false;
        self
    }

    /// Lets puts of a port channel overtake each other and signals within a launch, as an engine between nodes may deliver
    /// them; a signal still arrives after all puts before it, and a put after earlier ones to the same memory. By default one channel delivers in order.
    #[must_use]
    pub fn reorders_puts(mut self) -> Self {
        self.reorders_puts = true;
        self
    }

    /// Runs the plan once, a plan whose sizes are counts with a random table of them. The seed determines the sizes and the whole schedule; the same seed gives the same run on every machine.
    ///
    /// # Cost
    /// A launch takes about as many steps as the plan moves vectors if a chunk is a few hundred bytes.
    ///
    /// # Errors
    /// [`UnsupportedPlan`] for a plan that cannot be executed, which the checker's first rule rejects, and for one that
    /// is too large even when it is scaled down: more than 8192 threads and ports, or 2²⁴ cells of memory.
    pub fn run(&self, seed: u64) -> Result<Outcome, UnsupportedPlan> {
        let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        if self.plan.is_counted() {
            let (ranks, max) = (self.plan.ranks.len(), 1 + random.below(3));
            let counts: Vec<Vec<u32>> =
                (0..ranks).map(|_| (0..ranks).map(|_| random.below(max + 1) as u32).collect()).collect();
            // An invalid plan has counted operations without counts, which stay counted.
            let fixed = at_counts(self.plan, &counts, max as u32).filter(|fixed| !fixed.is_counted());
            let fixed = fixed.ok_or_else(UnsupportedPlan::counts)?;
            return ScheduleFuzzer { plan: &fixed, ..*self }.run(seed);
        }
        let mut scales = self.scales(&mut random);
        // Of a generator of its own, so that the schedules of a seed are those of full chunks.
        let mut uneven = Random::new(seed.wrapping_mul(0x9fb2_1c65_1e98_df25) ^ 0x5851_f42d_4c95_7f2d);
        scales.iter_mut().for_each(|scale| scale.missing = Scale::random_missing(self.plan, &mut uneven));
        let room = scales.iter().map(|scale| scale.chunk).max().unwrap_or(0);
        let sized = |scale| Ok(Sized { program: scale_down::scale_down(self.plan, &scale, room)?, scale });
        let sizes = scales.into_iter().map(sized).collect::<Result<Vec<_>, UnsupportedPlan>>()?;
        let max_steps = self.max_steps / (1 + sizes[0].program.agents.len() as u64 / 1024);
        let expected = if value::needs_expected_results(self.plan) {
            match Simulator::round_robin(self.plan, &sizes, self.launches).expected_results(max_steps) {
                Ok(results) => Some(results),
                Err(outcome) => return Ok(outcome),
            }
        } else {
            None
        };
        let mut simulator = Simulator::new(self.plan, &sizes, self.launches, random, expected, self.target_block);
        (simulator.launch_barriers, simulator.synchronizes) = (self.barriers, self.synchronizes);
        simulator.frees_scratch = self.frees_scratch;
        simulator.reorders_puts = self.reorders_puts;
        Ok(simulator.run(max_steps))
    }

    /// Returns the sizes of successive launches, which repeat.
    fn scales(&self, random: &mut Random) -> Vec<Scale> {
        let first = Scale::random(self.plan, random, self.trips);
        let several = match (self.synchronizes, self.barriers, self.trips) {
            (false, ..) => 1 + random.below(2),
            // Ranks that synchronize have a barrier.
            (true, true, None) => [0, 0, 1, 2][random.below(4) as usize],
            _ => 0,
        };
        let mut scales = vec![first];
        for _ in 0..several {
            scales.push(Scale { chunk: Scale::random(self.plan, random, None).chunk, ..first });
        }
        scales
    }

    /// Runs the plan with successive seeds until a run fails, and returns the seed and the failure.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn find_failure(&self, seeds: Range<u64>) -> Result<Option<(u64, Failure)>, UnsupportedPlan> {
        for seed in seeds {
            if let Outcome::Failed(failure) = self.run(seed)? {
                return Ok(Some((seed, failure)));
            }
        }
        Ok(None)
    }
}
