//! Device memory that calls of a communicator use, whatever its origin.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::device::stream::{Lane, Stream};
use crate::slice::DeviceSlice;
use crate::uses::Uses;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;

/// Device memory of elements `T` that a call may read: a [`DeviceVec`](crate::vector::DeviceVec) or a part of it, a slice or view of
/// cudarc's, a [tensor](crate::dlpack::Tensor) of another library.
///
/// # Safety
/// The result of [`lend`](Self::lend) must be aligned memory of whole elements on a device of the stream. The memory must
/// exist until all work is complete that was enqueued on the stream while the result existed, also if `self` is dropped
/// before: its destructor waits, or frees the memory in the order of that stream.
pub unsafe trait DeviceRef<T: Element> {
    /// Returns the memory for a call on a stream. Work that was enqueued before it by the memory's owner precedes the
    /// call, and work that the owner enqueues after the result was dropped follows it.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`] if the memory is on another device; [`Error::ElementType`]; [`Error::Driver`].
    fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error>;
}

/// Device memory of elements `T` that a call may read and write.
///
/// # Safety
/// As for [`DeviceRef`].
pub unsafe trait DeviceMut<T: Element> {
    /// Returns the memory for a call on a stream, as [`DeviceRef::lend`] does.
    ///
    /// # Errors
    /// As [`DeviceRef::lend`].
    fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error>;
}

/// Device memory that is lent to a call while the call is enqueued.
pub struct Lent<'a> {
    slice: DeviceSlice,
    registration: Option<Registration>,
    _release: Release<'a>,
}

/// Position of memory in a registered allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Number of the executor with which it is registered.
    pub executor: u64,
    /// Number of the allocation, the same on all ranks.
    pub allocation: u64,
    /// Its first byte in the allocation.
    pub offset: u64,
}

impl<'a> Lent<'a> {
    /// Lends memory.
    ///
    /// # Safety
    /// The memory must be as [`DeviceRef`] requires.
    pub unsafe fn new(slice: DeviceSlice) -> Self {
        Self { slice, registration: None, _release: Release::None }
    }

    /// Lends memory; `release` is called when the call is enqueued.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn with_release(slice: DeviceSlice, release: impl FnOnce() + 'a) -> Self {
        Self { slice, registration: None, _release: Release::Call(Some(Box::new(release))) }
    }

    /// Lends memory whose owner waits for its uses; the call is one on the stream when it is enqueued.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub(super) unsafe fn with_uses(slice: DeviceSlice, uses: &'a Uses, stream: &Arc<Lane>) -> Self {
        Self { slice, registration: None, _release: Release::Use(uses, Arc::clone(stream)) }
    }

    pub(super) fn registered(self, registration: Option<Registration>) -> Self {
        Self { registration, ..self }
    }

    /// Registers the memory if it is that of a registration.
    pub(super) fn registered_as(self, slice: DeviceSlice, registration: Registration) -> Self {
        let is_same = self.slice == slice;
        self.registered(is_same.then_some(registration))
    }

    /// Lends elements of it alone; as many of the range as there are.
    #[must_use]
    pub fn narrow<T: Element>(mut self, range: &Range<usize>) -> Self {
        let Lent { slice, registration, .. } = self.part::<T>(range.clone());
        (self.slice, self.registration) = (slice, registration);
        self
    }

    /// Returns the memory.
    pub fn as_slice(&self) -> DeviceSlice {
        self.slice
    }

    #[doc(hidden)]
    pub fn registration(&self) -> Option<Registration> {
        self.registration
    }

    /// Returns elements of it, as long as it stays lent; as many of the range as there are.
    pub fn part<T: Element>(&self, range: Range<usize>) -> Lent<'_> {
        let size = size_of::<T>() as u64;
        let (begin, end) = (range.start as u64 * size, range.end as u64 * size);
        let begin = begin.min(self.slice.bytes);
        let slice =
            DeviceSlice { address: self.slice.address + begin, bytes: end.clamp(begin, self.slice.bytes) - begin };
        let registration = self.registration.map(|at| Registration { offset: at.offset + begin, ..at });
        Lent { slice, registration, _release: Release::None }
    }

    /// Returns the number of elements.
    #[allow(clippy::len_without_is_empty, reason = "a length in elements of a type")]
    pub fn len<T: Element>(&self) -> usize {
        self.slice.bytes as usize / size_of::<T>()
    }
}

/// What happens when memory is no longer lent.
enum Release<'a> {
    None,
    Call(Option<Box<dyn FnOnce() + 'a>>),
    Use(&'a Uses, Arc<Lane>),
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        match self {
            Self::None => {}
            Self::Call(release) => release.take().into_iter().for_each(|release| release()),
            Self::Use(uses, lane) => uses.record(lane),
        }
    }
}

impl fmt::Debug for Lent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("slice", &self.slice).finish_non_exhaustive()
    }
}
