//! Counters in device memory, at which streams wait.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec, Stream};

/// Number of counters that are allocated together.
const SLAB: usize = 512;

/// Distance from every value that a stream waits for, and less than half of all values.
const RELEASED: u64 = 1 << 62;

/// Counters of a device.
#[derive(Default)]
struct Slabs {
    /// They stay allocated until the process ends: a stream of the caller's may reach its wait at any time.
    memory: Vec<DeviceVec<u64>>,
    /// Address and last value of counters that are not in use.
    free: Vec<(u64, u64)>,
}

/// By number of the device.
static SLABS: Mutex<BTreeMap<u32, Slabs>> = Mutex::new(BTreeMap::new());

fn with_slabs<R>(device: &Device, run: impl FnOnce(&mut Slabs) -> R) -> R {
    let mut slabs = SLABS.lock().unwrap_or_else(PoisonError::into_inner);
    run(slabs.entry(device.ordinal()).or_default())
}

/// A counter. Those that are dropped are used again, from their last value on.
pub(super) struct Counter {
    device: Device,
    address: u64,
    /// The last ticket.
    last: u64,
    is_released: bool,
}

impl Counter {
    /// Returns a counter of a device.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        with_slabs(device, |slabs| {
            if slabs.free.is_empty() {
                let memory = DeviceVec::new(device, SLAB)?;
                let base = memory.as_slice().address;
                slabs.free.extend((0..SLAB as u64).map(|at| (base + 8 * at, 0)));
                slabs.memory.push(memory);
            }
            let (address, last) = slabs.free.pop().ok_or_else(|| Error::Internal("a slab without counters".into()))?;
            Ok(Self { device: device.clone(), address, last, is_released: false })
        })
    }

    /// Returns the next value for which a stream waits.
    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket { address: self.address, value: self.last }
    }

    /// Ends all waits: stores are no longer ordered with others.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(super) fn release(&mut self) -> Result<(), Error> {
        self.is_released = true;
        // The stream of the lane may have work that does not end.
        let stream = self.device.priority_stream()?;
        Ticket { address: self.address, value: self.last + RELEASED }.pass(&stream)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // A store of a released one may be pending.
        if !self.is_released {
            with_slabs(&self.device, |slabs| slabs.free.push((self.address, self.last)));
        }
    }
}

/// A value of a counter that a stream waits for, and that another one stores.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    address: u64,
    value: u64,
}

impl Ticket {
    /// Lets later work of a stream wait.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(super) fn wait(self, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the memory of counters is never freed.
        unsafe { stream.wait_value(self.address, self.value) }
    }

    /// Ends the waits after the work of a stream so far.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(super) fn pass(self, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the memory of counters is never freed, and only stores and waits of streams access it.
        unsafe { stream.write_value(self.address, self.value) }
    }
}
