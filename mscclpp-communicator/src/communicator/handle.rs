//! The handle of one rank to its communicator.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use mscclpp_bootstrap::places::PlaceNumbers;
use mscclpp_bootstrap::{Address, Bootstrap, Options, RootListener, Secret, Topic, UniqueId, place};
use mscclpp_core::collective::CollectiveKind;

use super::background;
use super::cache::Cache;
#[cfg(feature = "cuda")]
use super::device::{Devices, KnownPolicy, Lanes};
use super::exchange::CountedPlans;
use super::forced::Forced;
use super::forms::Forms;
use super::observed::Observed;
use super::pending::CallQueue;
use super::point_to_point::Pairs;
use super::row_norms::NormPlans;
use super::serve::Prepared;
use super::timeline;
use crate::metrics::CallCounters;
use mscclpp_base::dtype::{DataType, Element, ElementName};
use mscclpp_base::error::Error;
use mscclpp_base::message::PacketType;
use mscclpp_base::numeric::AccumType;
use mscclpp_base::shm::ProcessMark;
use mscclpp_exec::process::{Executor, SharedBuffer};
use mscclpp_select::defaults::Defaults;
use mscclpp_select::{Choice, OrderPolicy, Registry, Request};

/// One rank's handle to a set of ranks: makes collective calls, registered memory and smaller communicators. Clones are the
/// same rank. A call selects an algorithm, prepares its plan once, and launches it.
///
/// ```
/// use mscclpp_core::types::ReduceOp;
/// use mscclpp_communicator::Communicator;
/// use mscclpp_exec::Error;
///
/// # fn main() -> Result<(), Error> {
/// // Three ranks in this process, each on a thread.
/// std::thread::scope(|scope| {
///     for comm in Communicator::local(3)? {
///         scope.spawn(move || {
///             let (input, mut output) = ([1.0_f32, comm.rank() as f32], [0.0; 2]);
///             comm.all_reduce(&input, &mut output, ReduceOp::Sum).expect("all ranks call it");
///             assert_eq!(output, [3.0, 3.0]);
///         });
///     }
///     Ok(())
/// })
/// # }
/// ```
///
/// | method | input of a rank | output of a rank |
/// |---|---|---|
/// | [`all_reduce`](Self::all_reduce) | n elements | the reduction over all ranks |
/// | [`all_gather`](Self::all_gather) | n elements | the inputs of all ranks, in the order of ranks |
/// | [`reduce_scatter`](Self::reduce_scatter) | a part for each rank | the reduction of its parts |
/// | [`all_to_all`](Self::all_to_all) | a part for each rank | the parts of all ranks for it |
/// | [`all_to_all_v`](Self::all_to_all_v) | parts of any lengths | the parts of all ranks for it |
/// | [`broadcast`](Self::broadcast) | n elements on the root | the root's |
/// | [`reduce`](Self::reduce) | n elements | on the root, the reduction over all ranks |
/// | [`send_recv`](Self::send_recv) | n elements | those of the previous rank |
///
/// The plain name takes input and output, `_in_place` one buffer. Memory is any slice: arrays, vectors, and registered buffers
/// of [`alloc`](Self::alloc), which are used without copies. A call blocks; [`start`](Self::start) makes calls
/// on a thread and returns a [`Pending`](super::Pending) to wait for or to poll as a future. With the feature `cuda`,
/// `Communicator::on(&stream)` has the same calls on device memory, enqueued on a stream.
///
/// # Ordering
/// All ranks make the same calls in the same order, with the same sizes, types, reductions and roots. A call returns when
/// this rank's part is done: its output is written, and its input may be changed. One thread of a rank makes calls at a time;
/// calls of [`start`](Self::start) are made before those that follow it.
///
/// # Cost
/// The first call that moves data connects the ranks of each node and compares their versions and algorithms. The first call
/// of a kind and size selects an algorithm and prepares its plan; later ones only launch it. At most 256 kinds and sizes are
/// kept, the least recently used are dropped first.
///
/// # Errors
/// All calls: invalid lengths and roots, before this rank waits for another one; [`Error::Busy`] while another thread is in a
/// call of this rank; errors of selection, preparation and launch.
///
/// `Send` and `Sync`: any thread may make calls. A call does not wait for one of another thread, but returns
/// [`Error::Busy`].
#[derive(Clone)]
pub struct Communicator {
    pub(super) inner: Arc<Inner>,
    /// Timeout of the calls made through this handle; `None`: that of the communicator.
    pub(super) timeout: Option<Duration>,
    /// Name of the elements of the calls made through this handle.
    pub(super) element_name: Option<ElementName>,
    /// The least that calls made through this handle demand of the order of reduction.
    pub(super) least_order: OrderPolicy,
    /// The packets of calls made through this handle.
    pub(super) packet: PacketType,
    /// The type in which row norms made through this handle add the rows of ranks.
    pub(super) row_accumulator: AccumType,
}

