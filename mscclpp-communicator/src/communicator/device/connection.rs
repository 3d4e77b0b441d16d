//! A rank's connection to the devices of the other ranks, and what it keeps for later calls.

use std::panic::Location;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::{ActiveTimeout, Bootstrap, place};

use super::LaunchedCall;
use super::launch::{DeviceCall, Entry, Launched};
use super::posted::{Kind, PostedCalls};
use super::timeline::Timelines;
use crate::communicator::Communicator;
use crate::communicator::cache::Cache;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{
    self, CHECK_INTERVAL, Device, DeviceBuffer, DeviceSlice, DeviceVec, Dropped, Executor, FlatMapping, PeerRegions,
    PeerWindow, Registration, Stream, bytes_of,
};
use mscclpp_select::Machine;

/// How long a rank that drops its connection waits for others that may access its memory. If they do not stop, the memory is
/// leaked.
const MAX_STOP_TIME: Duration = Duration::from_secs(1);

/// Registered memory, which other ranks may access after its owner has dropped it.
enum Allocation {
    Own(Arc<DeviceBuffer>),
    Caller(Arc<Dropped>),
}

impl Allocation {
    fn is_dropped(&self) -> bool {
        match self {
            Self::Own(memory) => Arc::strong_count(memory) == 1,
            Self::Caller(dropped) => Arc::strong_count(dropped) == 1,
        }
    }
}

/// A rank's connection to the devices of the other ranks.
pub(super) struct Connection {
    // Dropped first: destructors of plans wait for pending launches.
    pub(super) cache: Cache<Entry>,
    /// Prepared requests that were replaced, but that graphs may contain.
    pub(super) retired: Vec<Entry>,
    /// Whether there are others among them.
    has_unused: bool,
    /// Internal buffers for input and output.
    pub(super) staging: Option<Arc<[DeviceBuffer; 2]>>,
    /// Registered allocations that not all ranks have dropped yet, by number.
    allocations: Vec<(u64, Allocation)>,
    num_allocations: u64,
    token: Option<DeviceVec<u32>>,
    pub(super) posted: PostedCalls,
    /// Whether the report of an aborted launch was read.
    is_reported: bool,
    /// Whether a failure was found that all later calls return.
    pub(super) has_failed: bool,
    pub(super) last: Option<Launched>,
    pub(super) multicast: bool,
    pub(super) max_blocks: u32,
    pub(super) ranks_per_node: u32,
    /// The machine description that the devices of all ranks were recognized as.
    pub(super) machine: Option<&'static str>,
    pub(super) device: Device,
    pub(super) executor: Executor,
    pub(super) bootstrap: Arc<Bootstrap>,
    /// What the environment asks to record.
    pub(super) timelines: Option<Timelines>,
}

impl Connection {
    /// Connects the ranks. A call of all ranks, which may be captured.
    pub(super) fn new(communicator: &Communicator, stream: &Stream) -> Result<Self, Error> {
        let none = || Error::StreamDeviceMismatch { device: "any device".into() };
        let device = stream.devices().next().ok_or_else(none)?.clone();
        let _set_up = stream.set_up(stream.is_capturing()?)?;
        let options = cuda::Options::default().timeout(communicator.bootstrap().options().timeout);
        let executor = Executor::connect_ranks(communicator.executor()?, &device, options)?;
        let posted = PostedCalls::new(executor.share_call_ring()?);
        let (labels, ranks_per_node) = (executor.device_labels()?, executor.ranks_per_node()?);
        Ok(Self {
            cache: Cache::default(),
            retired: Vec::new(),
            has_unused: false,
            staging: None,
            allocations: Vec::new(),
            num_allocations: 0,
            token: None,
            posted,
            is_reported: false,
            has_failed: false,
            last: None,
            multicast: executor.has_multicast(),
            max_blocks: executor.max_blocks(),
            ranks_per_node,
            machine: Machine::recognize(labels.iter().map(String::as_str), ranks_per_node),
            timelines: Timelines::new(communicator, &device),
            device,
            executor,
            bootstrap: Arc::clone(communicator.bootstrap()),
        })
    }

    /// Checks that a stream has a queue on the device.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`].
    pub(super) fn check_stream(&self, stream: &Stream) -> Result<(), Error> {
        match stream.devices().any(|device| device.is_same(&self.device)) {
            true => Ok(()),
            false => Err(Error::StreamDeviceMismatch { device: self.device.label() }),
        }
    }

    /// Forgets what was prepared. What graphs do not contain is dropped by the next call that is not captured: this thread may be in a
    /// capture, in which nothing can be freed.
    pub(super) fn clear(&mut self) {
        self.retired.extend(self.cache.clear());
        self.has_unused |= self.retired.iter().any(|entry| !entry.is_captured);
    }

    /// Drops what was forgotten and what graphs do not contain.
    pub(super) fn drop_unused(&mut self) {
        if std::mem::take(&mut self.has_unused) {
            self.retired.retain(|entry| entry.is_captured);
        }
    }

