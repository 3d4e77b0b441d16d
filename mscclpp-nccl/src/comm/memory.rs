//! Device memory: allocations, registrations, and what a call lends.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use mscclpp_exec::cuda::{DeviceMut, DeviceRef, DeviceSlice, DeviceVec, Event, Lent, Stream};
use mscclpp_exec::{Element, Error};

use super::set_up::SetUp;
use super::window::Window;
use super::{Comm, lock, own_device};
use crate::entry::{Failure, Result};

/// Memory of the caller's by address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw(pub(super) DeviceSlice);

// SAFETY: callers of NCCL keep the memory of a call until it is complete, aligned and on the communicator's device; they keep
// the memory of a window until it is deregistered.
unsafe impl<T: Element> DeviceRef<T> for Raw {
    fn lend(&self, _: &Stream) -> std::result::Result<Lent<'_>, Error> {
        // SAFETY: as above.
        Ok(unsafe { Lent::new(self.0) })
    }
}

// SAFETY: as above.
unsafe impl<T: Element> DeviceMut<T> for Raw {
    fn lend_mut(&mut self, stream: &Stream) -> std::result::Result<Lent<'_>, Error> {
        DeviceRef::<T>::lend(self, stream)
    }
}

/// Memory of [`register`].
struct Segment {
    /// Its handle of the real NCCL, if that has it as well.
    nested: Option<usize>,
}

/// The registered memory of a communicator.
#[derive(Default)]
pub(crate) struct Memories {
    /// By handle.
    pub(super) windows: Mutex<BTreeMap<usize, Arc<Window>>>,
    /// Memory of [`register`] by handle.
    segments: Mutex<BTreeMap<usize, Segment>>,
    temporaries: Mutex<Temporaries>,
    /// Internal memory of captured calls, each of which has its own: a graph may be launched on any stream.
    of_graphs: Mutex<Vec<DeviceVec<u8>>>,
}

/// Internal memory of calls.
#[derive(Default)]
struct Temporaries {
    /// The last one is the largest. Shorter ones are kept: pending calls use them.
    memories: Vec<DeviceVec<u8>>,
    /// The end of the last use by a call, which the next one follows, whatever its stream.
    last: Option<Event>,
    /// Whether the call that is being made uses it.
    is_used: bool,
}

/// Returns a handle that no other one of the process equals.
pub(super) fn new_handle() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0x8000_0000);
    NEXT.fetch_add(0x10, Ordering::Relaxed)
}

/// Memory of a call: a range of addresses, and the window in which it lies.
#[derive(Clone)]
pub(crate) struct Memory {
    address: u64,
    bytes: u64,
    window: Option<Arc<Window>>,
}

impl Memory {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory of this library's.
    pub(crate) fn internal(address: u64, bytes: u64) -> Self {
        Self { address, bytes, window: None }
    }

    /// Returns whether other ranks access it where it is.
    pub(crate) fn is_registered(&self) -> bool {
        self.window.as_ref().is_some_and(|window| window.registered.is_some())
    }

    /// Returns a part of it.
    pub(crate) fn part(&self, begin: u64, bytes: u64) -> Self {
        Self { address: self.address + begin, bytes, window: self.window.clone() }
    }
}

// SAFETY: as for `Raw`; memory of a window is in the window.
unsafe impl<T: Element> DeviceRef<T> for Memory {
    fn lend(&self, stream: &Stream) -> std::result::Result<Lent<'_>, Error> {
        let window = self.window.as_ref().and_then(|window| Some((window.registered.as_ref()?, window.base)));
        if let Some((registered, base)) = window {
            let size = size_of::<T>() as u64;
            let begin = self.address - base;
            if begin.is_multiple_of(size) {
                let range = (begin / size) as usize..((begin + self.bytes) / size) as usize;
                return Ok(DeviceRef::<T>::lend(registered, stream)?.narrow::<T>(&range));
            }
        }
        // SAFETY: as above.
        Ok(unsafe { Lent::new(DeviceSlice { address: self.address, bytes: self.bytes }) })
    }
}

// SAFETY: as above.
unsafe impl<T: Element> DeviceMut<T> for Memory {
    fn lend_mut(&mut self, stream: &Stream) -> std::result::Result<Lent<'_>, Error> {
        DeviceRef::<T>::lend(self, stream)
    }
}

