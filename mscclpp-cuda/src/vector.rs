//! Typed device memory: vectors, and views of their parts.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::buffer::DeviceBuffer;
use crate::capture::refuse_in_capture;
use crate::device::stream::Stream;
use crate::device::{Device, device_count};
use crate::lend::{DeviceMut, DeviceRef, Lent, Registration};
use crate::slice::DeviceSlice;
use crate::unused::Unused;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;

/// Elements in device memory, for calls of a communicator: `OnStream::alloc` allocates registered
/// memory, which calls use without copies, [`new`](Self::new) any other. Dropping it waits for the calls that use it; if its
/// address was taken ([`as_slice`](Self::as_slice)) or a call was captured, until the device is idle.
///
/// `Send` and `Sync`: the driver may be called from any thread, and the host reaches the memory through copies only.
pub struct DeviceVec<T> {
    memory: Arc<DeviceBuffer>,
    len: usize,
    registration: Option<Registration>,
    elements: PhantomData<T>,
}

static_assertions::assert_impl_all!(DeviceVec<f32>: Send, Sync);

/// A part of a [`DeviceVec`] that a call may read.
pub struct DeviceView<'a, T> {
    part: Part<'a>,
    elements: PhantomData<T>,
}

/// A part of a [`DeviceVec`] that a call may read and write.
pub struct DeviceViewMut<'a, T> {
    part: Part<'a>,
    elements: PhantomData<T>,
}

#[derive(Clone, Copy)]
struct Part<'a> {
    slice: DeviceSlice,
    /// Allocation that contains it; `None` for any other memory.
    memory: Option<&'a DeviceBuffer>,
    registration: Option<Registration>,
}

impl<'a> Part<'a> {
    /// Returns elements of it; `None` if the range is not inside.
    fn range<T>(self, range: Range<usize>) -> Option<Self> {
        let size = size_of::<T>() as u64;
        let inside = range.start <= range.end && range.end as u64 <= self.slice.bytes / size;
        let offset = inside.then(|| range.start as u64 * size)?;
        let slice =
            DeviceSlice { address: self.slice.address + offset, bytes: (range.end - range.start) as u64 * size };
        let registration = self.registration.map(|at| Registration { offset: at.offset + offset, ..at });
        Some(Self { slice, registration, ..self })
    }

    /// # Safety
    /// As for [`DeviceRef`].
    unsafe fn lend(self, stream: &Stream) -> Result<Lent<'a>, Error> {
        let lent = match self.memory {
            // SAFETY: guaranteed by the caller. The destructor of the memory waits for the use.
            Some(memory) => unsafe { Lent::with_uses(self.slice, &memory.uses, stream.on(memory.driver())?) },
            // SAFETY: guaranteed by the caller.
            None => unsafe { Lent::new(self.slice) },
        };
        Ok(lent.registered(self.registration))
    }
}

impl<T: Element> DeviceVec<T> {
    /// Allocates `len` elements of zero bytes.
    ///
    /// # Errors
    /// [`Error::Driver`] if the device has too little memory; [`Error::Capturing`].
    pub fn new(device: &Device, len: usize) -> Result<Self, Error> {
        Ok(Self::of(Arc::new(DeviceBuffer::new(device, bytes_of::<T>(len))?), len, None))
    }

    /// Allocates `len` elements of zero bytes in whole units of physical memory, which other processes can map and all devices
    /// that can access this one may access. The memory is ordinary if the driver cannot share it.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    #[doc(hidden)]
    pub fn shareable(device: &Device, len: usize) -> Result<Self, Error> {
        refuse_in_capture("cannot allocate memory")?;
        let own = device.ordinal();
        let mut peers = Vec::new();
        for peer in (0..device_count()?).filter(|peer| *peer != own) {
            if device.driver().can_access(peer)? {
                peers.push(peer);
            }
        }
        Ok(Self::of(Arc::new(DeviceBuffer::shared(device, bytes_of::<T>(len), &peers)?), len, None))
    }

