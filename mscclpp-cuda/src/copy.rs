//! Copies of memory that callers lend.

use crate::device::Device;
use crate::device::stream::Stream;
use crate::lend::{DeviceMut, DeviceRef, Lent};
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;

impl Stream {
    /// Reads lent memory, after the work on the stream, for which the caller has waited.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`], [`Error::Driver`].
    #[doc(hidden)]
    pub fn read<T: Element>(&self, memory: &Lent<'_>) -> Result<Vec<T>, Error> {
        let device = self.devices().next();
        let device = device.ok_or_else(|| Error::StreamDeviceMismatch { device: "any device".into() })?;
        let mut elements = vec![T::zeroed(); memory.len::<T>()];
        device.driver().memcpy_to_host(bytemuck::cast_slice_mut(&mut elements), memory.as_slice().address)?;
        Ok(elements)
    }

    /// Enqueues a copy of elements, as many as the shorter one of the two has.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`], [`Error::Driver`].
    pub fn copy<T: Element>(&self, input: &impl DeviceRef<T>, output: &mut impl DeviceMut<T>) -> Result<(), Error> {
        let device = self.devices().next().cloned();
        let device = device.ok_or_else(|| Error::StreamDeviceMismatch { device: "any device".into() })?;
        let (input, output) = (input.lend(self)?, output.lend_mut(self)?);
        match input.as_slice().bytes.min(output.as_slice().bytes) {
            0 => Ok(()),
            _ => self.copy_lent(&device, &output, &input),
        }
    }

    /// Enqueues a copy between lent memories of equal length on a device.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`], [`Error::Driver`].
    #[doc(hidden)]
    pub fn copy_lent(&self, device: &Device, to: &Lent<'_>, from: &Lent<'_>) -> Result<(), Error> {
        let lane = self.on(device.driver())?;
        let (to, from) = (to.as_slice(), from.as_slice());
        Ok(lane.driver().copy(to.address, from.address, to.bytes.min(from.bytes), lane.handle())?)
    }
}
