//! Executor for ranks in this process.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mscclpp_core::plan::Plan;

use super::plan_state::PlanState;
use super::pool::Pool;
use super::prepared_plan::PreparedPlan;
use super::schedule::Schedule;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_base::interpret::{Params, Worker, resolve};
use mscclpp_base::memory::Table;
use mscclpp_base::message::Message;

/// An executor for a number of ranks in this process, which run plans on the CPU.
///
/// Each thread block of each rank is an agent; a few worker threads run the agents, and a waiting agent
/// occupies no thread. Clones are cheap and share one executor.
///
/// ```
/// use mscclpp_algorithms as algorithms;
/// use mscclpp_exec::cpu::Executor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ring = algorithms::find("allreduce_ring").expect("it is in the library");
/// let plan = ring.plan(ring.spec(2, 2), &[])?;
///
/// let inputs = [[1.0_f32, 2.0, 3.0], [10.0, 20.0, 30.0]];
/// let mut outputs = [[0.0; 3]; 2];
/// Executor::new(2).run(&plan, &inputs, &mut outputs)?;
/// assert_eq!(outputs, [[11.0, 22.0, 33.0]; 2]);
/// # Ok(())
/// # }
/// ```
///
/// `Send` and `Sync`: threads may use an executor at the same time; its launches run one after the other.
#[derive(Clone)]
pub struct Executor {
    pub(super) inner: Arc<Inner>,
}

static_assertions::assert_impl_all!(Executor: Send, Sync);

/// Settings of an [`Executor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Options {
    /// Number of worker threads of a launch, including the calling one; `None` for as many as the process may run at
    /// once.
    pub workers: Option<usize>,
    /// Bytes of all ranks' inputs and outputs below which only the calling thread runs a launch, because waking another
    /// one takes longer than it would save.
    pub parallel_from: u64,
    /// Order in which agents run.
    pub schedule: Schedule,
    /// Maximum number of bytes of a plan's scratch, all ranks together.
    pub scratch_limit: u64,
    /// Bytes per rank above which a plan with `reuse_resources` wraps its scratch, if it can: if all of it is used in
    /// windows of pipelines, and no iteration overtakes the one with the same window. Other plans get as much as they
    /// need.
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

impl Options {
    /// Returns these options with another number of worker threads.
    #[must_use]
    pub const fn workers(self, workers: Option<usize>) -> Self {
        Self { workers, ..self }
    }

    /// Returns these options with another size from which several threads run a launch.
    #[must_use]
    pub const fn parallel_from(self, parallel_from: u64) -> Self {
        Self { parallel_from, ..self }
    }

    /// Returns these options with another order in which agents run.
    #[must_use]
    pub const fn schedule(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// Returns these options with another limit of scratch.
    #[must_use]
    pub const fn scratch_limit(self, scratch_limit: u64) -> Self {
        Self { scratch_limit, ..self }
    }

    /// Returns these options with another size from which scratch wraps.
    #[must_use]
    pub const fn scratch_pool(self, scratch_pool: u64) -> Self {
        Self { scratch_pool, ..self }
    }
}

/// State that clones share.
pub(super) struct Inner {
    pub(super) ranks: u32,
    pub(super) options: Options,
    pub(super) workers: usize,
    /// Prepared plans; few, so a list suffices.
    plans: Mutex<Vec<Arc<PlanState>>>,
    pub(super) table: Arc<Table>,
    /// Held during a launch: there is one at a time.
    pub(super) launch_lock: Mutex<LaunchLock>,
}

/// State that the launches of an executor share.
pub(super) struct LaunchLock {
    /// Number of launches so far.
    pub(super) launches: u64,
    pub(super) worker: Box<Worker>,
    /// Started by the first launch that needs several workers.
    pub(super) pool: Option<Pool>,
}

impl Executor {
    /// Creates an executor with default [`Options`].
    pub fn new(num_ranks: u32) -> Self {
        Self::with_options(num_ranks, Options::default())
    }

    /// Creates an executor.
    pub fn with_options(num_ranks: u32, options: Options) -> Self {
        // Asks the system once, because that takes longer than preparing a plan.
        static AVAILABLE: OnceLock<usize> = OnceLock::new();
        let available = || *AVAILABLE.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
        let workers = match options.schedule {
            Schedule::RoundRobin => options.workers.unwrap_or_else(available).max(1),
            Schedule::Seeded(_) => 1,
        };
        Self {
            inner: Arc::new(Inner {
                ranks: num_ranks,
                options,
                workers,
                plans: Mutex::default(),
                table: Arc::default(),
                launch_lock: Mutex::new(LaunchLock { launches: 0, worker: Box::default(), pool: None }),
            }),
        }
    }

    /// Returns the number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.inner.ranks
    }

    /// Binds a plan to a message: does everything that can be done without buffers.
    ///
    /// The first call for a plan reads the plan, in time linear in its operations. Another size, type or reduction of a
    /// plan that this executor has prepared costs a few additions per rank, plus the cost of zeroed memory if scratch
    /// must grow. Channels and scratch belong to the executor and the plan, so all prepared plans for one plan share
    /// them.
    ///
    /// # Errors
    /// [`Error::RankCountMismatch`], [`Error::InvalidPlan`], [`Error::MessageSize`], [`Error::IndivisibleCount`],
    /// [`Error::TooLarge`], [`Error::FixedReduction`], [`Error::UnsupportedAccumulator`], [`Error::ScratchLimit`],
    /// [`Error::OutOfMemory`].
    pub fn prepare(&self, plan: &Plan, message: Message) -> Result<PreparedPlan, Error> {
        let context = self.inner.context(plan)?;
        let Options { scratch_limit, scratch_pool, .. } = self.inner.options;
        let params = Arc::new(Params::new(&context.program, message, scratch_limit, scratch_pool)?);
        PreparedPlan::new(Arc::clone(&self.inner), context, params)
    }

    /// Runs a plan once, out of place: `inputs[r]` and `outputs[r]` belong to rank `r`. The message is as long as the
    /// longer of rank 0's buffers. To choose a reduction, or to launch several times, use [`prepare`](Self::prepare).
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
    /// Returns the state of a plan. Plans are identified by their contents.
    fn context(&self, plan: &Plan) -> Result<Arc<PlanState>, Error> {
        let same = |known: &Plan| known.hash() == plan.hash() && known.image().len() == plan.image().len();
        let mut plans = lock(&self.plans);
        if let Some(context) = plans.iter().find(|context| same(&context.program.plan)) {
            return Ok(Arc::clone(context));
        }
        let (expected, found) = (plan.num_ranks(), self.ranks);
        if expected != found {
            return Err(Error::RankCountMismatch { plan: plan.name().to_owned(), expected, found });
        }
        let context = Arc::new(PlanState::new(resolve(plan)?));
        plans.push(Arc::clone(&context));
        Ok(context)
    }

    /// Makes all packets stale, because their flags are about to start again from 1.
    pub(super) fn clear_packets(&self) {
        for context in lock(&self.plans).iter() {
            for scratch in lock(&context.scratch).iter_mut() {
                scratch.packets.fill(mscclpp_base::numeric::Line::ZERO);
            }
        }
    }
}

/// Locks a mutex, also after a panic: its contents are recreated before they are used.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
