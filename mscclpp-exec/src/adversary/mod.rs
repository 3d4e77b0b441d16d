//! An adversary of plans: runs them in the worst orders that the machine allows, with the weakest memory that it has.
//!
//! It is the witness that the checker does not know: it proves nothing, but what it breaks is broken. The plan is run as a
//! miniature (chunks of a few vectors, blocks of a few threads) over several launches, and every result is compared with
//! what the collective promises, contribution by contribution.
//!
//! What it models:
//!
//! * **Threads.** Every thread of a block is on its own between two block syncs. An operation gives the elements of its
//!   range to threads in turn: vectors of two cells in plain operations, cells in packet operations. Control operations
//!   are executed by thread i for their i-th channel or semaphore.
//! * **Weak memory.** A write is visible to another thread once a chain of block syncs, signals, waits, releases,
//!   acquires and barriers leads from one to the other; until then every read takes either value, and of two writes in no
//!   such order either may stay. Relaxed signals and waits order execution, but carry nothing. When a kernel has ended its
//!   writes are visible to everyone, and a starting kernel sees what was written before.
//! * **Ports.** A channel reads its sources as late as it likes, and what it has read arrives as late as that likes, across
//!   launches too. What one channel carries arrives in order: a signal after the puts before it. A flush waits until the
//!   sources were read, and for nothing else.
//! * **Packets** carry the launch in their flag. One that is overwritten before it is read is never found. They lie in the
//!   same scratch as plain data, packet `k` over cells `2k` and `2k + 1`, if a plan has both.
//! * **Launches.** A rank starts its next launch when its own blocks are done. In between its caller checks the outputs,
//!   writes new inputs and often rubbish to the outputs.
//!   Between launches stands a launch barrier, as far as memory goes: a kernel that starts sees what was written before, and
//!   so does a caller. [`Adversary::without_barriers`] takes that away: then the end of a kernel makes visible what that
//!   kernel had written and seen, to its own rank and to whoever hears that the rank has begun again, and nothing else.
//! * **Sizes.** Loops make few iterations, or a few more than credits are given outside of them. Launches in a row may have
//!   different sizes, in memory that has room for the largest one; then all ranks meet in between, and nothing that a port
//!   was given is still under way, unless [`Adversary::sizes_follow`] takes that away, too.
//! * **Switch channels** read and write every member's memory, element by element.
//! * **Orders of execution** that starve somebody: a rank, a block, a thread, all ports, the callers.
//!
//! What it does not model: thread-block limits, byte offsets, padding of messages that do not divide, reductions other
//! than sums (all are taken as sums, so that nothing is counted twice unseen), loads that are overtaken by
//! later relaxed signals, wake-ups of a semaphore's waiters in another order than first come, first served.
//!
//! It shares nothing with the checker but the plan, and nothing with the executor.
//!
//! ```
//! use mscclpp_exec::adversary::Adversary;
//! use mscclpp_exec::algorithms;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let algorithm = algorithms::find("allreduce_one_shot_packets").expect("it is in the library");
//! let mut plan = algorithm.compile(algorithm.spec(2, 2), &[1])?;
//! assert_eq!(Adversary::new(&plan).hunt(0..50)?, None);
//! // A fast rank's next packets come upon those that a slow rank has not read.
//! plan.double_scratch = false;
//! assert!(Adversary::new(&plan).hunt(0..50)?.is_some());
//! # Ok(())
//! # }
//! ```

mod caller;
mod clock;
mod failure;
mod lower;
mod machine;
mod memory;
mod port;
mod program;
mod scale;
mod schedule;
mod step;
mod value;

use std::ops::Range;

pub use failure::Failure;
use mscclpp_core::plan::PlanTree;

use crate::cpu::Random;
use crate::error::Error;
use machine::{Machine, Sized};
use scale::Scale;

/// Runs a plan against its interests.
#[derive(Clone, Copy, Debug)]
pub struct Adversary<'p> {
    plan: &'p PlanTree,
    launches: u32,
    most_steps: u64,
    focus: Option<(u32, u32)>,
    barriers: bool,
    trips: Option<u64>,
    meets: bool,
}

/// How an attack came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every launch ended with the right results.
    Withstood {
        /// Reads and overwrites of plain data that nothing ordered, though the results are right.
        unordered: u64,
    },
    /// The plan is wrong.
    Broken(Failure),
    /// It took too many steps.
    Undecided,
}

