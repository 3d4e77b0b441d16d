//! Streams, graphs that are captured from them, and events.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use crate::capture::{CaptureGuard, SetUp};
use crate::device::Device;
use crate::driver::calls::Priority;
use crate::driver::{self, CaptureMode, Driver, Entered, Handle, SharedDriver};
use mscclpp_base::error::Error;

/// Interval at which a destructor polls an event.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// A queue of work on a device, or on each of several. The device executes work in the order in which it is enqueued,
/// while the caller continues.
///
/// `Send` and `Sync`: any thread may enqueue work; the driver orders it.
pub struct Stream {
    lanes: SmallVec<[Arc<Lane>; 1]>,
}

static_assertions::assert_impl_all!(Stream: Send, Sync);

/// A stream of one device.
pub struct Lane {
    device: Device,
    handle: Handle,
    owned: bool,
    /// Held while a capture begins, and while a query of the stream would invalidate one that has begun.
    begin_capture: Mutex<()>,
    /// The stream as one of other code, if it is needed: one, so that the event of its work is recorded again.
    borrowed: OnceLock<Arc<Self>>,
}

/// Work that was enqueued on a stream. A stream of this library is kept alive; a foreign one may be destroyed at any time, so
/// that the end of its work is recorded.
pub enum Used {
    Ours(Arc<Lane>),
    Theirs(Weak<Lane>, Event),
}

impl Used {
    /// Returns whether it is work of this stream.
    pub fn is_of(&self, lane: &Arc<Lane>) -> bool {
        match self {
            Self::Ours(used) => used.handle == lane.handle,
            Self::Theirs(used, _) => std::ptr::eq(used.as_ptr(), Arc::as_ptr(lane)),
        }
    }

