//! The executor of plans on CUDA devices.

use std::panic::Location;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use mscclpp_core::plan::Plan;

use super::CudaUnavailable;
use super::ipc::IpcGroup;
use super::last_launch::LastLaunch;
use super::plan_state::PlanState;
use super::prepared_plan::PreparedPlan;
use super::specialize::Compile;
use crate::process;
use mscclpp_base::error::Error;
use mscclpp_base::interpret::{Params, ResolvedPlan, resolve};
use mscclpp_base::message::Message;
use mscclpp_base::passes::elide_own_packets::elide_own_packets;
use mscclpp_bootstrap::{Bootstrap, place};
use mscclpp_cuda::buffer::DeviceBuffer;
use mscclpp_cuda::capture::refuse_in_capture;
use mscclpp_cuda::device::Device;
use mscclpp_cuda::device::stream::Stream;
use mscclpp_cuda::driver;
use mscclpp_cuda::memory::Storage;
use mscclpp_cuda::peer;
use mscclpp_cuda::unused::Unused;

/// Ranks that run plans on CUDA devices, each with its own buffers: all on one device, or on several.
///
/// A launch is one kernel on each device: every thread block of every rank on the device is one block of the kernel.
/// All of them are co-resident, or the launch is rejected. Kernels of several devices synchronize at their beginning and
/// at their end if the plan needs it; otherwise a kernel that has ended says nothing of the others. An executor is cheap to clone; clones share their state.
///
/// `Send` and `Sync`: threads may use an executor at the same time; its launches are enqueued, and executed, one after the
/// other.
#[derive(Clone)]
pub struct Executor {
    pub(super) inner: Arc<Inner>,
}

static_assertions::assert_impl_all!(Executor: Send, Sync);

/// An executor that others keep alive.
#[doc(hidden)]
pub struct WeakExecutor(Weak<Inner>);

impl WeakExecutor {
    /// Returns whether the executor has not been dropped.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Returns whether it is this one.
    pub fn is(&self, executor: &Executor) -> bool {
        self.0.as_ptr() == Arc::as_ptr(&executor.inner)
    }
}

impl Executor {
    /// Returns a reference that does not keep the executor alive.
    #[doc(hidden)]
    pub fn downgrade(&self) -> WeakExecutor {
        WeakExecutor(Arc::downgrade(&self.inner))
    }

    /// Returns the device of each rank of this process.
    #[doc(hidden)]
    pub fn local_devices(&self) -> impl Iterator<Item = &Device> {
        self.inner.local().map(|(_, device)| device)
    }
}

/// Settings of an [`Executor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Options {
    /// Maximum duration of an operation's wait, after which the launch aborts and reports what it was waiting for. `None`,
    /// the default, is the timeout of the communicator's calls ([`bootstrap::Options::timeout`], 10 minutes unless set);
    /// an executor of one process uses the default of these options. In an executor of several processes or threads it is
    /// also how much later than the others a rank may launch: after a longer delay the executor must be recreated.
    ///
    /// [`bootstrap::Options::timeout`]: mscclpp_bootstrap::Options::timeout
    pub timeout: Option<Duration>,
    /// Maximum bytes of scratch that a plan uses, all ranks together. Allocations are a little longer.
    pub scratch_limit: u64,
    /// Bytes per rank above which a plan with `reuse_resources` wraps its scratch, if it can.
    pub scratch_pool: u64,
    /// Whether switch channels go through multicast objects where these are available. Results do not depend on it.
    pub multicast: bool,
    /// Whether switches may reduce floats. Sums are in an unspecified order: they may differ in their last bits from those of
    /// the CPU executor and from one launch to the next, and sums of a narrow float are rounded once. Of minima and maxima of
    /// f16 and bf16 (there are none of other floats) NaN and the sign of zero are unspecified. Without it switches
    /// reduce integers only, and stores of floats still go to all members at once.
    pub in_switch_floats: bool,
}

/// Settings for preparing a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PrepareOptions {
    /// Whether to generate and compile a kernel for this plan, type and reduction. Where that is not possible the plan
    /// is interpreted, with the same results.
    pub specialize: bool,
    /// When `specialize` compiles a kernel that was not compiled before.
    #[doc(hidden)]
    pub compile: Compile,
    /// Whether switches may reduce floats, as [`Options::in_switch_floats`] allows it for all plans.
    pub in_switch_floats: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: None, scratch_limit: 1 << 36, scratch_pool: 1 << 26, multicast: true, in_switch_floats: false }
    }
}