impl<'p> Adversary<'p> {
    /// An adversary of a plan: three launches in a row, 20 million steps at most.
    pub fn new(plan: &'p PlanTree) -> Self {
        Self { plan, launches: 3, most_steps: 20_000_000, focus: None, barriers: true, trips: None, meets: true }
    }

    /// With another number of launches.
    #[must_use]
    pub fn launches(mut self, launches: u32) -> Self {
        self.launches = launches.max(1);
        self
    }

    /// With another bound for the steps of an attack; a step is an element moved or an attempt to get on. Of plans with
    /// thousands of threads each step counts for several, since it takes longer.
    #[must_use]
    pub fn most_steps(mut self, steps: u64) -> Self {
        self.most_steps = steps;
        self
    }

    /// With an eye on one thread block: its threads are the ones that are late most often.
    #[must_use]
    pub fn focus(mut self, rank: u32, block: u32) -> Self {
        self.focus = Some((rank, block));
        self
    }

    /// Without launch barriers: what a rank's kernel or caller sees of others' writes is what signals, waits and the ends of
    /// kernels make visible. What [`launch_boundaries`](mscclpp_core::check::launch_boundaries) says can start and end without a
    /// barrier withstands that.
    #[must_use]
    pub fn without_barriers(mut self) -> Self {
        self.barriers = false;
        self
    }

    /// With a size at which the longest loop makes so many iterations, if there is one; seeds that decide themselves try few,
    /// and a few more than there are credits or initial units.
    #[must_use]
    pub fn trips(mut self, trips: u64) -> Self {
        self.trips = Some(trips.max(1));
        self
    }

    /// With launches of different sizes that follow each other as those of one size do. What
    /// [`launch_boundaries`](mscclpp_core::check::launch_boundaries) says may have another size without a barrier withstands that.
    /// Otherwise sizes change, too, but all ranks meet before.
    #[must_use]
    pub fn sizes_follow(mut self) -> Self {
        self.meets = false;
        self
    }

    /// Runs the plan once. The seed decides on the miniature's sizes and on everything that happens; the same seed does
    /// the same on every machine.
    ///
    /// # Cost
    /// The plan's elements in the miniature, about as many steps as there are vectors in a few hundred bytes per chunk, per launch.
    ///
    /// # Errors
    /// [`Error::Plan`] for a plan that cannot be run at all, which the checker's first rule refuses, and for one that is too
    /// large even as a miniature: more than 8192 threads and ports, or 2²⁴ cells of memory.
    pub fn attack(&self, seed: u64) -> Result<Outcome, Error> {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let scales = self.scales(&mut random);
        let room = scales.iter().map(|scale| scale.chunk).max().unwrap_or(0);
        let sized = |scale| Ok(Sized { program: lower::lower(self.plan, &scale, room)?, scale });
        let sizes = scales.into_iter().map(sized).collect::<Result<Vec<_>, Error>>()?;
        let most_steps = self.most_steps / (1 + sizes[0].program.actors.len() as u64 / 1024);
        let example = if value::needs_example(self.plan) {
            match Machine::calm(self.plan, &sizes, self.launches).example(most_steps) {
                Ok(results) => Some(results),
                Err(outcome) => return Ok(outcome),
            }
        } else {
            None
        };
        let mut machine = Machine::new(self.plan, &sizes, self.launches, random, example, self.focus);
        (machine.launch_barriers, machine.meets) = (self.barriers, self.meets);
        Ok(machine.run(most_steps))
    }

    /// The sizes that launches have in turns.
    fn scales(&self, random: &mut Random) -> Vec<Scale> {
        let first = Scale::random(self.plan, random, self.trips);
        let several = match (self.meets, self.barriers, self.trips) {
            (false, ..) => 1 + random.below(2),
            // Where they meet they have a barrier.
            (true, true, None) => [0, 0, 1, 2][random.below(4) as usize],
            _ => 0,
        };
        let mut scales = vec![first];
        for _ in 0..several {
            scales.push(Scale { chunk: Scale::random(self.plan, random, None).chunk, ..first });
        }
        scales
    }

    /// Runs the plan with seed after seed until one breaks it.
    ///
    /// # Errors
    /// As [`attack`](Self::attack).
    pub fn hunt(&self, seeds: Range<u64>) -> Result<Option<(u64, Failure)>, Error> {
        for seed in seeds {
            if let Outcome::Broken(failure) = self.attack(seed)? {
                return Ok(Some((seed, failure)));
            }
        }
        Ok(None)
    }
}