    /// Returns whether the work is known to be complete.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Ours(lane) => lane.is_idle_unless_captured().unwrap_or(false),
            Self::Theirs(_, end) => end.is_done().unwrap_or(false),
        }
    }

    /// Waits until the work is complete.
    ///
    /// # Errors
    /// Those of the work; of a stream of this library also that it is captured.
    pub fn wait(&self) -> driver::Result<()> {
        match self {
            Self::Ours(lane) => {
                let _set_up = SetUp::begin(lane.device.driver(), false)?;
                lane.driver().synchronize(lane.handle)
            }
            Self::Theirs(_, end) => {
                while !end.is_done()? {
                    thread::sleep(POLL_INTERVAL);
                }
                Ok(())
            }
        }
    }
}

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self, Error> {
        Ok(Self::owned(device, device.driver().create_stream()?))
    }

    pub(crate) fn with_priority(device: &Device, priority: Priority) -> Result<Self, Error> {
        Ok(Self::owned(device, device.driver().create_priority_stream(priority)?))
    }

    fn owned(device: &Device, handle: Handle) -> Self {
        Self { lanes: smallvec![Arc::new(Lane::new(device, handle, true))] }
    }

    /// Wraps a stream that the caller created and destroys: a `CUstream` of the driver's interface.
    ///
    /// # Safety
    /// It must be a stream of this device's primary context and exist as long as the result is used. The default stream
    /// of each thread (`CU_STREAM_PER_THREAD`) is a different stream in every thread, so the result must stay in the
    /// thread that created it.
    #[doc(hidden)]
    pub unsafe fn from_raw(device: &Device, stream: usize) -> Self {
        Self { lanes: smallvec![Lane::foreign(device, Handle(stream))] }
    }

    /// Returns what distinguishes a stream of the caller's from all others of the process, also from those that had its handle before, and
    /// the default stream of this thread from those of other threads. The handle where the driver has no
    /// identifiers.
    ///
    /// # Safety
    /// It must be a stream of this device's primary context.
    #[doc(hidden)]
    pub unsafe fn id_of_raw(device: &Device, stream: usize) -> u64 {
        device.driver().stream_id(Handle(stream)).unwrap_or(stream as u64)
    }

    /// Joins streams of several devices into one, for launches of an executor on all of them.
    #[doc(hidden)]
    pub fn join(streams: impl IntoIterator<Item = Self>) -> Self {
        Self { lanes: streams.into_iter().flat_map(|stream| stream.lanes).collect() }
    }

    /// Returns the stream as one of other code, for work that streams follow which this one waits for: what follows it begins
    /// when this work is complete, whatever is enqueued after it.
    #[doc(hidden)]
    pub fn borrowed(&self) -> Self {
        Self { lanes: self.lanes.iter().map(Lane::borrowed).collect() }
    }

    /// Returns the driver's handle of the first device's stream, for kernels that this library does not launch.
    #[doc(hidden)]
    pub fn raw(&self) -> Option<usize> {
        self.lanes.first().map(|lane| lane.handle.0)
    }

    /// Returns another handle of the stream.
    pub(crate) fn share(&self) -> Self {
        Self { lanes: self.lanes.clone() }
    }

    /// Returns its stream on a device.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`].
    #[doc(hidden)]
    pub fn on(&self, device: &SharedDriver) -> Result<&Arc<Lane>, Error> {
        let properties = device.properties();
        // Compared by UUID, not by number: a device of another driver may have the same number, and its streams are no
        // handles of this driver.
        let lane = self.lanes.iter().find(|lane| lane.driver().properties().uuid == properties.uuid);
        lane.ok_or_else(|| Error::StreamDeviceMismatch { device: properties.label() })
    }

    /// Waits until all work on it is complete. It does not report launches that aborted: `PreparedPlan::synchronize`
    /// does.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn synchronize(&self) -> Result<(), Error> {
        // All of them are synchronized, also if one fails.
        let done = self.lanes.iter().map(|lane| lane.driver().synchronize(lane.handle));
        Ok(done.fold(Ok(()), driver::Result::and)?)
    }

    /// Returns whether all work on it is complete; `false` while it is captured. It does not report launches that aborted. Captures
    /// continue.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn is_idle(&self) -> Result<bool, Error> {
        let mut is_idle = true;
        for lane in &self.lanes {
            is_idle &= lane.is_idle_unless_captured()?;
        }
        Ok(is_idle)
    }

    /// Captures the work that `record` enqueues on this stream into a graph, instead of executing it. Work that needs
    /// the host or new memory cannot be captured: prepare plans, make buffers and bind them before.
    ///
    /// # Errors
    /// Those of `record`, such as [`Error::Capturing`] for what must be done before; and [`Error::Driver`].
    pub fn capture(&self, record: impl FnOnce(&Self) -> Result<(), Error>) -> Result<Graph, Error> {
        let (mut begun, _recording) = (0, CaptureGuard::begin());
        let begin = |lane: &Arc<Lane>| lane.begin_capture().inspect(|()| begun += 1);
        let recorded = self.lanes.iter().try_for_each(begin).map_err(Error::from).and_then(|()| record(self));
        // Each capture that was begun is ended, also after an error.
        let mut graph = Graph { lanes: Vec::with_capacity(begun) };
        let mut ended = Ok(());
        for lane in &self.lanes[..begun] {
            match lane.driver().end_capture(lane.handle) {
                Ok(handle) => graph.lanes.push((lane.device.driver().clone(), handle)),
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        recorded?;
        ended?;
        Ok(graph)
    }

    /// Returns whether the stream is being captured, whatever code began the capture.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn is_capturing(&self) -> Result<bool, Error> {
        Ok(self.lanes.first().map_or(Ok(false), |lane| lane.driver().is_capturing(lane.handle))?)
    }

    /// Begins set-up by this thread, which is allowed in a capture; `is_captured`: for a call that is captured.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`] if the stream has no device; [`Error::Driver`].
    #[doc(hidden)]
    pub fn set_up(&self, is_captured: bool) -> Result<SetUp, Error> {
        let device = self.devices().next();
        let device = device.ok_or_else(|| Error::StreamDeviceMismatch { device: "any device".into() })?;
        Ok(SetUp::begin(device.driver(), is_captured)?)
    }

    /// Makes the context of the first device current in this thread until the result is dropped, for several calls of the driver.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn enter(&self) -> Result<Entered, Error> {
        Ok(self.lanes.first().map_or_else(|| Ok(Entered::default()), |lane| lane.driver().enter())?)
    }

    /// Lets captures of other threads continue, whatever the current thread calls from now on. For threads of this library.
    ///
    /// # Errors
    /// As [`set_up`](Self::set_up).
    #[doc(hidden)]
    pub fn relax_thread(&self) -> Result<(), Error> {
        for device in self.devices() {
            device.driver().exchange_capture_mode(CaptureMode::Relaxed)?;
        }
        Ok(())
    }

    /// Returns its devices.
    #[doc(hidden)]
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.lanes.iter().map(|lane| &lane.device)
    }

    /// Records a timing event on the stream; on that of the first device, if there are several.
    ///
    /// # Errors
    /// [`Error::Driver`]; [`Error::StreamDeviceMismatch`] if the stream has no device.
    pub fn event(&self) -> Result<Event, Error> {
        let lane = self.lanes.first().ok_or_else(|| Error::StreamDeviceMismatch { device: "any device".into() })?;
        Ok(Event::timed_on(lane)?)
    }

    /// Records an event without a time on the stream; on that of the first device, if there are several.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    #[doc(hidden)]
    pub fn untimed_event(&self) -> Result<Event, Error> {
        let lane = self.lanes.first().ok_or_else(|| Error::StreamDeviceMismatch { device: "any device".into() })?;
        Ok(Event::on(lane)?)
    }

    /// Lets work that is enqueued later begin after an event of the same device.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`] for an event of another device; [`Error::Driver`].
    pub fn wait_for(&self, event: &Event) -> Result<(), Error> {
        let lane = self.on(&event.driver)?;
        Ok(lane.driver().wait_event(lane.handle, event.handle)?)
    }

    /// Lets work that is enqueued later begin when 8 bytes of memory are at least `value`: when their difference, as a signed
    /// number, is not negative.
    ///
    /// # Errors
    /// [`Error::Driver`] for memory that the device cannot access, and for an address that is no multiple of 8.
    ///
    /// # Safety
    /// The memory must stay allocated until the wait has ended.
    #[doc(hidden)]
    pub unsafe fn wait_value(&self, address: u64, value: u64) -> Result<(), Error> {
        self.lanes.iter().try_for_each(|lane| Ok(lane.driver().wait_value(address, value, lane.handle)?))
    }

    /// Stores 8 bytes when the work so far is complete, whose effects are visible to those who read the value.
    ///
    /// # Errors
    /// As [`wait_value`](Self::wait_value).
    ///
    /// # Safety
    /// The memory must stay allocated until the store is done, and no other code may access it but by atomic operations.
    #[doc(hidden)]
    pub unsafe fn write_value(&self, address: u64, value: u64) -> Result<(), Error> {
        self.lanes.iter().try_for_each(|lane| Ok(lane.driver().write_value(address, value, lane.handle)?))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<u32> = self.devices().map(Device::ordinal).collect();
        f.debug_struct("Stream").field("devices", &devices).finish_non_exhaustive()
    }
}

