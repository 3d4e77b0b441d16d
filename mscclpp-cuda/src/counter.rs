//! Counters in device memory, with which a stream waits for work that another thread enqueues later.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::Device;
use crate::device::stream::{Event, Stream};
use crate::lend::Lent;
use crate::slice::DeviceSlice;
use mscclpp_base::error::Error;

/// Distance from every value that a stream waits for, and less than half of all values.
const RELEASED: u64 = 1 << 62;

/// A counter. Those that are dropped are used again, from their last value on.
pub struct Counter {
    device: Device,
    address: u64,
    /// The last value that a stream waits for.
    last: u64,
    is_released: bool,
}

impl Counter {
    /// Returns a counter of a device.
    ///
    /// # Errors
    /// [`Error::Driver`]; [`Error::Capturing`].
    pub fn new(device: &Device) -> Result<Self, Error> {
        let (address, last) = device.counters().take(device.driver())?;
        Ok(Self { device: device.clone(), address, last, is_released: false })
    }

    /// Divides work on memory that a stream lends: what is enqueued elsewhere, after the stream's work so far, and the wait of the
    /// stream for it.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn defer<'a>(
        &mut self,
        memory: Lent<'a>,
        stream: &'a Stream,
    ) -> Result<(DeferredWork, DeferredWait<'a>), Error> {
        let begin = stream.untimed_event()?;
        self.last += 1;
        let ticket = Ticket { _device: self.device.clone(), address: self.address, value: self.last };
        let progress = Arc::<Progress>::default();
        let work =
            DeferredWork { begin, memory: memory.as_slice(), ticket: ticket.clone(), progress: Arc::clone(&progress) };
        Ok((work, DeferredWait { ticket, stream, progress, _memory: memory, is_done: false }))
    }

    /// Ends all waits, now and after what is pending on `stored`, the stream of all other stores, which may store earlier values.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn release(&mut self, stored: &Stream) -> Result<(), Error> {
        self.is_released = true;
        let released = Ticket { _device: self.device.clone(), address: self.address, value: self.last + RELEASED };
        // Other streams may have work that does not end.
        let now = self.device.priority_stream().and_then(|stream| released.pass(&stream));
        now.and(released.pass(stored))
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // A store of a released one may be pending.
        if !self.is_released {
            self.device.counters().put(self.address, self.last);
        }
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("last", &self.last).finish_non_exhaustive()
    }
}

/// A value of a counter that a stream waits for, and that another one stores.
#[derive(Clone)]
struct Ticket {
    /// Has the memory.
    _device: Device,
    address: u64,
    value: u64,
}

impl Ticket {
    /// Ends the waits after the work of a stream so far.
    fn pass(&self, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the memory of counters is freed with the device, which waits for its work, and only stores and waits of streams
        // access it.
        unsafe { stream.write_value(self.address, self.value) }
    }
}

/// How far deferred work is, for a lending stream that cannot wait for it.
#[derive(Default)]
struct Progress(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Pending,
    /// It was enqueued on a stream, whole or in part.
    Begun(Stream),
    /// It is not enqueued any more, because the lending stream cannot wait for it.
    Cancelled(Error),
}

impl Progress {
    /// Ends the work: it is not enqueued any more, or complete if it was. `error`: why the lending stream does not wait for it.
    fn end(&self, error: &Error) {
        let mut state = self.lock();
        match &*state {
            State::Pending => *state = State::Cancelled(error.clone()),
            // Work whose stream has failed does not continue.
            State::Begun(stream) => _ = stream.synchronize(),
            State::Cancelled(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work on memory that another stream lends, which waits for it.
pub struct DeferredWork {
    /// The lending stream has reached its call.
    begin: Event,
    memory: DeviceSlice,
    ticket: Ticket,
    progress: Arc<Progress>,
}

impl DeferredWork {
    /// Enqueues the work: `enqueue` does it on a stream.
    ///
    /// # Errors
    /// Those of `enqueue`, after which the waits are not ended; [`Error::Driver`], also why the lending stream does not wait: then
    /// nothing is enqueued.
    pub fn run(&self, stream: &Stream, enqueue: impl FnOnce(&Lent<'_>) -> Result<(), Error>) -> Result<(), Error> {
        stream.wait_for(&self.begin)?;
        // Locked until all is enqueued, so that the memory stays lent.
        let mut state = self.progress.lock();
        if let State::Cancelled(error) = &*state {
            return Err(error.clone());
        }
        *state = State::Begun(stream.share());
        // SAFETY: the memory is what the lending stream lends until its `DeferredWait`, after which its later work begins when this
        // has ended. If it cannot wait, it has not cancelled this work, and waits on the host for what was enqueued.
        enqueue(&unsafe { Lent::new(self.memory) })?;
        self.ticket.pass(stream)
    }
}

/// Wait of a stream for work on memory that it lends. Dropping it enqueues the wait.
pub struct DeferredWait<'a> {
    ticket: Ticket,
    stream: &'a Stream,
    progress: Arc<Progress>,
    _memory: Lent<'a>,
    is_done: bool,
}

impl DeferredWait<'_> {
    /// Lets later work of the stream wait.
    ///
    /// # Errors
    /// [`Error::Driver`], after which the work does not use the memory any more.
    pub fn enqueue(mut self) -> Result<(), Error> {
        self.enqueue_once()
    }

    fn enqueue_once(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(());
        }
        // SAFETY: the memory of counters is freed with the device, which waits for its work.
        let waits = unsafe { self.stream.wait_value(self.ticket.address, self.ticket.value) };
        waits.inspect_err(|error| self.progress.end(error))
    }
}

impl Drop for DeferredWait<'_> {
    fn drop(&mut self) {
        // A destructor cannot report a failure. The memory stops being lent after this.
        let _ = self.enqueue_once();
    }
}
