//! Memory of cudarc's for calls of a communicator.
//!
//! cudarc orders the use of a slice on its own stream: it frees the slice there, and with several streams it tracks the
//! last use by events. A call on another stream therefore follows the slice's stream, and that stream follows the call.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice as _};

use crate::device::stream::{Lane, Stream};
use crate::driver::Handle;
use crate::lend::{DeviceMut, DeviceRef, Lent};
use crate::slice::DeviceSlice;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;

/// A call's stream, and the stream of a slice that the call uses.
struct Order {
    call: Arc<Lane>,
    slice: Arc<Lane>,
}

impl Order {
    /// Orders a call on a stream after the work of a slice's stream. While one of them is captured, their order is the
    /// caller's.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`], [`Error::Driver`].
    fn begin(stream: &Stream, of_slice: &CudaStream) -> Result<Self, Error> {
        let ordinal = of_slice.context().ordinal();
        let device = stream.devices().find(|device| device.ordinal() as usize == ordinal);
        let device = device.ok_or_else(|| Error::StreamDeviceMismatch { device: format!("device {ordinal}") })?;
        let call = Arc::clone(stream.on(device.driver())?);
        let slice = Lane::foreign(call.device(), Handle(of_slice.cu_stream() as usize));
        call.follow_now(&slice)?;
        Ok(Self { call, slice })
    }

    /// Orders the slice's stream after the call.
    fn end(&self) {
        if self.slice.follow_now(&self.call).is_err() {
            // The slice may be freed in the order of its stream. A failure of this wait is one of the device.
            let _ = self.call.driver().wait_idle();
        }
    }
}

macro_rules! lend {
    ($memory:ty) => {
        // SAFETY: cudarc keeps the allocation as long as the borrowed slice exists and frees it in the order of the
        // slice's stream, or after waiting for that stream, which is ordered after the call before the borrow ends.
        unsafe impl<T: Element> DeviceRef<T> for $memory {
            fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
                let own = self.stream();
                let (address, guard) = self.device_ptr(own);
                let order = Order::begin(stream, own)?;
                let slice = DeviceSlice { address, bytes: (self.len() * size_of::<T>()) as u64 };
                // SAFETY: as above. The guard records the use on the slice's stream, after the call.
                Ok(unsafe {
                    Lent::with_release(slice, move || {
                        order.end();
                        drop(guard);
                    })
                })
            }
        }
    };
}

macro_rules! lend_mut {
    ($memory:ty) => {
        // SAFETY: as above.
        unsafe impl<T: Element> DeviceMut<T> for $memory {
            fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
                let own = Arc::clone(self.stream());
                let address = self.device_ptr_mut(&own).0;
                let order = Order::begin(stream, &own)?;
                let slice = DeviceSlice { address, bytes: (self.len() * size_of::<T>()) as u64 };
                // SAFETY: as above. The second borrow records the use on the slice's stream, after the call.
                Ok(unsafe {
                    Lent::with_release(slice, move || {
                        order.end();
                        let _ = self.device_ptr_mut(&own);
                    })
                })
            }
        }
    };
}

lend!(CudaSlice<T>);
lend!(CudaView<'_, T>);
lend!(CudaViewMut<'_, T>);
lend_mut!(CudaSlice<T>);
lend_mut!(CudaViewMut<'_, T>);