impl Lane {
    fn new(device: &Device, handle: Handle, owned: bool) -> Self {
        Self { device: device.clone(), handle, owned, begin_capture: Mutex::default(), borrowed: OnceLock::new() }
    }

    /// Creates a stream.
    pub fn create(device: &Device) -> driver::Result<Self> {
        Ok(Self::new(device, device.driver().create_stream()?, true))
    }

    /// Returns a stream that other code owns.
    pub(crate) fn foreign(device: &Device, handle: Handle) -> Arc<Self> {
        Arc::new(Self::new(device, handle, false))
    }

    /// Returns the stream as one of other code.
    fn borrowed(self: &Arc<Self>) -> Arc<Self> {
        match self.owned {
            true => Arc::clone(self.borrowed.get_or_init(|| Self::foreign(&self.device, self.handle))),
            false => Arc::clone(self),
        }
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn driver(&self) -> &dyn Driver {
        &**self.device.driver()
    }

    #[doc(hidden)]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Orders the work that is enqueued on this stream from now on after the work of another one, unless one of them is
    /// captured.
    pub fn follow(&self, other: &Used) -> driver::Result<()> {
        match other {
            Used::Ours(other) => self.follow_now(other),
            _ if self.driver().is_capturing(self.handle)? => Ok(()),
            Used::Theirs(_, end) => self.driver().wait_event(self.handle, end.handle),
        }
    }

    /// Does what [`follow`](Self::follow) does, after the work that is on another stream now.
    pub(crate) fn follow_now(&self, other: &Self) -> driver::Result<()> {
        let driver = self.driver();
        let is_captured = |lane: &Self| driver.is_capturing(lane.handle);
        if other.handle == self.handle || is_captured(self)? || is_captured(other)? {
            return Ok(());
        }
        driver.wait_event(self.handle, Event::on(other)?.handle)
    }

    /// Returns the work on the stream so far, which is not captured.
    pub(crate) fn used(self: &Arc<Self>) -> driver::Result<Used> {
        Ok(match self.owned {
            true => Used::Ours(Arc::clone(self)),
            false => Used::Theirs(Arc::downgrade(self), Event::on(self)?),
        })
    }

    /// Adds what was enqueued since then to what [`used`](Self::used) returned.
    pub(crate) fn use_again(&self, used: &Used) -> driver::Result<()> {
        match used {
            Used::Ours(_) => Ok(()),
            Used::Theirs(_, end) => self.driver().record(end.handle, self.handle),
        }
    }

    /// Makes `last` the work on the stream so far, which is not captured and follows what `last` was.
    pub fn add_to(self: &Arc<Self>, last: &mut Option<Used>) -> driver::Result<()> {
        match last {
            Some(used) if used.is_of(self) => self.use_again(used),
            _ => {
                *last = Some(self.used()?);
                Ok(())
            }
        }
    }

    pub fn is_capturing(&self) -> driver::Result<bool> {
        self.driver().is_capturing(self.handle)
    }

    fn begin_capture(&self) -> driver::Result<()> {
        let _begin = self.begin_capture.lock().unwrap_or_else(PoisonError::into_inner);
        self.driver().begin_capture(self.handle)
    }

    /// Returns whether all work on it is complete, `false` of a captured stream: its query would invalidate the capture.
    fn is_idle_unless_captured(&self) -> driver::Result<bool> {
        let _begin = self.begin_capture.lock().unwrap_or_else(PoisonError::into_inner);
        // The query would invalidate captures of other streams as well.
        let _set_up = SetUp::begin(self.device.driver(), false)?;
        Ok(!self.is_capturing()? && self.driver().is_idle(self.handle)?)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.owned {
            // A destructor cannot report a failure.
            let _ = self.driver().destroy_stream(self.handle);
        }
    }
}

/// Launches that were captured. It owns no buffers: the caller of [`launch`](Self::launch) must keep them alive.
///
/// `Send` and `Sync`: the driver orders its launches.
pub struct Graph {
    /// One graph for each device.
    lanes: Vec<(SharedDriver, Handle)>,
}

static_assertions::assert_impl_all!(Graph: Send, Sync);

impl Graph {
    /// Launches the graph, in the order of a stream.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`] if it was captured from a stream on more devices; [`Error::Driver`].
    ///
    /// # Safety
    /// All buffers and prepared plans whose launches were captured must exist until the stream has completed the graph.
    /// Launches of their executors that were enqueued on the captured stream before the capture must be complete: the first captured
    /// launch cannot wait for them. All others, eager ones and those of graphs, follow one another in the order of the calls, which
    /// must be the same on all ranks.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), Error> {
        for (driver, graph) in &self.lanes {
            driver.launch_graph(*graph, stream.on(driver)?.handle)?;
        }
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        for (driver, graph) in &self.lanes {
            // A destructor cannot report a failure.
            let _ = driver.destroy_graph(*graph);
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<u32> = self.lanes.iter().map(|(driver, _)| driver.properties().ordinal).collect();
        f.debug_struct("Graph").field("devices", &devices).finish_non_exhaustive()
    }
}

/// A point on a stream.
///
/// `Send` and `Sync`: it is recorded once, when it is created.
pub struct Event {
    driver: SharedDriver,
    handle: Handle,
}

static_assertions::assert_impl_all!(Event: Send, Sync);

impl Event {
    /// Creates an event without a time that was never recorded: nothing waits for it.
    #[doc(hidden)]
    pub fn unrecorded(device: &Device) -> driver::Result<Self> {
        Ok(Self { driver: device.driver().clone(), handle: device.driver().create_untimed_event()? })
    }