static_assertions::assert_impl_all!(Communicator: Send, Sync);

/// What clones share.
pub(super) struct Inner {
    pub(super) bootstrap: Arc<Bootstrap>,
    pub(super) executor: OnceLock<Executor>,
    /// Held by the thread that connects the executor.
    connecting: Mutex<()>,
    registry: Mutex<Option<Arc<Registry>>>,
    /// What the process has set when this one was created.
    defaults: Defaults,
    /// The registry of the communicator that this one continues, not compared among the ranks yet.
    pub(super) inherited: Option<Arc<Registry>>,
    /// Whether it makes the transfers of two ranks of another communicator.
    pub(super) is_pair: bool,
    calls: Mutex<Calls>,
    /// Memory of segments is not mapped in a copy of the process.
    mark: ProcessMark,
    assume_registered: AtomicBool,
    /// The [`OrderPolicy`] of calls, as a number.
    order: AtomicU8,
    pub(super) forms: Forms,
    pub(super) queue: CallQueue,
    pub(super) pairs: Pairs,
    // Dropped after the pairs, whose launches use its memory.
    #[cfg(feature = "cuda")]
    pub(super) lanes: Lanes,
    #[cfg(feature = "cuda")]
    pub(super) kernels: KnownPolicy,
    pub(super) observed: Arc<Observed>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        background::finish(&self.observed);
        [Topic::Dump, Topic::Metrics].into_iter().for_each(|topic| self.bootstrap.set_report(topic, None));
    }
}

/// State of the collective calls of a rank.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) cache: Cache<Prepared>,
    pub(super) forced: Forced,
    /// Source locations of the last calls.
    pub(super) places: PlaceNumbers,
    /// Counters of barriers, once there was one.
    pub(super) barriers: Option<Arc<CallCounters>>,
    pub(super) counted: CountedPlans,
    pub(super) norms: NormPlans,
    /// State of the calls on device memory.
    #[cfg(feature = "cuda")]
    pub(super) devices: Devices,
    /// Registered memory through which parts of different lengths travel; of the same length on all ranks.
    pub(super) staging: Option<[SharedBuffer<u8>; 2]>,
}

impl Calls {
    /// Drops what was prepared.
    pub(super) fn clear(&mut self) {
        drop(self.cache.clear());
        self.counted.clear();
        drop(self.norms.clear());
        #[cfg(feature = "cuda")]
        self.devices.clear();
    }
}

impl Communicator {
    /// Creates `num_ranks` ranks in this process, for as many threads.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] with `NoSuchRank` for no rank at all, with `TooManyRanks` for more than 16384.
    pub fn local(num_ranks: u32) -> Result<Vec<Self>, Error> {
        Self::local_with_options(num_ranks, Options::default())
    }

    /// [`local`](Self::local) with other timeouts.
    ///
    /// # Errors
    /// As [`local`](Self::local).
    pub fn local_with_options(num_ranks: u32, options: Options) -> Result<Vec<Self>, Error> {
        Ok(Bootstrap::local_with_options(num_ranks, options)?.into_iter().map(Self::from).collect())
    }

    /// Joins the job that a launcher describes in the environment: `mscclpp launch`, torchrun, mpirun, srun and others.
    /// `docs/launching.md` lists the variables.
    ///
    /// # Errors
    /// As [`Bootstrap::from_env`]; of the kind [`NotLaunched`](mscclpp_base::error::ErrorKind::NotLaunched) without a launcher.
    pub fn from_env() -> Result<Self, Error> {
        Ok(Bootstrap::from_env()?.into())
    }