impl Options {
    /// Returns these options with another timeout.
    #[must_use]
    pub const fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
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

    /// Returns these options with multicast objects allowed or not.
    #[must_use]
    pub const fn multicast(self, multicast: bool) -> Self {
        Self { multicast, ..self }
    }

    /// Returns these options with reductions of floats by switches allowed or not.
    #[must_use]
    pub const fn in_switch_floats(self, in_switch_floats: bool) -> Self {
        Self { in_switch_floats, ..self }
    }
}

impl PrepareOptions {
    /// Returns these options with a specialized kernel or without.
    #[must_use]
    pub fn specialize(self, specialize: bool) -> Self {
        Self { specialize, ..self }
    }

    /// Returns these options with a specialized kernel, and when it is compiled.
    #[doc(hidden)]
    #[must_use]
    pub fn specialize_by(self, compile: Compile) -> Self {
        Self { specialize: true, compile, ..self }
    }

    /// Returns these options with reductions of floats by switches allowed or not.
    #[must_use]
    pub fn in_switch_floats(self, in_switch_floats: bool) -> Self {
        Self { in_switch_floats, ..self }
    }
}

pub(super) struct Inner {
    /// Number of the executor in this process, for messages; counted from 1.
    pub(super) number: u64,
    /// Devices of this process' ranks, in the order of the first rank of each.
    pub(super) devices: Vec<Device>,
    /// Numbers of `devices` among the devices of all ranks.
    pub(super) numbers: Vec<u32>,
    /// Number of each rank's device.
    pub(super) device_of: Vec<u32>,
    /// Connection to the ranks of other processes.
    pub(super) group: Option<IpcGroup>,
    pub(super) ranks: u32,
    pub(super) options: Options,
    /// Maximum duration of an operation's wait.
    pub(super) timeout: Duration,
    /// States of the plans that were prepared; few, so that a list suffices.
    pub(super) contexts: Mutex<Vec<Arc<PlanState>>>,
    /// Lock that is held while a launch is enqueued on a stream.
    pub(super) launch_order: Mutex<LaunchOrder>,
    /// Whether a launch was captured.
    pub(super) is_captured: AtomicBool,
    unused: Unused,
}

/// The last launch on each device. Launches share counters and scratch, so they are executed one after the other whatever their streams,
/// those of graphs too.
pub(super) struct LaunchOrder {
    pub(super) last: Vec<LastLaunch>,
}

impl Executor {
    /// Creates an executor with default [`Options`].
    pub fn new(device: &Device, ranks: u32) -> Self {
        Self::with_options(device, ranks, Options::default())
    }

    /// Creates an executor with all ranks on one device.
    pub fn with_options(device: &Device, ranks: u32, options: Options) -> Self {
        Self::on(vec![device.clone()], vec![0; ranks as usize], options)
    }

    /// Creates an executor with a rank on each of these devices, in this order; a device may have several ranks. All
    /// devices must be able to access one another's memory.
    ///
    /// # Errors
    /// [`Error::NoPeerAccess`] with the names of two devices that are not connected; [`Error::NoDevice`] if there are
    /// no ranks; [`Error::Driver`].
    pub fn with_devices(ranks: &[Device], options: Options) -> Result<Self, Error> {
        let mut devices: Vec<Device> = Vec::new();
        let mut device_of = Vec::with_capacity(ranks.len());
        for device in ranks {
            let known = devices.iter().position(|known| known.is_same(device));
            device_of.push(known.unwrap_or(devices.len()) as u32);
            if known.is_none() {
                devices.push(device.clone());
            }
        }
        if devices.is_empty() {
            return Err(CudaUnavailable::NoDevice.into());
        }
        peer::connect(&devices)?;
        Ok(Self::on(devices, device_of, options))
    }

    /// Creates an executor of the ranks of a bootstrap, one in each process (or thread with its own bootstrap), each
    /// with a device. It is a call of all ranks, as are [`prepare`](Self::prepare), [`PreparedPlan::buffers`] and
    /// [`PreparedPlan::bind`]: all ranks make the same calls in the same order.
    ///
    /// Ranks of one process access one another's memory by peer access. Ranks of different processes map it: by file
    /// descriptors if it is physical memory that was allocated for that, as the memory of executors is where all devices of
    /// the node support it, otherwise by CUDA's interprocess handles, which a process can open only if it sees the device.
    ///
    /// A node is a set of ranks that can do so, each with all others, on one host or in one NVLink domain: the ranks find out
    /// by what the driver states, and by mapping a small allocation of each other ([`peer_paths`](Self::peer_paths)). Ranks of different nodes
    /// reach each other through port channels only, whose data goes through memory of the host: [`prepare`](Self::prepare)
    /// rejects plans that need more. After a failed call or launch the executor is unusable and must be recreated.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] with what another rank reports; [`Error::MapFailed`] if memory cannot be mapped for another reason
    /// than that the devices have no access; [`Error::Driver`].
    #[track_caller]
    pub fn connect(bootstrap: &Arc<Bootstrap>, device: &Device, options: Options) -> Result<Self, Error> {
        let _place = place::enter(Location::caller());
        Self::connect_ranks(process::Executor::new(Arc::clone(bootstrap))?, device, options)
    }