    /// Records an event without a time on a stream.
    #[doc(hidden)]
    pub fn on(lane: &Lane) -> driver::Result<Self> {
        Self::recorded(lane, lane.device.driver().create_untimed_event()?)
    }

    /// Records a timing event on a stream.
    fn timed_on(lane: &Lane) -> driver::Result<Self> {
        Self::recorded(lane, lane.device.driver().create_event()?)
    }

    fn recorded(lane: &Lane, handle: Handle) -> driver::Result<Self> {
        let driver = lane.device.driver();
        let event = Self { driver: driver.clone(), handle };
        driver.record(event.handle, lane.handle)?;
        Ok(event)
    }

    #[doc(hidden)]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns whether the work before it is complete. The query disturbs no capture: the event is recorded outside of all.
    fn is_done(&self) -> driver::Result<bool> {
        let _set_up = SetUp::begin(&self.driver, false)?;
        self.driver.is_done(self.handle)
    }

    /// Returns whether the work before it is complete.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn is_complete(&self) -> Result<bool, Error> {
        Ok(self.is_done()?)
    }

    /// Returns the microseconds from an earlier event to this one; both must be complete.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`] if the events are of different devices; [`Error::Driver`].
    pub fn microseconds_since(&self, earlier: &Self) -> Result<f64, Error> {
        let (own, other) = (self.driver.properties(), earlier.driver.properties());
        if own.uuid != other.uuid {
            return Err(Error::StreamDeviceMismatch { device: own.label() });
        }
        Ok(self.driver.elapsed_us(earlier.handle, self.handle)?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // A destructor cannot report a failure.
        let _ = self.driver.destroy_event(self.handle);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("device", &self.driver.properties().ordinal).finish_non_exhaustive()
    }
}
