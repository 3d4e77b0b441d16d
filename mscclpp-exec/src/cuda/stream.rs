//! Queues of work, what is recorded from them, and points on them.

use std::cell::Cell;
use std::sync::{Arc, Weak};

use super::device::Device;
use super::driver::{self, Handle, SharedDriver};
use crate::error::Error;

/// A queue of work on a device, or on each of several. What is put on it is done in that order, while the caller goes on.
pub struct Stream {
    lanes: Vec<Arc<Lane>>,
}

/// A stream of one device.
pub(super) struct Lane {
    driver: SharedDriver,
    handle: Handle,
    owned: bool,
}

/// A stream that was used. One of ours is kept, of one that belongs to somebody else it is known whether it is still there.
pub(super) enum Used {
    Ours(Arc<Lane>),
    Theirs(Handle, Weak<Lane>),
}

impl Used {
    pub(super) fn handle(&self) -> Handle {
        match self {
            Self::Ours(lane) => lane.handle,
            Self::Theirs(handle, _) => *handle,
        }
    }
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        let driver = device.driver().clone();
        Ok(Self { lanes: vec![Arc::new(Lane { handle: driver.create_stream()?, driver, owned: true })] })
    }

    /// A stream that somebody else made, and gives back: `CUstream` of the driver's interface.
    ///
    /// # Safety
    /// It is a stream of this device's primary context and is there as long as the result is used. The default stream of each thread
    /// (`CU_STREAM_PER_THREAD`) is another one in every thread, so the result stays in the one where it was made.
    pub unsafe fn from_raw(device: &Device, stream: usize) -> Self {
        Self { lanes: vec![Arc::new(Lane { driver: device.driver().clone(), handle: Handle(stream), owned: false })] }
    }

    /// One queue of those of several devices, for launches of a world on all of them.
    pub fn join(streams: impl IntoIterator<Item = Self>) -> Self {
        Self { lanes: streams.into_iter().flat_map(|stream| stream.lanes).collect() }
    }

    /// Its part on a device.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`].
    pub(super) fn on(&self, device: &SharedDriver) -> Result<&Arc<Lane>, Error> {
        let properties = device.properties();
        // Not by number: another driver's device may have the same, and its streams are no handles of this one.
        let lane = self.lanes.iter().find(|lane| lane.driver.properties().uuid == properties.uuid);
        lane.ok_or_else(|| Error::StreamDeviceMismatch { device: properties.label() })
    }

    /// Waits until everything on it is done. Says nothing about collectives that gave up: [`Run::synchronize`] does.
    ///
    /// [`Run::synchronize`]: super::Run::synchronize
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn synchronize(&self) -> Result<(), Error> {
        // All of them, also if one fails.
        let done = self.lanes.iter().map(|lane| lane.driver.synchronize(lane.handle));
        Ok(done.fold(Ok(()), driver::Result::and)?)
    }

    /// Records what `record` puts on this stream, instead of doing it. What needs the host or new memory cannot be recorded:
    /// prepare, make buffers and bind them before.
    ///
    /// # Errors
    /// What `record` gives: [`Error::Capturing`] for what must be done before; and [`Error::Driver`].
    pub fn capture(&self, record: impl FnOnce(&Self) -> Result<(), Error>) -> Result<Graph, Error> {
        let (mut begun, _recording) = (0, CaptureGuard::begin());
        let begin = |lane: &Arc<Lane>| lane.driver.begin_capture(lane.handle).inspect(|()| begun += 1);
        let recorded = self.lanes.iter().try_for_each(begin).map_err(Error::from).and_then(|()| record(self));
        // Each that was begun is ended in any case.
        let mut graph = Graph { lanes: Vec::with_capacity(begun) };
        let mut ended = Ok(());
        for lane in &self.lanes[..begun] {
            match lane.driver.end_capture(lane.handle) {
                Ok(handle) => graph.lanes.push((lane.driver.clone(), handle)),
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        recorded?;
        ended?;
        Ok(graph)
    }

    /// Whether a graph is recorded from it at present, by whomever.
    pub(super) fn is_capturing(&self) -> driver::Result<bool> {
        self.lanes.first().map_or(Ok(false), |lane| lane.driver.is_capturing(lane.handle))
    }

    /// Puts an event on it that keeps time; on that of the first device, if there are several.
    ///
    /// # Errors
    /// [`Error::Driver`]; [`Error::StreamDeviceMismatch`] if it is a queue of no device.
    pub fn event(&self) -> Result<Event, Error> {
        let lane = self.lanes.first().ok_or_else(|| Error::StreamDeviceMismatch { device: "any device".into() })?;
        let event = Event { driver: lane.driver.clone(), handle: lane.driver.create_event()? };
        lane.driver.record(event.handle, lane.handle)?;
        Ok(event)
    }
}

thread_local! {
    /// How many [`Stream::capture`]s this thread is in.
    static RECORDINGS: Cell<u32> = const { Cell::new(0) };
}

/// A [`Stream::capture`] of this thread.
struct CaptureGuard;

impl CaptureGuard {
    fn begin() -> Self {
        RECORDINGS.set(RECORDINGS.get() + 1);
        Self
    }
}

impl Drop for CaptureGuard {
    fn drop(&mut self) {
        RECORDINGS.set(RECORDINGS.get() - 1);
    }
}

/// Refuses what the driver would refuse while this thread is in a [`Stream::capture`], which would spoil the capture. In one that
/// somebody else has begun the driver refuses it.
///
/// # Errors
/// [`Error::Capturing`].
pub(super) fn refuse_in_capture(what: &str) -> Result<(), Error> {
    if RECORDINGS.get() == 0 { Ok(()) } else { Err(Error::Capturing { what: what.to_owned() }) }
}

impl Lane {
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// Makes what is put on this stream from now on wait for what was put on another one, unless one of them is captured.
    pub(super) fn follow(&self, other: &Used) -> driver::Result<()> {
        let driver = &self.driver;
        let other = match other {
            used if used.handle() == self.handle => return Ok(()),
            _ if driver.is_capturing(self.handle)? => return Ok(()),
            Used::Ours(lane) => Arc::clone(lane),
            Used::Theirs(_, lane) => match lane.upgrade() {
                Some(lane) => lane,
                // Perhaps it is gone, so it cannot be asked for anything.
                None => return driver.wait_idle(),
            },
        };
        if driver.is_capturing(other.handle)? {
            return Ok(());
        }
        let event = driver.create_event()?;
        let ordered = driver.record(event, other.handle).and_then(|()| driver.wait_event(self.handle, event));
        driver.destroy_event(event)?;
        ordered
    }

    /// To be remembered.
    pub(super) fn used(self: &Arc<Self>) -> Used {
        if self.owned { Used::Ours(Arc::clone(self)) } else { Used::Theirs(self.handle, Arc::downgrade(self)) }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.owned {
            // A failure cannot be mended here.
            let _ = self.driver.destroy_stream(self.handle);
        }
    }
}

/// Launches that were recorded. Holds no buffers: whoever launches it sees to it that they are still there.
pub struct Graph {
    /// One for each device.
    lanes: Vec<(SharedDriver, Handle)>,
}

impl Graph {
    /// Does what was recorded, in the order of a stream.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`] if it was recorded from a stream on more devices; [`Error::Driver`].
    ///
    /// # Safety
    /// All buffers and runs whose launches were recorded are still there, until the stream is done with it. Nothing else of their
    /// worlds is under way then on other streams: launches that are not recorded do not wait for graphs, nor these for them.
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
            // A failure cannot be mended here.
            let _ = driver.destroy_graph(*graph);
        }
    }
}

/// A point on a stream.
pub struct Event {
    driver: SharedDriver,
    handle: Handle,
}

impl Event {
    /// Microseconds from an earlier event to this one; both must be done.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`] if the other one is of another device; [`Error::Driver`].
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
        // A failure cannot be mended here.
        let _ = self.driver.destroy_event(self.handle);
    }
}
