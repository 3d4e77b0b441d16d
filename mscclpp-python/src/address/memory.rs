//! Memory of callers by address.

use mscclpp_exec::cuda::{DeviceMut, DeviceRef, DeviceSlice, Lent, Stream};
use mscclpp_exec::{Element, Error};

use crate::failure::Failure;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

impl Memory {
    /// Returns the range, if it can hold elements of a size.
    pub(super) fn new(call: &str, name: &str, (address, bytes): (u64, u64), size: u64) -> Result<Self, Failure> {
        let invalid = |message: String| Failure::invalid(call, format!("{name}: {message}"));
        if bytes > 0 && address == 0 {
            return Err(invalid(format!("expected the address of {bytes} bytes, found 0")));
        }
        if !address.is_multiple_of(size) || !bytes.is_multiple_of(size) {
            return Err(invalid(format!(
                "expected whole elements of {size} bytes, found {bytes} bytes at {address:#x}"
            )));
        }
        if isize::try_from(bytes).is_err() || address.checked_add(bytes).is_none() {
            return Err(invalid(format!("{bytes} bytes from {address:#x} exceed the address space")));
        }
        Ok(Self { address, bytes })
    }

    /// Returns whether the ranges have common bytes.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }

    /// Returns the memory as elements.
    ///
    /// # Safety
    /// The memory is host memory that exists, and that nothing writes, while the result exists.
    pub(super) unsafe fn elements<'a, T: Element>(self) -> &'a [T] {
        match self.bytes {
            0 => &[],
            // SAFETY: the caller guarantees the memory; `new` has checked alignment and length, and any bytes are elements.
            bytes => unsafe { std::slice::from_raw_parts(self.address as *const T, bytes as usize / size_of::<T>()) },
        }
    }

    /// Returns the memory as elements to write.
    ///
    /// # Safety
    /// The memory is host memory that exists, and that nothing else uses, while the result exists.
    pub(super) unsafe fn elements_mut<'a, T: Element>(self) -> &'a mut [T] {
        match self.bytes {
            0 => &mut [],
            // SAFETY: as in `elements`; nothing else uses it.
            bytes => unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, bytes as usize / size_of::<T>()) },
        }
    }
}

// SAFETY: callers of `execute` keep the memory of a call until it is complete, on the communicator's device; `new` has checked
// its alignment.
unsafe impl<T: Element> DeviceRef<T> for Memory {
    fn lend(&self, _: &Stream) -> Result<Lent<'_>, Error> {
        // SAFETY: as above.
        Ok(unsafe { Lent::new(DeviceSlice { address: self.address, bytes: self.bytes }) })
    }
}

// SAFETY: as above.
unsafe impl<T: Element> DeviceMut<T> for Memory {
    fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
        DeviceRef::<T>::lend(self, stream)
    }
}