    /// Returns the bytes of memory that [`alloc`](Self::alloc) has allocated.
    pub(super) fn allocated_bytes(&self) -> u64 {
        let bytes = |(_, allocation): &(u64, Allocation)| match allocation {
            Allocation::Own(memory) => memory.bytes(),
            Allocation::Caller(_) => 0,
        };
        self.allocations.iter().map(bytes).sum()
    }

    /// Writes what launches have recorded, if none is pending: it waits for none.
    pub(super) fn write_timelines(&mut self) {
        let Some(timelines) = self.timelines.as_mut().filter(|timelines| timelines.is_used()) else { return };
        if self.executor.is_idle() {
            timelines.write();
        }
    }

    pub(super) fn last_call(&self) -> Option<LaunchedCall> {
        self.last.as_ref().map(Launched::report)
    }

    /// Posts a call, captured or not, and compares it with those of the other ranks of the node.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] with the mismatch, or why the communicator has failed.
    pub(super) fn post(&mut self, kind: Kind, call: &DeviceCall<'_>) -> Result<(), Error> {
        let choice = || match &kind {
            Kind::Collective(request, ..) => call.forced.describe(request),
            _ => String::new(),
        };
        let posted = self.posted.post(kind, choice, call.place, &self.bootstrap);
        posted.map_err(|error| self.fail(error))
    }

    /// Posts a call that was made at a source location, and compares it as [`post`](Self::post) does.
    pub(super) fn post_at(&mut self, kind: Kind, place: &'static Location<'static>) -> Result<(), Error> {
        let posted = self.posted.post(kind, String::new, place, &self.bootstrap);
        posted.map_err(|error| self.fail(error))
    }

    /// Tells the ranks of other nodes of this rank's last call, which launches nothing.
    ///
    /// # Errors
    /// Why the communicator has failed.
    pub(super) fn tell_other_nodes(&self) -> Result<(), Error> {
        self.posted.ring.tell_other_nodes(&self.bootstrap).map_err(|error| self.fail(error.into()))
    }