    /// Joins the job of `num_ranks` ranks as `rank`. Rank 0 listens at `address`, the others connect to it there.
    ///
    /// # Errors
    /// As [`Bootstrap::connect`].
    pub fn connect(
        address: &Address,
        rank: u32,
        num_ranks: u32,
        secret: &Secret,
        options: Options,
    ) -> Result<Self, Error> {
        Ok(Bootstrap::connect(address, rank, num_ranks, secret, options)?.into())
    }

    /// Starts a job of `num_ranks` ranks as rank 0, with a listener whose [id](RootListener::unique_id) the others have.
    ///
    /// # Errors
    /// As [`RootListener::connect`].
    pub fn from_listener(listener: RootListener, num_ranks: u32, options: Options) -> Result<Self, Error> {
        Ok(listener.connect(num_ranks, options)?.into())
    }

    /// Joins the job of an id as `rank`, which is not 0.
    ///
    /// # Errors
    /// As [`UniqueId::join`].
    pub fn join(id: &UniqueId, rank: u32, num_ranks: u32, options: Options) -> Result<Self, Error> {
        Ok(id.join(rank, num_ranks, options)?.into())
    }

    /// Joins the job of a [`Rendezvous`](mscclpp_bootstrap::Rendezvous) as `rank`, which may be 0.
    ///
    /// # Errors
    /// As [`UniqueId::connect`].
    pub fn connect_by_id(id: &UniqueId, rank: u32, num_ranks: u32, options: Options) -> Result<Self, Error> {
        Ok(id.connect(rank, num_ranks, options)?.into())
    }

    /// Returns this rank.
    pub fn rank(&self) -> u32 {
        self.inner.bootstrap.rank()
    }