    /// Creates the executor of ranks that also make the calls of a process executor: one sequence of calls covers both.
    #[doc(hidden)]
    pub fn connect_ranks(ranks: process::Executor, device: &Device, options: Options) -> Result<Self, Error> {
        let num_ranks = ranks.num_ranks();
        let group = IpcGroup::new(ranks, device)?;
        let devices = vec![device.clone()];
        Ok(Self::of(devices, vec![group.rank], (0..num_ranks).collect(), Some(group), options))
    }

    fn on(devices: Vec<Device>, device_of: Vec<u32>, options: Options) -> Self {
        let numbers = (0..devices.len() as u32).collect();
        Self::of(devices, numbers, device_of, None, options)
    }

    fn of(
        devices: Vec<Device>,
        numbers: Vec<u32>,
        device_of: Vec<u32>,
        group: Option<IpcGroup>,
        options: Options,
    ) -> Self {
        let launch_order = Mutex::new(LaunchOrder { last: devices.iter().map(|_| LastLaunch::default()).collect() });
        let (ranks, contexts) = (device_of.len() as u32, Mutex::default());
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Relaxed) + 1;
        let of_calls = || match &group {
            Some(group) => group.bootstrap().options().timeout,
            None => mscclpp_bootstrap::Options::default().timeout,
        };
        let timeout = options.timeout.unwrap_or_else(of_calls);
        Self {
            inner: Arc::new(Inner {
                number,
                devices,
                numbers,
                device_of,
                group,
                ranks,
                options,
                timeout,
                contexts,
                launch_order,
                is_captured: AtomicBool::new(false),
                unused: Unused::default(),
            }),
        }
    }

    /// Returns the number of ranks, in all processes.
    pub fn num_ranks(&self) -> u32 {
        self.inner.ranks
    }

    /// Returns the number of thread blocks that each rank may have so that those of all ranks on a device are co-resident, if each
    /// fills a multiprocessor and one multiprocessor is the driver's; the same on all ranks.
    #[doc(hidden)]
    pub fn max_blocks(&self) -> u32 {
        let Inner { devices, numbers, device_of, group, .. } = &*self.inner;
        if let Some(group) = group {
            return group.max_blocks();
        }
        let num_ranks = |number: u32| device_of.iter().filter(|of| **of == number).count() as u32;
        let blocks = |(device, &number): (&Device, &u32)| {
            device.properties().multiprocessors.saturating_sub(1) / num_ranks(number).max(1)
        };
        devices.iter().zip(numbers).map(blocks).min().unwrap_or(1).max(1)
    }

    /// Checks that all ranks are in this process.
    ///
    /// # Errors
    /// [`Error::NotLocalRank`] with the first one that is not.
    #[doc(hidden)]
    pub fn check_local(&self) -> Result<(), Error> {
        let other = (0..self.inner.ranks).find(|rank| self.inner.device(*rank).is_none());
        other.map_or(Ok(()), |rank| Err(Error::NotLocalRank { rank }))
    }

    /// Returns how long an operation of a launch waits: [`Options::timeout`], or its default for these ranks.
    #[doc(hidden)]
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// Returns the devices of this process' ranks, in the order of the first rank of each.
    pub fn devices(&self) -> &[Device] {
        &self.inner.devices
    }

    /// Allocates zeroed memory on a rank's device for [`PreparedPlan::bind`] or [`PreparedPlan::launch`] that can be
    /// shared: it consists of whole units of physical memory (usually 2 MiB), which all devices of the executor can
    /// access and other processes map by file descriptors. MSCCL++ calls such memory symmetric. The caller must not
    /// drop it while a launch uses it.
    ///
    /// # Errors
    /// [`Error::NotLocalRank`] if the rank is not one of this process; [`Error::Driver`] if the device has too little
    /// memory; [`Error::Capturing`].
    pub fn alloc(&self, rank: u32, bytes: u64) -> Result<DeviceBuffer, Error> {
        refuse_in_capture("cannot allocate memory")?;
        let device = self.inner.device(rank).ok_or(Error::NotLocalRank { rank })?;
        DeviceBuffer::shared(device, bytes, &self.inner.others(device))
    }

    /// Creates a stream on all devices of this process' ranks.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn stream(&self) -> Result<Stream, Error> {
        let streams = self.inner.devices.iter().map(Device::stream).collect::<Result<Vec<_>, _>>()?;
        Ok(Stream::join(streams))
    }

    /// Binds a plan to a message. All work that needs memory or the kernels is done here, so that launches can be
    /// captured.
    ///
    /// The first call for a plan uploads it. Another size, type or reduction costs arithmetic on the host only, unless
    /// scratch must grow or the kernels of the type are not loaded yet.
    ///
    /// # Errors
    /// Those of [`cpu::Executor::prepare`](crate::cpu::Executor::prepare); [`Error::NotCoResident`] if the device
    /// cannot run all thread blocks at once; [`Error::Capturing`] in a [`Stream::capture`] of this thread;
    /// [`Error::Driver`]. In an executor of several processes also those of [`connect`](Self::connect),
    /// [`Error::Bootstrap`] and [`Error::MapFailed`]; on several nodes
    /// [`Error::CrossNodeAccess`].
    #[track_caller]
    pub fn prepare(&self, plan: &Plan, message: Message) -> Result<PreparedPlan, Error> {
        self.prepare_with_options(plan, message, PrepareOptions::default())
    }

    /// Binds a plan to a message, with settings.
    ///
    /// # Cost
    /// The first time that a plan is specialized for a type and reduction it is compiled, which takes seconds, unless it was
    /// compiled ahead of time or the cache contains it ([`jit`](super::jit)).
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare). It is no error if a plan cannot be specialized:
    /// [`PreparedPlan::specialized`] returns the reason.
    #[track_caller]
    pub fn prepare_with_options(
        &self,
        plan: &Plan,
        message: Message,
        prepare: PrepareOptions,
    ) -> Result<PreparedPlan, Error> {
        let _place = place::enter(Location::caller());
        if let Some(group) = &self.inner.group {
            group.check()?;
        }
        self.inner.refuse_in_capture("cannot prepare a plan")?;
        let (context, is_new) = self.inner.context(plan, message)?;
        let params = self.inner.params(&context.program, message)?;
        let prepared = PreparedPlan::new(Arc::clone(&self.inner), Arc::clone(&context), params, prepare);
        if is_new && prepared.is_err() {
            self.inner.forget(&context);
        }
        prepared
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { ranks, devices, options, .. } = &*self.inner;
        f.debug_struct("Executor").field("ranks", ranks).field("devices", devices).field("options", options).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A destructor cannot report a failure.
        if self.drain().is_ok() {
            self.unused.set();
        }
    }
}

