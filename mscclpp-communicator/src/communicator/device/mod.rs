//! Collective calls on device memory.

mod calls;
mod channels;
mod connection;
mod counted;
mod experts;
mod failure;
mod kernels;
mod launch;
mod posted;
mod row_norms;
mod served;
mod timeline;
mod transfers;

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use mscclpp_bootstrap::place;
use mscclpp_core::types::ReduceOp;

use self::connection::Connection;
pub use self::experts::{DeviceExperts, PendingCombine, PendingDispatch};
pub use self::kernels::KernelPolicy;
pub(super) use self::kernels::KnownPolicy;
use self::launch::DeviceCall;
use self::posted::Kind;
pub(super) use self::transfers::{Lanes, Transfer};
use super::Communicator;
use super::handle::Calls;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{
    Device, DeviceMut, DeviceSlice, DeviceVec, Dropped, FlatMapping, KernelTier, NotRegistered, PeerPath, PeerRegions,
    PeerWindow, Registered, Registration, Stream, device_count, refuse_in_capture,
};
use mscclpp_select::{DecidedBy, Request};

/// Bytes above which calls on memory that is not registered are made in pieces, if their collective allows it.
const STAGING_LIMIT: u64 = 64 << 20;

/// The calls of a communicator on device memory, enqueued on a stream; of [`Communicator::on`]. Each rank is a process, or a
/// thread with its own bootstrap, and has a device; several ranks may share one.
///
/// ```no_run
/// use mscclpp_core::types::ReduceOp;
/// use mscclpp_communicator::Communicator;
/// use mscclpp_exec::Error;
///
/// # fn main() -> Result<(), Error> {
/// let comm = Communicator::from_env()?;
/// let stream = comm.device()?.stream()?; // of `LOCAL_RANK`
/// let mut gradients = comm.on(&stream).alloc::<f32>(1 << 20)?; // registered: used without copies
/// comm.on(&stream).all_reduce_in_place(&mut gradients, ReduceOp::Avg)?; // enqueued
/// comm.on(&stream).synchronize()?; // done, or failed
/// # Ok(())
/// # }
/// ```
///
/// The calls have the names, arguments and results of the communicator's calls on slices. Memory is a
/// [`DeviceVec`] or a part of it, a slice or view of cudarc's, or a tensor of another library.
///
/// | memory | path |
/// |---|---|
/// | all of a call's memory is [allocated](Self::alloc) by the communicator or [registered](Self::register) with it | registered: used in place, no copy |
/// | any other, in a call whose plan lets ranks access only scratch of one another (packets) | used in place, no copy |
/// | any other | copied to internal buffers and back, on the same stream |
///
/// A call returns when it is enqueued. [`synchronize`](Self::synchronize) waits and reports whether the calls have
/// succeeded.
///
/// # Ordering
/// All ranks make the same calls in the same order, each on a stream of its device: the same sizes, types, reductions,
/// roots, and all or none of the memory registered. Registered memory is in the same allocation and begins at the same
/// offset on all ranks. Calls on different streams of a rank follow one another in the order in which they are made.
/// Between a call and its completion no other work may use its memory, except work that is enqueued on the stream later.
///
/// Ranks of a node compare their calls without waiting for each other: a difference fails the communicator with both
/// calls and their source lines, as soon as one of the ranks makes a call or waits in [`synchronize`](Self::synchronize). Between
/// nodes ranks compare the first calls of each kind and size, and those of which one has no elements.
///
/// # Captures
/// All calls may be captured, the first ones included, by [`Stream::capture`] or by other code; only
/// [`synchronize`](Self::synchronize) and the report of an aborted launch are [`Error::Capturing`]. A captured call prepares
/// what it needs at once, like any other, and a graph contains its launches and copies alone.
///
/// All ranks capture the same calls, at the same place among their calls. A rank may make a call while another rank captures
/// it; then one replay belongs to that call. Captured calls are compared, replays are not.
///
/// What a captured call uses (prepared plans, internal buffers, scratch) is kept until the communicator is dropped, which, or a
/// clone of which, must exist as long as a graph of its calls is launched; so must the caller's memory.
///
/// # Cost
/// The first call connects the ranks. The first call of a kind and size, and with registered memory of an allocation and
/// offset, selects an algorithm, prepares its plan and binds the memory, which are calls of all ranks; later ones enqueue
/// one kernel, and up to two copies for memory that is neither registered nor used in place. Of such calls those on more than 64 MiB
/// ([`Communicator::set_device_staging_limit`]) are made in pieces, if their collective works on each element alone:
/// all-reduce, broadcast, reduce, send-receive.
///
/// # Errors
/// All calls: invalid lengths and roots; [`Error::StreamDeviceMismatch`] for a stream or memory of another device than that of
/// the first call; [`Error::Capturing`] as above, and for a call in a [`Stream::capture`] of the thread on a stream that is not
/// captured; [`Error::Busy`] while another thread is in a call of this rank; errors of selection
/// and preparation. A launch that aborted is reported by the next call or by [`synchronize`](Self::synchronize), with the
/// root cause; the communicator has failed then.
#[derive(Clone, Copy, Debug)]
pub struct OnStream<'a> {
    communicator: &'a Communicator,
    stream: &'a Stream,
}

