//! Memory of a caller that is registered with a communicator.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use crate::device::stream::Stream;
use crate::lend::{DeviceMut, DeviceRef, Lent, Registration};
use crate::slice::DeviceSlice;
use crate::vector::bytes_of;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;

/// Where registered memory goes when its owner drops it, until no rank uses it any more.
pub type Dropped = OnceLock<Box<dyn Send + Sync>>;

/// Device memory that the caller allocated, registered with a communicator by `OnStream::register`:
/// calls on it and on its parts use it in place. It is freed by the first `alloc` or `register` after all ranks have dropped it,
/// or with the communicator.
pub struct Registered<M: Send + Sync + 'static> {
    /// `None` while it is dropped.
    memory: Option<M>,
    slice: DeviceSlice,
    registration: Registration,
    dropped: Arc<Dropped>,
}

/// A part of [`Registered`] memory that a call may read.
pub struct RegisteredView<'a, T, M: Send + Sync + 'static> {
    of: &'a Registered<M>,
    range: Range<usize>,
    elements: PhantomData<T>,
}

/// A part of [`Registered`] memory that a call may read and write.
pub struct RegisteredViewMut<'a, T, M: Send + Sync + 'static> {
    of: &'a mut Registered<M>,
    range: Range<usize>,
    elements: PhantomData<T>,
}

impl<M: Send + Sync + 'static> Registered<M> {
    #[doc(hidden)]
    pub fn new(memory: M, slice: DeviceSlice, registration: Registration, dropped: Arc<Dropped>) -> Self {
        Self { memory: Some(memory), slice, registration, dropped }
    }

    /// Returns a part of it; `None` if the range is not inside.
    pub fn slice<T: Element>(&self, range: Range<usize>) -> Option<RegisteredView<'_, T, M>> {
        self.has::<T>(&range).then_some(RegisteredView { of: self, range, elements: PhantomData })
    }

    /// Returns a part of it for writing; `None` if the range is not inside.
    pub fn slice_mut<T: Element>(&mut self, range: Range<usize>) -> Option<RegisteredViewMut<'_, T, M>> {
        self.has::<T>(&range).then_some(RegisteredViewMut { of: self, range, elements: PhantomData })
    }

    /// Returns the memory for changes of its elements.
    ///
    /// # Safety
    /// It must stay the same memory: it must not be replaced or freed.
    pub unsafe fn get_mut(&mut self) -> &mut M {
        self.memory.as_mut().unwrap_or_else(|| unreachable!("it is taken in the destructor only"))
    }

    fn has<T: Element>(&self, range: &Range<usize>) -> bool {
        range.start <= range.end && bytes_of::<T>(range.end) <= self.slice.bytes
    }
}

impl<M: Send + Sync + 'static> Deref for Registered<M> {
    type Target = M;

    fn deref(&self) -> &M {
        self.memory.as_ref().unwrap_or_else(|| unreachable!("it is taken in the destructor only"))
    }
}

impl<M: Send + Sync + 'static> Drop for Registered<M> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            // No other code sets it.
            let _ = self.dropped.set(Box::new(memory));
        }
    }
}

// SAFETY: that of the memory, which is kept after it is dropped.
unsafe impl<T: Element, M: DeviceRef<T> + Send + Sync + 'static> DeviceRef<T> for Registered<M> {
    fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
        Ok((**self).lend(stream)?.registered_as(self.slice, self.registration))
    }
}

// SAFETY: as above.
unsafe impl<T: Element, M: DeviceMut<T> + Send + Sync + 'static> DeviceMut<T> for Registered<M> {
    fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
        let (slice, registration) = (self.slice, self.registration);
        // SAFETY: `lend_mut` lends the memory and does not change what it is.
        let lent = unsafe { self.get_mut() }.lend_mut(stream)?;
        Ok(lent.registered_as(slice, registration))
    }
}

// SAFETY: a part of memory that is as required.
unsafe impl<T: Element, M: DeviceRef<T> + Send + Sync + 'static> DeviceRef<T> for RegisteredView<'_, T, M> {
    fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
        Ok(self.of.lend(stream)?.narrow::<T>(&self.range))
    }
}

// SAFETY: as above.
unsafe impl<T: Element, M: DeviceMut<T> + Send + Sync + 'static> DeviceMut<T> for RegisteredViewMut<'_, T, M> {
    fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
        Ok(self.of.lend_mut(stream)?.narrow::<T>(&self.range))
    }
}

impl<M: Send + Sync + 'static> fmt::Debug for Registered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("slice", &self.slice).finish_non_exhaustive()
    }
}

impl<T, M: Send + Sync + 'static> fmt::Debug for RegisteredView<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredView").field("range", &self.range).finish_non_exhaustive()
    }
}

impl<T, M: Send + Sync + 'static> fmt::Debug for RegisteredViewMut<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredViewMut").field("range", &self.range).finish_non_exhaustive()
    }
}

/// Memory that could not be registered, and the reason. Calls can use it all the same; they copy it.
pub struct NotRegistered<M> {
    /// The memory, as it was.
    pub memory: M,
    /// Why it is not registered.
    pub error: Error,
}

impl<M> From<NotRegistered<M>> for Error {
    fn from(not_registered: NotRegistered<M>) -> Self {
        not_registered.error
    }
}

impl<M> fmt::Debug for NotRegistered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<M> fmt::Display for NotRegistered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<M> std::error::Error for NotRegistered<M> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}