    /// Compares the calls of all ranks so far.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub(super) fn compare(&mut self) -> Result<(), Error> {
        let compared = self.posted.ring.compare(&self.bootstrap);
        compared.map_err(|error| self.fail(error.into()))
    }

    /// Fails the communicator, and aborts the launches of this rank.
    pub(super) fn fail(&self, error: Error) -> Error {
        let error = self.executor.fail(error);
        self.stop();
        error
    }

    /// Aborts the launches of this rank after a failure, and tells the other ranks when none is pending any more.
    fn stop(&self) {
        self.executor.abort_launches();
        if self.executor.wait_for_launches().is_ok() {
            self.posted.ring.stop();
        }
    }

    /// Checks that no earlier call has failed.
    ///
    /// # Errors
    /// The report of the first launch that aborted, or why the communicator has failed.
    pub(super) fn check(&mut self, stream: &Stream) -> Result<(), Error> {
        if self.is_reported || !self.executor.has_aborted() {
            return self.executor.check().inspect_err(|_| self.stop());
        }
        if stream.is_capturing()? {
            return Err(Error::Capturing { what: "cannot read the report of an aborted launch".into() });
        }
        let mut plans = self.cache.prepared().chain(&self.retired).filter_map(Entry::plan);
        let aborted = plans.find(|plan| plan.has_aborted());
        let Some(aborted) = aborted else {
            return self.executor.check();
        };
        self.is_reported = true;
        // The call that a rank has not made, which only the calls of the ranks tell.
        if !aborted.is_abort_requested() && self.bootstrap.check_alive().is_ok() {
            let late = self.executor.find_late_ranks(&self.posted.ring, aborted.timeout());
            late.into_iter().for_each(|cause| _ = self.executor.fail(cause.into()));
        }
        let error = aborted.recover(stream);
        self.stop();
        Err(error)
    }

    /// Allocates registered memory. A call of all ranks.
    pub(super) fn alloc<T: Element>(&mut self, call: &DeviceCall<'_>, len: usize) -> Result<DeviceVec<T>, Error> {
        let bytes = bytes_of::<T>(len);
        let kind = Kind::Alloc(bytes);
        let text = kind.describe();
        let memory = self.replace_dropped(kind, call, |executor| executor.alloc_on_all(&text, bytes))?;
        let memory = Arc::new(memory);
        let registration = self.add(Allocation::Own(Arc::clone(&memory)));
        Ok(DeviceVec::of(memory, len, Some(registration)))
    }

    /// Registers memory of the caller's. A call of all ranks. Returns what keeps the memory after it was dropped.
    pub(super) fn register(
        &mut self,
        call: &DeviceCall<'_>,
        memory: DeviceSlice,
    ) -> Result<(Registration, Arc<Dropped>), Error> {
        let kind = Kind::Register(memory.bytes);
        self.replace_dropped(kind, call, |executor| executor.share_on_all(memory))?;
        let dropped = Arc::default();
        Ok((self.add(Allocation::Caller(Arc::clone(&dropped))), dropped))
    }

    /// Maps memory of all ranks. A call of all ranks.
    pub(super) fn peer_window(&mut self, call: &DeviceCall<'_>, memory: DeviceSlice) -> Result<PeerWindow, Error> {
        self.check(call.stream)?;
        self.post(Kind::Window(memory.bytes), call)?;
        let _set_up = call.set_up()?;
        self.executor.peer_window(memory)
    }

    /// Maps ranges of memory of all ranks. A call of all ranks.
    pub(super) fn peer_regions(&mut self, call: &DeviceCall<'_>, mine: Vec<DeviceSlice>) -> Result<PeerRegions, Error> {
        self.check(call.stream)?;
        self.post(Kind::Regions, call)?;
        let _set_up = call.set_up()?;
        self.executor.peer_regions(mine)
    }

    /// Maps memory of all ranks in one range of addresses. A call of all ranks.
    pub(super) fn flat_mapping(&mut self, call: &DeviceCall<'_>, memory: DeviceSlice) -> Result<FlatMapping, Error> {
        self.check(call.stream)?;
        self.post(Kind::FlatMapping(memory.bytes), call)?;
        let _set_up = call.set_up()?;
        self.executor.flat_mapping(memory)
    }

    fn add(&mut self, allocation: Allocation) -> Registration {
        self.num_allocations += 1;
        self.allocations.push((self.num_allocations, allocation));
        Registration { executor: self.executor.number(), allocation: self.num_allocations, offset: 0 }
    }

    /// Does something between the time when no rank is bound to memory that all ranks have dropped, and when it is freed. A call
    /// of all ranks.
    fn replace_dropped<R>(
        &mut self,
        kind: Kind,
        call: &DeviceCall<'_>,
        replace: impl FnOnce(&Executor) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.check(call.stream)?;
        self.post(kind, call)?;
        let _part = place::enter_call(self.posted.ring.number(), || kind.describe());
        let dropped = self.dropped_on_all_ranks(&kind.describe(), call)?;
        self.cache.prepared_mut().for_each(|entry| entry.unbind(&dropped));
        let replaced = {
            let _set_up = call.set_up()?;
            replace(&self.executor)?
        };
        self.allocations.retain(|(number, _)| !dropped.contains(number));
        Ok(replaced)
    }

    /// Returns the allocations that all ranks have dropped, which no rank uses in a launch any more: all have made the same
    /// calls until now. None if the call is captured on any rank, because memory is not freed in a capture. A call of all
    /// ranks.
    fn dropped_on_all_ranks(&mut self, text: &str, call: &DeviceCall<'_>) -> Result<Vec<u64>, Error> {
        let dropped = self.allocations.iter().filter(|(_, memory)| !call.is_captured && memory.is_dropped());
        let dropped: Vec<u64> = dropped.map(|(number, _)| *number).collect();
        let of_all = self.executor.gather(text, &dropped)?;
        self.compare()?;
        Ok(dropped.into_iter().filter(|number| of_all.iter().all(|dropped| dropped.contains(number))).collect())
    }

    /// Returns registered memory of one element for barriers. The first call allocates it.
    pub(super) fn barrier_token(&mut self, call: &DeviceCall<'_>) -> Result<DeviceVec<u32>, Error> {
        let token = match self.token.take() {
            Some(token) => token,
            None => self.alloc(call, 1)?,
        };
        Ok(self.token.insert(token).share())
    }

    /// Reports whether the calls so far have succeeded, when a stream of all of them is done.
    pub(super) fn finish(&mut self, stream: &Stream) -> Result<(), Error> {
        self.check(stream)?;
        self.executor.drain_ports().map_err(|error| self.fail(error))?;
        self.write_timelines();
        self.compare()?;
        self.check_counts()
    }
}

impl Drop for Connection {
    /// Waits for the launches of this rank, and until no other rank accesses its memory.
    fn drop(&mut self) {
        let lost = self.bootstrap.check_alive().map_or_else(|error| error.lost(), |()| Vec::new());
        let has_failed = self.executor.check().is_err() || self.executor.has_aborted();
        if has_failed {
            self.executor.abort_launches();
        }
        let mut is_quiet = self.executor.wait_for_launches().is_ok();
        self.posted.ring.stop();
        if let Some(timelines) = self.timelines.as_mut().filter(|_| is_quiet) {
            timelines.write();
        }
        if let Some(cause) = self.posted.ring.missed(&self.bootstrap).filter(|_| !has_failed && lost.is_empty()) {
            // Ranks that wait on the host for one another do not compare their calls.
            self.executor.fail(cause.into());
        }
        let mut timeout = ActiveTimeout::new(MAX_STOP_TIME);
        while is_quiet && !self.posted.ring.is_quiet(&lost, has_failed) {
            thread::sleep(CHECK_INTERVAL);
            is_quiet = !timeout.is_expired();
        }
        if !is_quiet {
            let entries: Vec<Entry> = self.cache.clear().chain(self.retired.drain(..)).collect();
            std::mem::forget((
                entries,
                self.staging.take(),
                std::mem::take(&mut self.allocations),
                self.executor.clone(),
            ));
        }
    }
}
