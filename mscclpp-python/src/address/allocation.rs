//! Device memory that is exchanged by DLPack.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

use mscclpp_exec::cuda::{Device, DeviceBuffer, DeviceVec, dlpack};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::memory::Memory;
use super::{device, failed, lock};
use crate::plan::data_type;

/// The name of a capsule that holds a tensor that was not imported yet.
const NAME: &CStr = c"dltensor";

/// The allocations of this process that may still exist.
static ALLOCATIONS: Mutex<Vec<Weak<DeviceBuffer>>> = Mutex::new(Vec::new());

/// Returns the allocation that contains a range of addresses.
pub(super) fn containing(memory: Memory) -> Option<Arc<DeviceBuffer>> {
    let contains = |buffer: &Arc<DeviceBuffer>| {
        let slice = buffer.as_slice();
        slice.address <= memory.address && memory.address + memory.bytes <= slice.address + slice.bytes
    };
    lock(&ALLOCATIONS).iter().filter_map(Weak::upgrade).find(contains)
}

/// Memory of the current device, which the ranks can share.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct Allocation {
    /// `None` once a tensor owns it.
    buffer: Mutex<Option<Arc<DeviceBuffer>>>,
    address: u64,
    bytes: u64,
    device: u32,
}

#[pymethods]
impl Allocation {
    /// Allocates zeroed memory. Raises `ValueError` for 0 bytes.
    #[new]
    fn new(bytes: u64) -> PyResult<Self> {
        if bytes == 0 {
            return Err(PyValueError::new_err("expected at least 1 byte, found 0"));
        }
        let Some(device) = device()? else {
            return Err(PyValueError::new_err("expected a CUDA device, found none"));
        };
        let len = usize::try_from(bytes).map_err(|_| PyValueError::new_err("the memory is too large"))?;
        let buffer = Arc::clone(DeviceVec::<u8>::shareable(&device, len).map_err(failed)?.memory());
        let mut allocations = lock(&ALLOCATIONS);
        allocations.retain(|allocation| allocation.strong_count() > 0);
        allocations.push(Arc::downgrade(&buffer));
        Ok(Self {
            address: buffer.as_slice().address,
            buffer: Mutex::new(Some(buffer)),
            bytes,
            device: Device::ordinal(&device),
        })
    }

    /// The address.
    #[getter]
    fn address(&self) -> u64 {
        self.address
    }

    /// The number of bytes.
    #[getter]
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the device.
    #[getter]
    fn device(&self) -> u32 {
        self.device
    }

    /// Returns a capsule of DLPack, whose importer owns the memory. Raises `ValueError` for another call, and for a shape
    /// that does not have all bytes.
    fn to_dlpack<'py>(&self, py: Python<'py>, dtype: &str, shape: Vec<u64>) -> PyResult<Bound<'py, PyCapsule>> {
        let dtype = data_type(dtype)?;
        let fits = shape.iter().try_fold(dtype.size() as u64, |all, &each| all.checked_mul(each)) == Some(self.bytes);
        if !fits {
            let text = format!("expected a shape of {} bytes, found {shape:?} of {dtype}", self.bytes);
            return Err(PyValueError::new_err(text));
        }
        let Some(buffer) = lock(&self.buffer).take() else {
            return Err(PyValueError::new_err("the memory is that of an earlier tensor; allocate again"));
        };
        let tensor = dlpack::export_shared(buffer, dtype, &shape).map_err(failed)?;
        capsule(py, tensor)
    }
}

/// Returns a capsule that frees a tensor unless it was imported.
fn capsule(py: Python<'_>, tensor: NonNull<dlpack::ManagedTensor>) -> PyResult<Bound<'_, PyCapsule>> {
    // SAFETY: the name is static, and the pointer is a tensor that is freed by its importer, which renames the capsule, or by
    // `free`.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, tensor.cast(), NAME, Some(free)) }
}

/// Frees the tensor of a capsule that was not imported.
unsafe extern "C" fn free(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: called by Python for a capsule of `capsule`, while the interpreter is held. An importer has renamed it, and then
    // the tensor is the importer's.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 0 {
            return;
        }
        let tensor = pyo3::ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast::<dlpack::ManagedTensor>();
        if let Some(delete) = tensor.as_ref().and_then(|tensor| tensor.deleter) {
            delete(tensor);
        }
    }
}