/// How a call on device memory was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchedCall {
    /// The request; it states whether the memory was registered.
    pub request: Request,
    /// The algorithm; none for a single rank, and for no elements.
    pub algorithm: Option<String>,
    /// What selected it.
    pub decided_by: Option<DecidedBy>,
    /// Bytes that were copied to internal buffers and from them; on a single rank from the input to the output.
    pub bytes_copied: u64,
    /// Number of launches: one, or one per piece.
    pub num_launches: u32,
    /// Number of thread blocks of a launch, of all ranks; 0 without a launch.
    pub num_blocks: u32,
    /// Number of CUDA threads of a thread block; 0 without a launch.
    pub threads_per_block: u32,
    /// The kernel that the last launch ran: one that was compiled for the plan, or the interpreter.
    pub kernel: KernelTier,
}

/// State of a rank's calls on device memory.
pub(super) struct Devices {
    connection: Option<Box<Connection>>,
    staging_limit: u64,
}

impl Default for Devices {
    fn default() -> Self {
        Self { connection: None, staging_limit: STAGING_LIMIT }
    }
}

impl Devices {
    /// Drops what was prepared.
    pub(super) fn clear(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.clear();
        }
    }

    /// Drops what was forgotten and what graphs do not contain, before the next call does.
    pub(super) fn drop_unused(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.drop_unused();
        }
    }

    /// Posts a call on slices, or a barrier without a request, so that ranks which make a call on devices instead notice: prepared calls on
    /// devices do not wait for other ranks. Does nothing before the first call on devices.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] with the mismatch, or why the communicator has failed.
    pub(super) fn post_of_host(
        &mut self,
        request: Option<&Request>,
        place: &'static Location<'static>,
    ) -> Result<(), Error> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let kind = request.map_or(Kind::Barrier, |request| Kind::OnSlices(*request));
        connection.post_at(kind, place)
    }

    /// Returns the connection to the other ranks, which the first call makes.
    fn connection(&mut self, on: &OnStream<'_>) -> Result<&mut Connection, Error> {
        match &mut self.connection {
            Some(connection) => {
                connection.check_stream(on.stream)?;
                Ok(connection)
            }
            none => Ok(none.insert(Box::new(Connection::new(on.communicator, on.stream)?))),
        }
    }

    /// Returns the connection to the other ranks, if there was a call.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`].
    fn connected(&mut self, stream: &Stream) -> Result<Option<&mut Connection>, Error> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        connection.check_stream(stream)?;
        Ok(Some(connection))
    }
}

impl Communicator {
    /// Returns the calls of this communicator on device memory, enqueued on a stream. The device of the first call's stream is
    /// that of all later ones.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> OnStream<'a> {
        OnStream { communicator: self, stream }
    }

    /// Opens the device of this rank: the one whose number is the rank's among those of the job on its host (`LOCAL_RANK`),
    /// modulo the number of devices that the process sees.
    ///
    /// # Errors
    /// [`Error::NoDevice`].
    pub fn device(&self) -> Result<Device, Error> {
        let devices = device_count()?.max(1);
        Ok(Device::new(self.bootstrap().local_rank() % devices)?)
    }

    /// Sets the bytes above which calls on device memory that is not registered are made in pieces, 64 MiB at first; the
    /// same on all ranks. Pieces have at least 4 KiB.
    ///
    /// # Errors
    /// [`Error::Busy`].
    #[doc(hidden)]
    pub fn set_device_staging_limit(&self, bytes: u64) -> Result<(), Error> {
        self.calls()?.devices.staging_limit = bytes.max(1 << 12);
        Ok(())
    }

    /// Sets which kernels launch the plans that are prepared from now on; at first what the variable `MSCCLPP_KERNELS` states. Ranks may
    /// differ.
    pub fn set_kernel_policy(&self, policy: KernelPolicy) {
        self.inner.kernels.set(policy);
    }

    /// Sets how long the first transfer of a size on device memory waits on the host for the other rank, before the stream waits
    /// instead: as long as the call may take at first, or the seconds in the variable `MSCCLPP_FIRST_TRANSFER_WAIT`. A buffered send does not
    /// wait; other calls on the device wait up to a second for buffered sends of a size that is new.
    ///
    /// A shorter time is for programs whose ranks make such transfers in an order in which both would wait on the host. While a stream
    /// waits for a transfer that is not enqueued yet, a copy of the program's to memory of the host that is not page-locked never ends,
    /// not by a timeout either: the driver lets nothing be allocated meanwhile.
    #[doc(hidden)]
    pub fn set_first_transfer_wait(&self, wait: Duration) {
        self.inner.lanes.set_first_wait(wait);
    }
}