impl Comm {
    /// Returns the memory at an address.
    ///
    /// # Errors
    /// An invalid argument for a null pointer, an address that is no multiple of an element's size, and more bytes than there
    /// are addresses.
    pub(crate) fn memory(&self, name: &str, at: *const c_void, bytes: u64, size: usize) -> Result<Memory> {
        let address = at as u64;
        if address == 0 {
            return Err(Failure::argument(format!("{name} is null")));
        }
        if !address.is_multiple_of(size as u64) {
            return Err(Failure::argument(format!(
                "{name} is {at:p}, expected a multiple of the element's {size} bytes"
            )));
        }
        let end = address.checked_add(bytes);
        let end = end
            .ok_or_else(|| Failure::argument(format!("{name}: {bytes} bytes from {at:p} exceed the address space")))?;
        let windows = lock(&self.memories.windows);
        let holds = |window: &&Arc<Window>| window.base <= address && end <= window.base + window.bytes;
        let window = windows.values().find(holds).cloned();
        Ok(Memory { address, bytes, window })
    }
}

impl Comm {
    /// Returns memory for a call on a stream, which later calls use again unless it is captured. The call ends with
    /// [`end_temporary`](Self::end_temporary).
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(crate) fn temporary(&self, stream: &Stream, bytes: u64) -> std::result::Result<Memory, Error> {
        if bytes == 0 {
            return Ok(Memory::internal(0, 0));
        }
        if stream.is_capturing()? {
            let _set_up = SetUp::begin()?;
            let memory = DeviceVec::new(&self.device, bytes as usize)?;
            let address = memory.as_slice().address;
            lock(&self.memories.of_graphs).push(memory);
            return Ok(Memory::internal(address, bytes));
        }
        let mut temporaries = lock(&self.memories.temporaries);
        let Temporaries { memories, last, is_used } = &mut *temporaries;
        if let Some(end) = last {
            stream.wait_for(end)?;
        }
        *is_used = true;
        if memories.last().is_none_or(|memory| (memory.len() as u64) < bytes) {
            let _set_up = SetUp::begin()?;
            memories.push(DeviceVec::new(&self.device, bytes.next_power_of_two() as usize)?);
        }
        let address = memories.last().map_or(0, |memory| memory.as_slice().address);
        Ok(Memory::internal(address, bytes))
    }
}

impl Comm {
    /// Ends a call on a stream: later calls that use its memory again follow it.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(crate) fn end_temporary(&self, stream: &Stream) -> std::result::Result<(), Error> {
        let mut temporaries = lock(&self.memories.temporaries);
        if std::mem::take(&mut temporaries.is_used) {
            temporaries.last = Some(stream.untimed_event()?);
        }
        Ok(())
    }
}

/// Allocations of [`alloc`], by address.
static ALLOCATIONS: Mutex<BTreeMap<u64, DeviceVec<u8>>> = Mutex::new(BTreeMap::new());

/// Allocates memory of the current device that other processes can map; for no bytes it is null.
pub(crate) fn alloc(bytes: usize) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    let memory = DeviceVec::<u8>::shareable(&own_device()?, bytes)?;
    let address = memory.as_slice().address;
    lock(&ALLOCATIONS).insert(address, memory);
    Ok(address)
}

/// Frees memory of [`alloc`]; a null pointer is none.
pub(crate) fn free(at: *mut c_void) -> Result<()> {
    if at.is_null() {
        return Ok(());
    }
    match lock(&ALLOCATIONS).remove(&(at as u64)) {
        Some(_) => Ok(()),
        None => Err(Failure::usage(format!("ptr is {at:p}, which is no memory of ncclMemAlloc, or was freed"))),
    }
}

/// Registers memory of this rank for calls of a communicator, which are free to use it: they use any memory. Not a call of
/// all ranks, so that other ranks do not learn of it. Forwarded calls use it as the real NCCL does.
pub(crate) fn register(comm: &Comm, at: *mut c_void, bytes: usize) -> Result<usize> {
    comm.ready()?;
    if at.is_null() || bytes == 0 {
        return Err(Failure::argument(format!("buff is {at:p} and size {bytes}, expected memory")));
    }
    let nested = comm.nested().map_or(Ok(None), |nested| nested.register(at, bytes))?;
    let handle = new_handle();
    lock(&comm.memories.segments).insert(handle, Segment { nested });
    Ok(handle)
}

/// Ends a registration.
pub(crate) fn deregister(comm: &Comm, handle: *mut c_void) -> Result<()> {
    let segment = lock(&comm.memories.segments).remove(&(handle as usize));
    match (segment, comm.nested()) {
        (Some(Segment { nested: Some(handle) }), Some(nested)) => nested.deregister(handle),
        (Some(_), _) => Ok(()),
        (None, _) => Err(Failure::argument(format!("handle is {handle:p}, no registration of this communicator"))),
    }
}