impl Inner {
    /// Describes the executor for messages: its number, its ranks and the devices of this process.
    fn label(&self) -> String {
        let devices: Vec<String> = self.devices.iter().map(Device::label).collect();
        format!("executor {} ({} ranks, {})", self.number, self.ranks, devices.join(", "))
    }

    /// Rejects an object of another executor: its addresses are those of other devices, and it is not kept alive by
    /// what waits for the launches of this executor.
    ///
    /// # Errors
    /// [`Error::ForeignBuffers`].
    pub(super) fn check_same(self: &Arc<Self>, found: &Arc<Self>) -> Result<(), Error> {
        match Arc::ptr_eq(self, found) {
            true => Ok(()),
            false => Err(Error::ForeignBuffers { expected: self.label(), found: found.label() }),
        }
    }

    /// Returns the device of a rank, if the rank is one of this process.
    pub(super) fn device(&self, rank: u32) -> Option<&Device> {
        let number = *self.device_of.get(rank as usize)?;
        self.numbers.iter().position(|&own| own == number).map(|at| &self.devices[at])
    }

    /// Returns the ranks of this process and their devices.
    pub(super) fn local(&self) -> impl Iterator<Item = (u32, &Device)> {
        (0..self.ranks).filter_map(|rank| Some((rank, self.device(rank)?)))
    }