    /// Copies elements to new memory of a device.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<Self, Error> {
        let mut all = Self::new(device, elements.len())?;
        all.write(elements)?;
        Ok(all)
    }

    /// Returns the elements of an allocation, which has `len` of them.
    #[doc(hidden)]
    pub fn of(memory: Arc<DeviceBuffer>, len: usize, registration: Option<Registration>) -> Self {
        Self { memory, len, registration, elements: PhantomData }
    }

    /// Returns another handle of the same elements, for internal use: calls on them may race.
    #[doc(hidden)]
    pub fn share(&self) -> Self {
        Self::of(Arc::clone(&self.memory), self.len, self.registration)
    }

    /// Returns the allocation.
    #[doc(hidden)]
    pub fn memory(&self) -> &Arc<DeviceBuffer> {
        &self.memory
    }

    /// Frees the elements, which no work uses, without a wait for the streams that used them.
    #[doc(hidden)]
    pub fn free_unused(self) {
        let _unused = Unused::begin();
        drop(self);
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether it is registered with a communicator.
    #[doc(hidden)]
    pub fn is_registered(&self) -> bool {
        self.registration.is_some()
    }

    /// Returns its address and bytes.
    pub fn as_slice(&self) -> DeviceSlice {
        self.memory.uses.set_unknown();
        self.part().slice
    }

    /// Writes all elements. The copy is complete when this returns; no pending work may use the memory.
    ///
    /// # Errors
    /// [`Error::DeviceCopy`] if the number of elements differs, [`Error::Driver`].
    pub fn write(&mut self, elements: &[T]) -> Result<(), Error> {
        self.check(elements.len())?;
        let DeviceSlice { address, .. } = self.part().slice;
        Ok(self.memory.driver().memcpy_to_device(address, bytemuck::cast_slice(elements))?)
    }

    /// Reads all elements. Does not wait for pending work: synchronize the stream first.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn read(&self, elements: &mut [T]) -> Result<(), Error> {
        self.check(elements.len())?;
        let DeviceSlice { address, .. } = self.part().slice;
        Ok(self.memory.driver().memcpy_to_host(bytemuck::cast_slice_mut(elements), address)?)
    }

    /// Reads all elements into a new vector, as [`read`](Self::read) does.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut elements = vec![T::zeroed(); self.len];
        self.read(&mut elements)?;
        Ok(elements)
    }

    /// Returns a part of it; `None` if the range is not inside.
    pub fn slice(&self, range: Range<usize>) -> Option<DeviceView<'_, T>> {
        Some(DeviceView { part: self.part().range::<T>(range)?, elements: PhantomData })
    }

    /// Returns a part of it for writing; `None` if the range is not inside.
    pub fn slice_mut(&mut self, range: Range<usize>) -> Option<DeviceViewMut<'_, T>> {
        Some(DeviceViewMut { part: self.part().range::<T>(range)?, elements: PhantomData })
    }

    /// Returns the first `at` elements and those after them; `None` if there are fewer.
    pub fn split_at_mut(&mut self, at: usize) -> Option<(DeviceViewMut<'_, T>, DeviceViewMut<'_, T>)> {
        let part = self.part();
        let view = |range| Some(DeviceViewMut { part: part.range::<T>(range)?, elements: PhantomData });
        Some((view(0..at)?, view(at..self.len)?))
    }

    fn part(&self) -> Part<'_> {
        let slice = DeviceSlice { bytes: bytes_of::<T>(self.len), ..self.memory.whole() };
        Part { slice, memory: Some(&self.memory), registration: self.registration }
    }

    fn check(&self, found: usize) -> Result<(), Error> {
        let [expected, found] = [self.len, found].map(bytes_of::<T>);
        if expected == found { Ok(()) } else { Err(Error::DeviceCopy { expected, found }) }
    }
}

/// Returns the bytes of elements, `u64::MAX` if the number overflows: no device has them.
pub fn bytes_of<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}

impl<T: Element> DeviceView<'_, T> {
    /// Returns a part of it; `None` if the range is not inside.
    pub fn slice(&self, range: Range<usize>) -> Option<DeviceView<'_, T>> {
        Some(DeviceView { part: self.part.range::<T>(range)?, elements: PhantomData })
    }

    /// Wraps any memory of a device: `len` elements from an address on.
    ///
    /// # Safety
    /// It must be such memory, aligned for `T`, on the device of every stream on which it is used. It must exist until
    /// all work of calls to which the result was passed is complete, graphs of captured calls included.
    pub unsafe fn from_raw(address: u64, len: usize) -> Self {
        let slice = DeviceSlice { address, bytes: bytes_of::<T>(len) };
        Self { part: Part { slice, memory: None, registration: None }, elements: PhantomData }
    }
}

impl<T: Element> DeviceViewMut<'_, T> {
    /// Returns a part of it; `None` if the range is not inside.
    pub fn slice(&self, range: Range<usize>) -> Option<DeviceView<'_, T>> {
        Some(DeviceView { part: self.part.range::<T>(range)?, elements: PhantomData })
    }

    /// Returns a part of it for writing; `None` if the range is not inside.
    pub fn slice_mut(&mut self, range: Range<usize>) -> Option<DeviceViewMut<'_, T>> {
        Some(DeviceViewMut { part: self.part.range::<T>(range)?, elements: PhantomData })
    }

    /// Wraps any memory of a device: `len` elements from an address on.
    ///
    /// # Safety
    /// As for [`DeviceView::from_raw`].
    pub unsafe fn from_raw(address: u64, len: usize) -> Self {
        // SAFETY: guaranteed by the caller.
        let DeviceView { part, elements } = unsafe { DeviceView::from_raw(address, len) };
        Self { part, elements }
    }
}

// SAFETY: the destructor of the allocation waits for the calls.
unsafe impl<T: Element> DeviceRef<T> for DeviceVec<T> {
    fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
        // SAFETY: as above.
        unsafe { self.part().lend(stream) }
    }
}

// SAFETY: as above.
unsafe impl<T: Element> DeviceMut<T> for DeviceVec<T> {
    fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
        self.lend(stream)
    }
}

// SAFETY: as above; `from_raw` passes the contract on to its caller.
unsafe impl<T: Element> DeviceRef<T> for DeviceView<'_, T> {
    fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
        // SAFETY: as above.
        unsafe { self.part.lend(stream) }
    }
}

// SAFETY: as above.
unsafe impl<T: Element> DeviceRef<T> for DeviceViewMut<'_, T> {
    fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
        // SAFETY: as above.
        unsafe { self.part.lend(stream) }
    }
}

// SAFETY: as above.
unsafe impl<T: Element> DeviceMut<T> for DeviceViewMut<'_, T> {
    fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
        self.lend(stream)
    }
}

impl<T> fmt::Debug for DeviceVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceVec").field("len", &self.len).field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for DeviceView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceView").field(&self.part.slice).finish()
    }
}

impl<T> fmt::Debug for DeviceViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceViewMut").field(&self.part.slice).finish()
    }
}
