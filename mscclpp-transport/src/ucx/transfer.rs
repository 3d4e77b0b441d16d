//! Requests of UCX, and the memory that they use.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;
use std::rc::Rc;

use super::api::{MEMORY_TYPE_CUDA, MEMORY_TYPE_HOST, MemoryType, OK, Status, StatusPtr, status_of};
use super::inbox::MAX_HEADER_BYTES;
use crate::Buffer;
use mscclpp_base::shm::Region;

/// Memory of a long put.
pub(super) enum Memory<B> {
    Buffer(B),
    /// What a plan reads or writes itself.
    Region(Region),
}

impl<B: Buffer> Memory<B> {
    /// Returns the first bytes of a buffer, which are authenticated; none of a region, whose bytes others may change, and of memory of a
    /// device.
    pub(super) fn content(&self, len: usize) -> &[u8] {
        match self {
            Self::Buffer(buffer) if buffer.device_bytes().is_none() => &buffer.as_ref()[..len],
            Self::Buffer(_) | Self::Region(_) => &[],
        }
    }

    /// Returns what kind of memory it is.
    pub(super) fn memory_type(&self) -> MemoryType {
        match self {
            Self::Buffer(buffer) if buffer.device_bytes().is_some() => MEMORY_TYPE_CUDA,
            Self::Buffer(_) | Self::Region(_) => MEMORY_TYPE_HOST,
        }
    }

    pub(super) fn into_buffer(self) -> Option<B> {
        match self {
            Self::Buffer(buffer) => Some(buffer),
            Self::Region(_) => None,
        }
    }

    /// Returns the addresses of a region.
    pub(super) fn addresses(&self) -> Option<Range<usize>> {
        match self {
            Self::Buffer(_) => None,
            Self::Region(region) => Some(region.addresses()),
        }
    }

    /// Returns the address of the first `len` bytes.
    ///
    /// # Panics
    /// If the memory is shorter.
    pub(super) fn base(&mut self, len: usize) -> *mut u8 {
        match self {
            Self::Buffer(buffer) => match buffer.device_bytes() {
                Some((address, bytes)) => {
                    assert!(len <= bytes, "{len} bytes of a buffer of {bytes}");
                    address as *mut u8
                }
                None => buffer.as_mut()[..len].as_mut_ptr(),
            },
            Self::Region(region) => {
                assert!(len <= region.len(), "{len} bytes of a region of {}", region.len());
                region.base()
            }
        }
    }
}

/// Header and content of an active message.
pub(super) struct Outgoing<B> {
    pub(super) header: [u8; MAX_HEADER_BYTES],
    pub(super) content: Content<B>,
}

/// Bytes of an active message.
pub(super) enum Content<B> {
    /// Messages, which are sent at once.
    Batch(Vec<u8>),
    /// The first bytes of memory, which the receiver asks for.
    Offer(Memory<B>, usize),
}

impl<B: Buffer> Content<B> {
    /// Returns the address and the number of bytes, and what kind of memory they are in.
    pub(super) fn bytes(&mut self) -> (*const u8, usize, MemoryType) {
        match self {
            Self::Batch(bytes) => (bytes.as_ptr(), bytes.len(), MEMORY_TYPE_HOST),
            Self::Offer(memory, len) => (memory.base(*len), *len, memory.memory_type()),
        }
    }
}

/// A request that UCX has not reported as complete.
pub(super) struct Request(pub(super) *mut c_void);

/// A request, and the memory that it uses.
pub(super) struct Transfer<T: Send + 'static> {
    request: Option<Request>,
    /// Result of the request, when it is complete.
    result: Status,
    /// Memory that UCX accesses, from `Box::into_raw`: nothing else does before the request is complete.
    memory: *mut T,
    abandoned: Abandoned,
}

// SAFETY: as for the worker, in whose engine the transfer is.
unsafe impl<T: Send> Send for Transfer<T> {}

/// Requests that nothing waits for, and the memory that they use.
pub(super) type Abandoned = Rc<RefCell<Vec<(Request, Box<dyn Send>)>>>;

impl<T: Send + 'static> Transfer<T> {
    /// `pointer`: what UCX has returned for the request; `memory`: what it uses, from `Box::into_raw`, which belongs to the transfer
    /// from now on.
    pub(super) fn new(pointer: StatusPtr, memory: *mut T, abandoned: &Abandoned) -> Self {
        let result = status_of(pointer);
        let request = (result.is_none() && !pointer.is_null()).then_some(Request(pointer));
        Self { request, result: result.unwrap_or(OK), memory, abandoned: Rc::clone(abandoned) }
    }

    /// Notes whether UCX reports the request as complete, and returns its result then.
    pub(super) fn poll(&mut self, status: impl FnOnce(&Request) -> Option<Status>) -> Option<Status> {
        if let Some(request) = &self.request {
            self.result = status(request)?;
            self.request = None;
        }
        Some(self.result)
    }

    /// Returns whether it is not known to be complete.
    pub(super) fn is_pending(&self) -> bool {
        self.request.is_some()
    }

    /// Returns the memory of a transfer that is complete.
    pub(super) fn into_memory(mut self) -> Option<T> {
        if self.request.is_some() {
            return None;
        }
        let memory = std::mem::replace(&mut self.memory, null_mut());
        // SAFETY: the pointer is from `Box::into_raw`, UCX does not use it any more, and it is not null before this.
        Some(*unsafe { Box::from_raw(memory) })
    }
}

impl<T: Send + 'static> Drop for Transfer<T> {
    fn drop(&mut self) {
        if self.memory.is_null() {
            return;
        }
        // SAFETY: the pointer is from `Box::into_raw`, and not used any more.
        let memory = unsafe { Box::from_raw(self.memory) };
        if let Some(request) = self.request.take() {
            self.abandoned.borrow_mut().push((request, memory));
        }
    }
}