    /// Returns the numbers of this process' other devices, also of those whose ranks are in threads with their own
    /// bootstraps.
    pub(super) fn others(&self, device: &Device) -> Vec<u32> {
        let of_threads = self.group.iter().flat_map(IpcGroup::ordinals_here);
        let mut others: Vec<u32> = self.devices.iter().map(Device::ordinal).chain(of_threads).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|&ordinal| ordinal != device.ordinal());
        others
    }

    /// Allocates uninitialized memory of the executor on a device of this process. If ranks of other processes open it, it is
    /// physical memory that is shared as a file where all devices of the node support that: CUDA's interprocess handles
    /// can only be opened by a process that sees the device.
    pub(super) fn alloc_internal(&self, device: &Device, bytes: u64) -> driver::Result<Storage> {
        match self.group.as_ref().is_some_and(IpcGroup::is_memory_shareable) {
            true => Storage::shared(device.driver(), bytes, &self.others(device)),
            false => Storage::plain(device.driver(), bytes),
        }
    }

    /// Returns whether launches are kernels on several devices.
    pub(super) fn spans(&self) -> bool {
        self.devices.len() > 1 || self.group.is_some() && self.ranks > 1
    }

    /// Returns whether the last launches on all devices were enqueued on this stream.
    pub(super) fn is_last(&self, stream: &Stream) -> bool {
        let launch_order = self.launch_order.lock().unwrap_or_else(PoisonError::into_inner);
        let is_last = |(device, last): (&Device, &LastLaunch)| {
            let lane = stream.on(device.driver());
            lane.is_ok_and(|lane| last.used().is_none_or(|last| last.is_of(lane)))
        };
        self.devices.iter().zip(&launch_order.last).all(is_last)
    }

    /// Rejects a call in a capture of this thread. If it is a call of all ranks, the error is reported to the others.
    ///
    /// # Errors
    /// [`Error::Capturing`].
    pub(super) fn refuse_in_capture(&self, what: &str) -> Result<(), Error> {
        refuse_in_capture(what).map_err(|error| match &self.group {
            Some(group) => group.abort(error),
            None => error,
        })
    }

    /// Returns this process' result if the other processes have succeeded as well. It is a call of all ranks.
    pub(super) fn agree<T>(&self, text: &str, mine: Result<T, Error>) -> Result<T, Error> {
        let Some(group) = &self.group else { return mine };
        let (mine, result) = mine.map_or_else(|error| (None, Err(error)), |mine| (Some(mine), Ok(())));
        group.agree(text, result)?;
        mine.ok_or_else(|| Error::Internal("a failure that all agreed to".into()))
    }

    /// Waits until all launches of this process are complete, and no data is in port channels. Kernels of one device use memory
    /// of another, so this is done before any memory is freed. Other work of the devices is not waited for: it may wait for
    /// what this thread does next.
    pub(super) fn drain(&self) -> Result<(), Error> {
        self.wait_for_launches()?;
        let contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.iter().try_for_each(|context| context.drain(self.timeout))
    }

    /// Returns a plan's parameters for a message.
    fn params(&self, program: &ResolvedPlan, message: Message) -> Result<Params, Error> {
        Params::new(program, message, self.options.scratch_limit, self.options.scratch_pool)
    }

    /// Frees the new state of a plan that could not be prepared, unless another call uses it already.
    fn forget(&self, context: &Arc<PlanState>) {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        // This list and the caller have it.
        if Arc::strong_count(context) == 2 {
            contexts.retain(|known| !Arc::ptr_eq(known, context));
        }
    }

    /// Returns the state of a plan, which is created by the first call, with scratch for its message, and whether this call has
    /// created it. Plans are identified by their contents.
    fn context(&self, plan: &Plan, message: Message) -> Result<(Arc<PlanState>, bool), Error> {
        let same = |known: &Plan| known.hash() == plan.hash() && known.image().len() == plan.image().len();
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.iter().find(|context| same(&context.program.plan)) {
            return Ok((Arc::clone(context), false));
        }
        let (expected, found) = (plan.num_ranks(), self.ranks);
        if expected != found {
            return Err(Error::RankCountMismatch { plan: plan.name().to_owned(), expected, found });
        }
        let mut program = resolve(plan)?;
        elide_own_packets(&mut program);
        if program.shape.collective.rows && program.is_counted {
            let what = "rows and counts, expected at most one of them on devices".into();
            return Err(Error::InvalidPlan { path: "the whole plan".into(), what });
        }
        let Params { scratch, .. } = self.params(&program, message)?;
        let context = Arc::new(PlanState::new(self, program, scratch)?);
        contexts.push(Arc::clone(&context));
        Ok((context, true))
    }
}
