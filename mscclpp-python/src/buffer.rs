//! Memory of this package as tensors of Python: exported by DLPack, and found by its address in calls.

use std::ffi::{CStr, c_void};

use mscclpp_exec::process::SharedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::tensor::DlTensor;

/// Name of a capsule whose tensor no library has taken yet.
const NAME: &CStr = c"dltensor_versioned";

/// `DLManagedTensorVersioned` of DLPack 1, and what it manages.
#[repr(C)]
struct Managed {
    major: u32,
    minor: u32,
    context: *mut c_void,
    delete: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DlTensor,
    shape: [i64; 1],
    strides: [i64; 1],
    /// Keeps the memory.
    owner: Box<dyn Send>,
}

/// Ends a tensor that [`PyBuffer::__dlpack__`] exported.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: DLPack demands that the library that has taken the tensor calls this once; it was made by `Box::into_raw`. Nothing of
    // Python is dropped, so the thread need not hold the GIL.
    drop(unsafe { Box::from_raw(managed) });
}

/// Ends a capsule, with its tensor if no library has taken it.
unsafe extern "C" fn delete_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this with a capsule of this module. A library that takes the tensor renames the capsule.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

/// Memory that one tensor takes.
#[pyclass(name = "Buffer", module = "mscclpp_rs._native")]
pub(crate) struct PyBuffer {
    address: usize,
    len: usize,
    /// As DLPack names it.
    device: (i32, i32),
    /// Keeps the memory; none once a tensor does.
    owner: Option<Box<dyn Send + Sync>>,
}

impl PyBuffer {
    /// Returns registered memory: calls on any part of its tensor use it without copies.
    pub(crate) fn new(mut buffer: SharedBuffer<u8>) -> Self {
        let (address, len) = (buffer.as_mut_ptr() as usize, buffer.len());
        Self { address, len, device: DlTensor::CPU, owner: Some(Box::new(buffer)) }
    }

    /// Returns memory of a CUDA device, which `owner` keeps.
    pub(crate) fn on_device(address: u64, len: usize, device: u32, owner: Box<dyn Send + Sync>) -> Self {
        Self { address: address as usize, len, device: DlTensor::cuda(device), owner: Some(owner) }
    }
}

#[pymethods]
impl PyBuffer {
    /// Returns the device type and number of DLPack.
    fn __dlpack_device__(&self) -> (i32, i32) {
        self.device
    }

    /// Exports the memory as a tensor of bytes, once. Raises `BufferError` later, for other devices, for copies, and for versions of DLPack
    /// before 1. No work uses the memory yet, so any stream may.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &mut self,
        py: Python<'_>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let is_stream_of_cpu = stream.is_some() && self.device == DlTensor::CPU;
        if is_stream_of_cpu || copy == Some(true) || dl_device.is_some_and(|device| device != self.device) {
            let (kind, number) = self.device;
            let text = format!("expected no copy, no stream of the CPU, and device {number} of DLPack's type {kind}");
            return Err(PyBufferError::new_err(text));
        }
        if max_version.is_none_or(|(major, _)| major < 1) {
            return Err(PyBufferError::new_err("expected DLPack 1 or later"));
        }
        let owner = self.owner.take().ok_or_else(|| PyBufferError::new_err("the memory was exported already"))?;
        let len = i64::try_from(self.len).map_err(|_| PyBufferError::new_err("the memory is too large"))?;
        let tensor = DlTensor::of_device_bytes(self.address as *mut u8, self.device);
        let managed = Managed {
            major: 1,
            minor: 0,
            context: std::ptr::null_mut(),
            delete: Some(delete),
            flags: 0,
            tensor,
            shape: [len],
            strides: [1],
            owner,
        };
        let managed = Box::into_raw(Box::new(managed));
        // SAFETY: the box was made above, and nothing else refers to it yet. Its arrays do not move.
        unsafe { (*managed).tensor.set_dimensions(&raw const (*managed).shape, &raw const (*managed).strides) };
        // SAFETY: the GIL is held; the capsule owns the box from here on, and its destructor takes such a capsule.
        let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), NAME.as_ptr(), Some(delete_capsule)) };
        if capsule.is_null() {
            // SAFETY: no capsule has taken the box.
            unsafe { delete(managed) };
            return Err(PyErr::fetch(py));
        }
        // SAFETY: it is a new reference to an object.
        Ok(unsafe { Bound::from_owned_ptr(py, capsule) }.unbind())
    }
}