    /// Returns the number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.inner.bootstrap.num_ranks()
    }

    /// Returns the number of ranks of each node; 1 if nodes have different numbers.
    pub fn ranks_per_node(&self) -> u32 {
        self.inner.bootstrap.ranks_per_node()
    }

    /// Returns the control plane: small messages and agreements among the ranks.
    pub fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.inner.bootstrap
    }

    /// Returns the executor that all calls of this communicator use; it runs plans among the same ranks, and its registered
    /// memory is that of [`alloc`](Self::alloc). The first call connects the ranks of each node, so all ranks make it.
    ///
    /// # Errors
    /// As [`Executor::new`].
    #[track_caller]
    pub fn executor(&self) -> Result<Executor, Error> {
        self.connected().cloned()
    }

    /// Returns the executor, which the first call connects.
    #[track_caller]
    pub(super) fn connected(&self) -> Result<&Executor, Error> {
        match self.inner.executor.get() {
            Some(executor) => Ok(executor),
            None => self.connect_executor(),
        }
    }

    /// Returns the executor for a call, which messages name if it is the first one and connects the executor.
    #[track_caller]
    fn connected_for(&self, call: &str) -> Result<&Executor, Error> {
        let _part = self.enter_call(|| call.to_owned());
        self.connected()
    }

    /// Counts a call all of whose parts have ended.
    pub(super) fn count_call(&self) {
        if let Some(executor) = self.inner.executor.get() {
            executor.history().count_program_call();
        }
    }

    /// Lets messages name this call in place of those that are parts of it, until the result is dropped.
    pub(super) fn enter_call<C: Into<place::CallText>>(&self, call: impl FnOnce() -> C) -> place::Part {
        let number = self.inner.executor.get().map_or(1, |executor| executor.history().next_program_number());
        place::enter_call(number, call)
    }

    #[cold]
    #[track_caller]
    fn connect_executor(&self) -> Result<&Executor, Error> {
        let _place = place::enter(Location::caller());
        let _connecting = self.inner.connecting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(executor) = self.inner.executor.get() {
            return Ok(executor);
        }
        let new = Executor::new(Arc::clone(&self.inner.bootstrap))?;
        if let Some(timeout) = self.timeout {
            new.set_timeout(timeout)?;
        }
        self.inner.observed.set_history(new.history());
        timeline::record(&new, &self.inner.observed.rank);
        Ok(self.inner.executor.get_or_init(|| new))
    }

    /// Allocates a registered buffer of `len` elements, zero at first, that calls and launches use without copies. A call of
    /// all ranks; lengths may differ.
    ///
    /// # Errors
    /// As [`Executor::alloc`].
    #[track_caller]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<SharedBuffer<T>, Error> {
        self.wait_for_started();
        self.connected_for("alloc")?.alloc(len)
    }

    /// Divides the ranks: those with one `color` become a communicator, ordered by `key` and then by rank. A rank without
    /// color gets none. The parts have this communicator's order policy. A call of all ranks.
    ///
    /// # Errors
    /// As [`Bootstrap::all_gather`].
    #[track_caller]
    pub fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Self>, Error> {
        self.wait_for_started();
        let part = self.connected_for("split")?.control("split", |bootstrap| bootstrap.split(color, key))?;
        Ok(part.map(|part| self.divided(part)))
    }

    /// Creates the communicator of `ranks`, in that order; `None` on the other ranks. All ranks call it with the same list.
    ///
    /// # Errors
    /// As [`Bootstrap::subgroup`].
    #[track_caller]
    pub fn subgroup(&self, ranks: &[u32]) -> Result<Option<Self>, Error> {
        self.wait_for_started();
        let part = self.connected_for("subgroup")?.control("subgroup", |bootstrap| bootstrap.subgroup(ranks))?;
        Ok(part.map(|part| self.divided(part)))
    }

    /// Returns a part of this communicator, with its order policy.
    fn divided(&self, part: Bootstrap) -> Self {
        let part = Self::from(part);
        part.set_order_policy(self.order_policy());
        part
    }

    /// Returns whether `flag` is true on all ranks; a call of all ranks. Some ranks may have returned from a call that failed on
    /// others: after `agree(true)`, all ranks know that none has failed so far, or all return the failure. The exception is
    /// the end of rank 0 within this call; see [`Bootstrap::agree`].
    ///
    /// ```
    /// # use mscclpp_core::types::ReduceOp;
    /// # use mscclpp_communicator::Communicator;
    /// # use mscclpp_exec::Error;
    /// # fn step(comm: &Communicator, gradients: &mut [f32]) -> Result<(), Error> {
    /// comm.all_reduce_in_place(gradients, ReduceOp::Avg)?;
    /// let finite = gradients.iter().all(|gradient| gradient.is_finite());
    /// if comm.agree(finite)? {
    ///     // All ranks have the result, and it is finite on all of them.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    #[doc(hidden)]
    pub fn agree(&self, flag: bool) -> Result<bool, Error> {
        self.wait_for_started();
        self.connected_for("agree")?.control("agree", |bootstrap| bootstrap.agree(flag))
    }

    /// Returns the registry that selects algorithms. Unless [`set_registry`](Self::set_registry) was called, the built-in
    /// algorithms, and the plans and the tuning table that the environment names; the first call compares it among the ranks.
    ///
    /// # Errors
    /// [`Error::TuningTable`] and [`Error::Environment`] for what the environment names; [`Error::Bootstrap`] if ranks differ, with the
    /// first difference.
    #[track_caller]
    #[doc(hidden)]
    pub fn registry(&self) -> Result<Arc<Registry>, Error> {
        if let Some(registry) = &*self.lock_registry() {
            return Ok(Arc::clone(registry));
        }
        // Without the lock: the comparison waits for the other ranks, which may wait for a transfer that a thread of this one makes.
        let new = match &self.inner.inherited {
            Some(inherited) => Arc::clone(inherited),
            None => Arc::new(Registry::with_defaults(&self.inner.defaults, [])?),
        };
        self.compare(&new)?;
        Ok(Arc::clone(self.lock_registry().get_or_insert(new)))
    }

    /// Replaces the registry and drops what was prepared. A call of all ranks, whose registries must have the same algorithms.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] if ranks have different versions or algorithms, with the first difference; the registry stays as it
    /// was then.
    #[track_caller]
    pub fn set_registry(&self, registry: Registry) -> Result<(), Error> {
        self.compare(&registry)?;
        let registry = Arc::new(registry);
        self.calls()?.clear();
        self.inner.pairs.set_registry(&registry)?;
        *self.lock_registry() = Some(registry);
        Ok(())
    }

    /// Changes the registry and drops what was prepared. A call of all ranks, which must change it alike.
    ///
    /// # Errors
    /// As [`registry`](Self::registry) and [`set_registry`](Self::set_registry).
    #[track_caller]
    pub fn configure<R>(&self, change: impl FnOnce(&mut Registry) -> R) -> Result<R, Error> {
        let mut registry = Registry::clone(&*self.registry()?);
        let result = change(&mut registry);
        self.set_registry(registry)?;
        Ok(result)
    }

    /// Returns how often each algorithm was launched, in the order of the registry; none before the first call. Waits for no other rank.
    pub fn call_counts(&self) -> Vec<(String, u64)> {
        let registry = self.lock_registry().clone();
        let counts = registry.iter().flat_map(|registry| registry.call_counts());
        counts.map(|(name, calls)| (name.to_owned(), calls)).collect()
    }

    #[track_caller]
    fn compare(&self, registry: &Registry) -> Result<(), Error> {
        let (limits, table) = (registry.launch_limits().to_string(), registry.table_fingerprint());
        let machine = registry.machine_fingerprint();
        let version = ("version of mscclpp", env!("CARGO_PKG_VERSION"));
        let order = self.order_policy().name();
        let added = registry.added_names().unwrap_or_else(|| "none".to_owned());
        // The fingerprint covers all of these as well, but does not name them.
        let algorithms = ("set of algorithms", &*registry.fingerprint());
        let values = [
            version,
            ("order of reduction", order),
            ("launch limit", &limits),
            ("tuning table", &table),
            ("machine description", &machine),
            ("list of the program's algorithms", &added),
            algorithms,
        ];
        self.executor()?.control("comparison of algorithms", |bootstrap| bootstrap.compare(&values))
    }

    pub(super) fn lock_registry(&self) -> MutexGuard<'_, Option<Arc<Registry>>> {
        self.inner.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// States, on all ranks alike, that all buffers of the following calls are registered. The selection of algorithms takes
    /// it into account; registered buffers are used without copies also without it.
    #[doc(hidden)]
    pub fn assume_registered(&self, registered: bool) {
        self.inner.assume_registered.store(registered, Ordering::Relaxed);
    }

    /// Sets what the following calls demand of the order in which they reduce floats, on all ranks alike:
    /// unless set, what [`defaults`](mscclpp_select::defaults) or `MSCCLPP_ORDER` state, or [`OrderPolicy::InSwitch`].
    ///
    /// ```
    /// # use mscclpp_core::types::ReduceOp;
    /// # use mscclpp_communicator::Communicator;
    /// # use mscclpp_exec::Error;
    /// # use mscclpp_select::OrderPolicy;
    /// # fn step(comm: &Communicator, activations: &mut [f32]) -> Result<(), Error> {
    /// // The bits of a row may not depend on how many rows are in the batch.
    /// comm.set_order_policy(OrderPolicy::RankOrder);
    /// comm.all_reduce_in_place(activations, ReduceOp::Sum)
    /// # }
    /// ```
    pub fn set_order_policy(&self, policy: OrderPolicy) {
        self.inner.order.store(policy as u8, Ordering::Relaxed);
    }

    /// Returns what calls demand of the order in which they reduce floats.
    #[doc(hidden)]
    pub fn order_policy(&self) -> OrderPolicy {
        let number = self.inner.order.load(Ordering::Relaxed);
        let policy = OrderPolicy::ALL.get(usize::from(number)).copied().unwrap_or_default();
        policy.max(self.least_order)
    }

    /// Lets one algorithm serve all following calls of its collective, or the registry decide again. What was prepared is kept, so
    /// that a program may do this before each call, also of a captured one. All ranks must do it alike. Calls that the algorithm does
    /// not serve fail.
    ///
    /// # Errors
    /// [`Error::Busy`].
    #[doc(hidden)]
    pub fn force_algorithm(&self, choice: Option<(CollectiveKind, Choice)>) -> Result<(), Error> {
        self.calls()?.forced.set(choice);
        Ok(())
    }

    /// Drops what calls have prepared, which later calls prepare again. All ranks must do it alike, none of them in a capture.
    ///
    /// # Errors
    /// [`Error::Busy`].
    #[doc(hidden)]
    pub fn release_prepared(&self) -> Result<(), Error> {
        let mut calls = self.calls()?;
        calls.clear();
        #[cfg(feature = "cuda")]
        calls.devices.drop_unused();
        Ok(())
    }

    /// Returns the request of a call: what an algorithm is selected for. `count` is the number of elements of the larger of a
    /// rank's input and output.
    pub fn request<T: Element>(&self, collective: CollectiveKind, count: usize) -> Request {
        self.request_of(collective, T::TYPE, (count as u64).saturating_mul(size_of::<T>() as u64))
    }

    /// Returns the request of a call with `bytes` bytes in the larger of a rank's input and output.
    #[doc(hidden)]
    pub fn request_of(&self, collective: CollectiveKind, dtype: DataType, bytes: u64) -> Request {
        Request {
            ranks_per_node: self.inner.bootstrap.ranks_per_node(),
            registered: self.inner.assume_registered.load(Ordering::Relaxed),
            order: self.order_policy(),
            packet: self.packet,
            element_name: self.element_type(dtype).name,
            ..Request::new(collective, self.num_ranks(), dtype, bytes)
        }
    }

    /// Locks the state of calls. Does not wait: two threads must not use one rank at the same time.
    pub(super) fn calls(&self) -> Result<MutexGuard<'_, Calls>, Error> {
        self.wait_for_started();
        self.try_calls()
    }

    /// Locks the state of calls as [`calls`](Self::calls) does, also while started calls are made.
    pub(super) fn try_calls(&self) -> Result<MutexGuard<'_, Calls>, Error> {
        if self.inner.mark.is_copy() {
            return Err(self.bootstrap().check_process().err().map_or(Error::Busy, Error::from));
        }
        match self.inner.calls.try_lock() {
            Ok(calls) => Ok(calls),
            Err(TryLockError::WouldBlock) => Err(Error::Busy),
            Err(TryLockError::Poisoned(calls)) => Ok(calls.into_inner()),
        }
    }
}

