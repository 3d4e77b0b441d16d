//! Parts of registered memory in calls.

use std::ops::Range;

use mscclpp_exec::cuda::{DeviceMut, DeviceRef, DeviceVec, Lent, Registered, Stream};
use mscclpp_exec::{Element, Error};

/// A part of registered memory.
pub(crate) struct RegisteredPart<'a> {
    pub(crate) of: &'a Registered<DeviceVec<u8>>,
    /// In bytes.
    pub(crate) range: Range<usize>,
}

// SAFETY: that of the memory. The part is aligned to the size of the elements: PyTorch's tensors are, and addresses of calls are checked.
unsafe impl<T: Element> DeviceRef<T> for RegisteredPart<'_> {
    fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
        Ok(DeviceRef::<u8>::lend(self.of, stream)?.narrow::<u8>(&self.range))
    }
}

// SAFETY: as above.
unsafe impl<T: Element> DeviceMut<T> for RegisteredPart<'_> {
    fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
        DeviceRef::<T>::lend(self, stream)
    }
}
