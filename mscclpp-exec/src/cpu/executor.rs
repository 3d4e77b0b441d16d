//! Ranks in this process.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mscclpp_core::plan::Plan;

use super::plan_state::PlanState;
use super::pool::Pool;
use super::prepared_plan::PreparedPlan;
use super::schedule::Schedule;
use crate::dtype::Element;
use crate::error::Error;
use crate::interpret::{Params, Worker, resolve};
use crate::memory::Table;
use crate::message::Message;

/// A number of ranks in this process, which run plans on the CPU.
///
/// Each thread block of each rank is an agent that a few worker threads take turns to run; one that has to wait costs no
/// thread. Worlds are cheap to clone; clones are the same world.
///
/// ```
/// use mscclpp_core::plan::Plan;
/// use mscclpp_algorithms as algorithms;
/// use mscclpp_exec::cpu::World;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ring = algorithms::find("allreduce_ring").expect("it is in the library");
/// let plan = Plan::new(&ring.compile(ring.spec(2, 2), &[])?);
///
/// let inputs = [[1.0_f32, 2.0, 3.0], [10.0, 20.0, 30.0]];
/// let mut outputs = [[0.0; 3]; 2];
/// World::new(2).run(&plan, &inputs, &mut outputs)?;
/// assert_eq!(outputs, [[11.0, 22.0, 33.0]; 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Executor {
    pub(super) inner: Arc<Inner>,
}

/// Settings of a [`Executor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Worker threads of a launch, the calling one included; `None` for as many as the process may use at once.
    pub workers: Option<usize>,
    /// Bytes of all ranks' inputs and outputs below which a launch is left to the calling thread alone: to wake another
    /// one takes longer than it would save.
    pub parallel_from: u64,
    /// The order in which agents are visited.
    pub schedule: Schedule,
    /// Most bytes of scratch of a plan, all ranks together.
    pub scratch_limit: u64,
    /// Bytes per rank beyond which a plan with `reuse_resources` wraps its scratch, if it can: if all of it is used in
    /// pipelined windows, and no iteration overtakes the one that has the same window. Other plans get what they need.
    pub scratch_pool: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: None,
            parallel_from: 1 << 21,
            schedule: Schedule::RoundRobin,
            scratch_limit: 1 << 36,
            scratch_pool: 1 << 26,
        }
    }
}

/// What clones of a world share.
pub(super) struct Inner {
    pub(super) ranks: u32,
    pub(super) options: Options,
    pub(super) workers: usize,
    /// Plans that were prepared; few, so a list does.
    contexts: Mutex<Vec<Arc<PlanState>>>,
    pub(super) table: Arc<Table>,
    /// Held during a launch: there is one at a time.
    pub(super) gate: Mutex<LaunchLock>,
}

/// What the launches of a world have in common.
pub(super) struct LaunchLock {
    /// Launches so far.
    pub(super) launches: u64,
    pub(super) worker: Box<Worker>,
    /// Started with the first launch that wants helpers.
    pub(super) pool: Option<Pool>,
}

impl Executor {
    /// A world with default [`Options`].
    pub fn new(ranks: u32) -> Self {
        Self::with_options(ranks, Options::default())
    }

    /// A world.
    pub fn with_options(ranks: u32, options: Options) -> Self {
        // Asks the system once: that takes longer than to prepare a plan.
        static AVAILABLE: OnceLock<usize> = OnceLock::new();
        let available = || *AVAILABLE.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
        let workers = match options.schedule {
            Schedule::RoundRobin => options.workers.unwrap_or_else(available).max(1),
            Schedule::Seeded(_) => 1,
        };
        Self {
            inner: Arc::new(Inner {
                ranks,
                options,
                workers,
                contexts: Mutex::default(),
                table: Arc::default(),
                gate: Mutex::new(LaunchLock { launches: 0, worker: Box::default(), pool: None }),
            }),
        }
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.inner.ranks
    }

    /// Binds a plan to a message: everything that can be done before there are buffers.
    ///
    /// The first call for a plan reads it, time linear in its operations. Another size, type or reduction of a plan that the
    /// world knows costs a few additions per rank, plus what zeroed memory costs if scratch must grow. Channels and scratch
    /// belong to world and plan, so all runs of a plan share them.
    ///
    /// # Errors
    /// [`Error::RankCountMismatch`], [`Error::Plan`], [`Error::MessageSize`], [`Error::UnequalParts`], [`Error::TooLarge`],
    /// [`Error::FixedReduction`], [`Error::Accumulator`], [`Error::Memory`], [`Error::NoMemory`].
    pub fn prepare(&self, plan: &Plan, message: Message) -> Result<PreparedPlan, Error> {
        let context = self.inner.context(plan)?;
        let Options { scratch_limit, scratch_pool, .. } = self.inner.options;
        let params = Arc::new(Params::new(&context.program, message, scratch_limit, scratch_pool)?);
        PreparedPlan::new(Arc::clone(&self.inner), context, params)
    }

    /// Runs a plan once, out of place: `inputs[r]` and `outputs[r]` belong to rank `r`. The message is as long as the longer of
    /// rank 0's buffers; to choose a reduction, or to launch several times, [`prepare`](Self::prepare).
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare) and of [`PreparedPlan::launch`].
    pub fn run<T: Element>(
        &self,
        plan: &Plan,
        inputs: &[impl AsRef<[T]>],
        outputs: &mut [impl AsMut<[T]>],
    ) -> Result<(), Error> {
        let input = inputs.first().map_or(0, |input| input.as_ref().len());
        let output = outputs.first_mut().map_or(0, |output| output.as_mut().len());
        self.prepare(plan, Message::of::<T>(input.max(output)))?.launch(inputs, outputs)
    }

    /// Runs a plan once, in place: `buffers[r]` is rank `r`'s input and output.
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare) and of [`PreparedPlan::launch_in_place`].
    pub fn run_in_place<T: Element>(&self, plan: &Plan, buffers: &mut [impl AsMut<[T]>]) -> Result<(), Error> {
        let len = buffers.first_mut().map_or(0, |buffer| buffer.as_mut().len());
        self.prepare(plan, Message::of::<T>(len))?.launch_in_place(buffers)
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { ranks, options, workers, .. } = &*self.inner;
        f.debug_struct("Executor").field("ranks", ranks).field("workers", workers).field("options", options).finish()
    }
}

impl Inner {
    /// What the world keeps of a plan. Plans are told apart by their contents.
    fn context(&self, plan: &Plan) -> Result<Arc<PlanState>, Error> {
        let same = |known: &Plan| known.hash() == plan.hash() && known.image().len() == plan.image().len();
        let mut contexts = lock(&self.contexts);
        if let Some(context) = contexts.iter().find(|context| same(&context.program.plan)) {
            return Ok(Arc::clone(context));
        }
        let (expected, found) = (plan.num_ranks(), self.ranks);
        if expected != found {
            return Err(Error::RankCountMismatch { plan: plan.name().to_owned(), expected, found });
        }
        let context = Arc::new(PlanState::new(resolve(plan)?));
        contexts.push(Arc::clone(&context));
        Ok(context)
    }

    /// Makes all packets stale: their flags are about to start again from 1.
    pub(super) fn clear_packets(&self) {
        for context in lock(&self.contexts).iter() {
            for scratch in lock(&context.scratch).iter_mut() {
                scratch.packets.fill(crate::numeric::Line::ZERO);
            }
        }
    }
}

/// A lock, also after a panic: what it guards is made anew before it is used.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