impl From<Bootstrap> for Communicator {
    /// The ranks of a bootstrap, none of which has made a call yet.
    fn from(bootstrap: Bootstrap) -> Self {
        Self::with_inherited(bootstrap, None, false)
    }
}

impl Communicator {
    /// Returns the communicator of a bootstrap, whose registry is that of an older communicator; `is_pair`: whether it makes the
    /// transfers of two ranks of that one.
    pub(super) fn with_inherited(bootstrap: Bootstrap, inherited: Option<Arc<Registry>>, is_pair: bool) -> Self {
        let (observed, defaults) = (Observed::new(&bootstrap), Defaults::current());
        background::register(&observed);
        let inner = Inner {
            bootstrap: Arc::new(bootstrap),
            observed,
            executor: OnceLock::new(),
            connecting: Mutex::default(),
            registry: Mutex::default(),
            inherited,
            is_pair,
            calls: Mutex::default(),
            mark: ProcessMark::new(),
            assume_registered: AtomicBool::new(false),
            // One that does not exist is an error of the first call, which asks for the registry. Transfers have no order: their ranks may
            // create the pair before and after the process sets another one.
            order: AtomicU8::new(if is_pair { OrderPolicy::default() } else { defaults.order_policy() } as u8),
            defaults,
            forms: Forms::default(),
            queue: CallQueue::default(),
            pairs: Pairs::default(),
            #[cfg(feature = "cuda")]
            lanes: Lanes::default(),
            #[cfg(feature = "cuda")]
            kernels: KnownPolicy::default(),
        };
        let (least_order, packet, row_accumulator) = (OrderPolicy::Any, PacketType::LL16, AccumType::Native);
        Self { inner: Arc::new(inner), timeout: None, element_name: None, least_order, packet, row_accumulator }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator").field("rank", &self.rank()).field("num_ranks", &self.num_ranks()).finish()
    }
}