impl<'a> OnStream<'a> {
    pub(super) fn communicator(&self) -> &'a Communicator {
        self.communicator
    }

    pub(super) fn stream(&self) -> &'a Stream {
        self.stream
    }
}

impl OnStream<'_> {
    /// Allocates `len` registered elements, zero at first, which calls use without copies. A call of all ranks with one
    /// length. The elements are freed by the first `alloc` after all ranks have dropped them, or with the communicator.
    ///
    /// # Errors
    /// As [`OnStream`]; [`Error::Driver`] if the device has too little memory, which fails the communicator.
    #[track_caller]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<DeviceVec<T>, Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        self.communicator.record(&mut calls, None, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            connection.alloc(&call, len)
        })
    }

    /// Registers device memory of the caller's, such as a slice of cudarc's or a tensor, so that calls use it without copies. A
    /// call of all ranks with as many elements, which waits for all of them. Other communicators treat the memory as any other.
    ///
    /// The memory must be in one allocation that other processes can map, as that of `cuMemAlloc` is: not of a pool.
    ///
    /// # Errors
    /// [`Error::NotShareable`] on all ranks, if one of them cannot share its memory; the communicator is as before. Those of
    /// [`OnStream`].
    #[track_caller]
    pub fn register<T: Element, M: DeviceMut<T> + Send + Sync + 'static>(
        &self,
        mut memory: M,
    ) -> Result<Registered<M>, NotRegistered<M>> {
        let slice = memory.lend_mut(self.stream).map(|lent| lent.as_slice());
        let slice = match slice {
            Ok(slice) => slice,
            Err(error) => return Err(NotRegistered { memory, error }),
        };
        match self.register_slice(slice) {
            Ok((registration, dropped)) => Ok(Registered::new(memory, slice, registration, dropped)),
            Err(error) => Err(NotRegistered { memory, error }),
        }
    }

    #[track_caller]
    fn register_slice(&self, slice: DeviceSlice) -> Result<(Registration, Arc<Dropped>), Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        self.communicator.record(&mut calls, None, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            connection.register(&call, slice)
        })
    }

    /// Maps memory of the caller's on all ranks of the node, for work that is not a call of this library. A call of all ranks with
    /// as many bytes, which waits for all of them.
    ///
    /// The memory must be in one allocation that other processes can map, as for [`register`](Self::register).
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    #[track_caller]
    #[doc(hidden)]
    pub fn peer_window(&self, memory: DeviceSlice) -> Result<PeerWindow, Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        self.communicator.record(&mut calls, None, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            connection.peer_window(&call, memory)
        })
    }

    /// Maps ranges of device memory of all ranks, for kernels of the caller's. A call of all ranks, each with any number of ranges, which waits
    /// for all of them.
    ///
    /// Each range must be in one allocation that other processes can map, as for [`register`](Self::register).
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    #[track_caller]
    #[doc(hidden)]
    pub fn peer_regions(&self, mine: Vec<DeviceSlice>) -> Result<PeerRegions, Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        self.communicator.record(&mut calls, None, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            connection.peer_regions(&call, mine)
        })
    }

    /// Maps memory of the caller's on all ranks in one range of addresses, that of each rank at the same distance from the one
    /// before, for kernels that are not calls of this library. A call of all ranks with as many bytes, which waits for all of them.
    ///
    /// The memory of each rank must be in one allocation of physical memory, such as [`DeviceVec::shareable`], at the same offset
    /// of it, and all ranks on one host.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    #[track_caller]
    #[doc(hidden)]
    pub fn flat_mapping(&self, memory: DeviceSlice) -> Result<FlatMapping, Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        self.communicator.record(&mut calls, None, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            connection.flat_mapping(&call, memory)
        })
    }

    /// Waits until all work on the stream is complete, and reports whether the calls so far have succeeded on this rank.
    /// While it waits, it ends with an error as soon as another rank is lost, has failed, has left without making the
    /// calls of this rank, or makes different ones.
    ///
    /// # Errors
    /// As [`OnStream`]: [`Error::Stalled`], [`Error::Interrupted`], [`Error::Bootstrap`].
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), Error> {
        if self.stream.is_capturing()? {
            return Err(Error::Capturing { what: "cannot wait for the stream".into() });
        }
        let watched = self.wait_for_stream()?;
        self.communicator.inner.lanes.check()?;
        self.communicator.each_pair(|pair| match pair.on(self.stream).finish_calls() {
            // A thread makes a transfer for which the stream does not wait.
            Err(Error::Busy) => Ok(()),
            finished => finished,
        })?;
        watched
    }

    /// Waits until all work on the stream is complete, and reports whether the calls except transfers have succeeded. What the stream
    /// waits for ends early if another rank fails; that is the result.
    #[track_caller]
    fn wait_for_stream(&self) -> Result<Result<(), Error>, Error> {
        let (communicator, mut watched) = (self.communicator, Ok(()));
        let mut calls = communicator.calls()?;
        communicator.guard(&mut calls, |calls| {
            let mut connection = calls.devices.connected(self.stream)?;
            self.stream.synchronize_watching(|| {
                let own = match &mut connection {
                    Some(connection) => connection.watch(),
                    None => communicator.bootstrap().check_alive().map_err(Error::from),
                };
                let of_transfers = communicator.watch_transfers();
                if watched.is_ok() {
                    watched = own.and(of_transfers);
                }
            })?;
            match connection {
                // The launches report a failure.
                Some(connection) => connection.finish(self.stream),
                None => Ok(()),
            }
        })?;
        Ok(watched)
    }

    /// Reports whether the calls on the device have succeeded, when the stream is done.
    #[track_caller]
    fn finish_calls(&self) -> Result<(), Error> {
        let mut calls = self.communicator.calls()?;
        if calls.devices.connection.is_none() {
            return Ok(());
        }
        self.communicator.guard(&mut calls, |calls| calls.devices.connection(self)?.finish(self.stream))
    }

    /// Enqueues a barrier: work that is enqueued on the stream later begins when all ranks have made this call, and their
    /// streams have reached it.
    ///
    /// # Errors
    /// As [`OnStream`].
    #[track_caller]
    pub fn barrier(&self) -> Result<(), Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        let token = self.communicator.record(&mut calls, None, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            connection.barrier_token(&call)
        });
        drop(calls);
        self.all_reduce_in_place(&mut token?, ReduceOp::Max)
    }

    /// Returns how this rank's device accesses the memory of each rank, and why not; none before the first call. Data goes
    /// through memory of the host between ranks that cannot access the memory of each other.
    ///
    /// # Errors
    /// [`Error::Busy`].
    #[doc(hidden)]
    pub fn peer_paths(&self) -> Result<Option<Vec<PeerPath>>, Error> {
        let calls = self.communicator.calls()?;
        Ok(calls.devices.connection.as_ref().map(|connection| connection.executor.peer_paths().to_vec()))
    }

    /// Returns how the last collective on device memory was made; none before the first one, and after one that failed. Transfers
    /// (send, recv, gather, scatter and all-to-all-v) do not change it.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub fn last_call(&self) -> Result<Option<LaunchedCall>, Error> {
        let calls = self.communicator.calls()?;
        Ok(calls.devices.connection.as_ref().and_then(|connection| connection.last_call()))
    }

    /// Returns the connection to the other ranks, which the first call makes, and a call on the stream.
    fn begin<'c>(
        &'c self,
        calls: &'c mut Calls,
        place: &'static Location<'static>,
    ) -> Result<(&'c mut Connection, DeviceCall<'c>), Error> {
        let Calls { devices, forced, .. } = calls;
        // It was asked for another call.
        forced.forget_selected();
        let staging_limit = devices.staging_limit;
        let kernels = self.communicator.inner.kernels.get()?;
        let connection = devices.connection(self)?;
        let _current = self.stream.enter()?;
        let is_captured = self.stream.is_capturing()?;
        if !is_captured {
            refuse_in_capture("cannot make a call on a stream that is not captured")?;
        }
        let (Self { communicator, stream }, place) = (*self, place::current(place));
        Ok((
            connection,
            DeviceCall { communicator, stream, place, is_captured, forced, staging_limit, kernels, _current },
        ))
    }
}
