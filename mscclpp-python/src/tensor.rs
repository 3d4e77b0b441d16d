//! Tensors of Python as memory: read through the table of functions that DLPack defines for the type of the tensors.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use mscclpp_exec::{DataType, Element, ElementName};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::Failure;

/// `DLTensor` of DLPack 1.
#[repr(C)]
pub(crate) struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    num_dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

impl DlTensor {
    /// Returns a tensor of bytes on the CPU, without dimensions.
    pub(crate) fn of_bytes(data: *mut u8) -> Self {
        Self::of_device_bytes(data, Self::CPU)
    }

    /// The CPU, as DLPack names it.
    pub(crate) const CPU: (i32, i32) = (HOST[0], 0);

    /// Returns a CUDA device, as DLPack names it.
    pub(crate) const fn cuda(number: u32) -> (i32, i32) {
        (CUDA[0], number.cast_signed())
    }

    /// Returns a tensor of bytes on a device, without dimensions.
    pub(crate) fn of_device_bytes(data: *mut u8, (device_type, device_id): (i32, i32)) -> Self {
        Self {
            data: data.cast(),
            device_type,
            device_id,
            num_dimensions: 0,
            code: 1,
            bits: 8,
            lanes: 1,
            shape: std::ptr::null(),
            strides: std::ptr::null(),
            byte_offset: 0,
        }
    }

    /// Sets one dimension, whose arrays the caller keeps as long as the tensor.
    pub(crate) fn set_dimensions(&mut self, shape: *const [i64; 1], strides: *const [i64; 1]) {
        (self.num_dimensions, self.shape, self.strides) = (1, shape.cast(), strides.cast());
    }
}

/// `DLPackExchangeAPI` of DLPack 1: functions of the library that the tensors belong to.
#[repr(C)]
struct ExchangeTable {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocate: *const c_void,
    export: *const c_void,
    import: *const c_void,
    read: Option<unsafe extern "C" fn(*mut PyObject, *mut DlTensor) -> c_int>,
    current_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

/// Name of the capsule that has the table.
const CAPSULE: &CStr = c"dlpack_exchange_api";
/// Major version of DLPack whose structures these are.
const MAJOR_VERSION: u32 = 1;

struct Tensors {
    class: Py<PyAny>,
    is_deterministic: Py<PyAny>,
    table: &'static ExchangeTable,
}

// SAFETY: the table is a constant of the library that has it, whose functions are called with the GIL.
unsafe impl Send for Tensors {}
// SAFETY: as above.
unsafe impl Sync for Tensors {}

static TENSORS: OnceLock<Tensors> = OnceLock::new();

/// Returns whether PyTorch is set to deterministic algorithms.
pub(crate) fn is_deterministic(py: Python<'_>) -> PyResult<bool> {
    TENSORS.get().map_or(Ok(false), |tensors| tensors.is_deterministic.call0(py)?.is_truthy(py))
}

/// Sets the class of tensors, which has the attribute `__dlpack_c_exchange_api__`, and the function that returns whether PyTorch is set to
/// deterministic algorithms. Later calls change nothing.
///
/// Raises `TypeError` for a class without the attribute, `RuntimeError` for another major version of DLPack than 1.
#[pyfunction]
pub(crate) fn use_tensors(class: &Bound<'_, PyAny>, is_deterministic: &Bound<'_, PyAny>) -> PyResult<()> {
    let capsule = class.getattr("__dlpack_c_exchange_api__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(CAPSULE))?;
    // SAFETY: a capsule of this name has a pointer to such a table, which DLPack demands to exist until the process ends. The
    // fields that are read before the version is checked are the same in all versions.
    let table: &'static ExchangeTable = unsafe { pointer.cast().as_ref() };
    if table.major != MAJOR_VERSION || table.read.is_none() {
        return Err(PyRuntimeError::new_err(format!(
            "expected DLPack {MAJOR_VERSION} with a function that reads tensors, found {}.{}; use PyTorch 2.11 or later",
            table.major, table.minor
        )));
    }
    TENSORS.get_or_init(|| {
        let (class, is_deterministic) = (class.clone().unbind(), is_deterministic.clone().unbind());
        Tensors { class, is_deterministic, table }
    });
    Ok(())
}

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of the data types of messages.
    Plain(DataType),
    /// A byte that is 0 or 1.
    Bool,
    /// Two floats of a type.
    Complex(DataType),
    /// 16-bit integers, which messages lack.
    Short { is_signed: bool },
    /// Any other type, by the code, bits and lanes of DLPack, which is moved and not reduced.
    Opaque { code: u8, bits: u8, lanes: u16 },
}

/// The type of memory whose elements are bytes.
pub(crate) const BYTES: Kind = Kind::Plain(DataType::U8);

impl Kind {
    fn new(code: u8, bits: u8, lanes: u16) -> Option<Self> {
        use DataType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, I64, U8, U32, U64};
        Some(match (code, bits, lanes) {
            (0, 8, 1) => Self::Plain(I8),
            (0, 16, 1) => Self::Short { is_signed: true },
            (0, 32, 1) => Self::Plain(I32),
            (0, 64, 1) => Self::Plain(I64),
            (1, 8, 1) => Self::Plain(U8),
            (1, 16, 1) => Self::Short { is_signed: false },
            (1, 32, 1) => Self::Plain(U32),
            (1, 64, 1) => Self::Plain(U64),
            (2, 16, 1) => Self::Plain(F16),
            (2, 32, 1) => Self::Plain(F32),
            (2, 64, 1) => Self::Plain(F64),
            (4, 16, 1) => Self::Plain(BF16),
            (5, 32, 1) => Self::Complex(F16),
            (5, 64, 1) => Self::Complex(F32),
            (5, 128, 1) => Self::Complex(F64),
            (6, 8, 1) => Self::Bool,
            (10, 8, 1) => Self::Plain(F8E4M3),
            (12, 8, 1) => Self::Plain(F8E5M2),
            _ if bits > 0 && lanes > 0 && (u32::from(bits) * u32::from(lanes)).is_multiple_of(8) => {
                Self::Opaque { code, bits, lanes }
            }
            _ => return None,
        })
    }

    /// Returns the bytes of an element.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Plain(dtype) => dtype.size(),
            Self::Bool => 1,
            Self::Complex(dtype) => 2 * dtype.size(),
            Self::Short { .. } => 2,
            Self::Opaque { bits, lanes, .. } => bits as usize * lanes as usize / 8,
        }
    }

    /// Returns the data type in which elements are moved, and how many of it an element is.
    pub(crate) const fn moved(self) -> (DataType, usize) {
        match self {
            Self::Plain(dtype) => (dtype, 1),
            Self::Bool => (DataType::U8, 1),
            Self::Complex(dtype) => (dtype, 2),
            // Moving is the same for all types of a size.
            Self::Short { .. } => (DataType::F16, 1),
            Self::Opaque { .. } => (DataType::U8, self.size()),
        }
    }

    /// Returns the name of the type, as PyTorch has it where messages have another one. No two types have the same one.
    pub(crate) fn name(self) -> ElementName {
        ElementName::new(match self {
            Self::Plain(dtype) => dtype.name(),
            Self::Bool => "bool",
            Self::Complex(DataType::F16) => "complex32",
            Self::Complex(DataType::F32) => "complex64",
            Self::Complex(_) => "complex128",
            Self::Short { is_signed: true } => "int16",
            Self::Short { is_signed: false } => "uint16",
            Self::Opaque { code, bits, lanes } => {
                return ElementName::new(&format!("DLPack {code}.{bits}.{lanes}"));
            }
        })
    }
}

/// The memory of a tensor: dense, in the order of its elements, aligned to the type in which they are moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
    /// The number of the CUDA device; `None` for memory of the host.
    pub(crate) device: Option<u32>,
}

/// Device types of DLPack.
const HOST: [i32; 2] = [1, 3];
const CUDA: [i32; 2] = [2, 13];

/// Returns the exception for a tensor that no call accepts.
fn invalid(message: String) -> PyErr {
    Failure::invalid("tensor", message).into()
}

impl View {
    /// Reads a tensor.
    ///
    /// # Errors
    /// `TypeError` if it is no tensor, `ValueError` if its elements are not dense or aligned, `InvalidInputError` if it
    /// cannot be read.
    pub(crate) fn new(tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = tensor.py();
        let tensors =
            TENSORS.get().ok_or_else(|| PyRuntimeError::new_err("no class of tensors; import torch first"))?;
        if !tensor.is_instance(tensors.class.bind(py))? {
            let found = tensor.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected a tensor, found {found}")));
        }
        let mut read = DlTensor::of_bytes(std::ptr::null_mut());
        let function = tensors.table.read.ok_or_else(|| PyRuntimeError::new_err("no function that reads tensors"))?;
        // SAFETY: the GIL is held, the object is of the class that the table belongs to, and the structure is one of DLPack's.
        if unsafe { function(tensor.as_ptr(), &raw mut read) } != 0 {
            let error = PyErr::fetch(py).value(py).to_string();
            return Err(invalid(format!("PyTorch cannot exchange it: {}", error.lines().next().unwrap_or_default())));
        }
        let kind = Kind::new(read.code, read.bits, read.lanes)
            .ok_or_else(|| invalid("expected elements of whole bytes; pass a view as torch.uint8".into()))?;
        let num_dimensions = usize::try_from(read.num_dimensions).unwrap_or(0);
        let list = |at: *const i64| -> &[i64] {
            if at.is_null() || num_dimensions == 0 {
                return &[];
            }
            // SAFETY: DLPack states as many numbers, which exist while the tensor does, and the GIL is held.
            unsafe { std::slice::from_raw_parts(at, num_dimensions) }
        };
        let (shape, strides) = (list(read.shape), list(read.strides));
        let count = shape.iter().try_fold(1_usize, |count, len| count.checked_mul(usize::try_from(*len).ok()?));
        let bytes = count.and_then(|count| count.checked_mul(kind.size()));
        let bytes = bytes.ok_or_else(|| invalid("it exceeds the address space".into()))?;
        let mut next = 1_i64;
        for (len, stride) in shape.iter().zip(strides).rev() {
            if bytes > 0 && *len != 1 && *stride != next {
                return Err(PyValueError::new_err("expected a contiguous tensor; pass tensor.contiguous()"));
            }
            next = next.saturating_mul((*len).max(1));
        }
        let device = match read.device_type {
            kind if HOST.contains(&kind) => None,
            kind if CUDA.contains(&kind) => Some(read.device_id.unsigned_abs()),
            found => {
                return Err(invalid(format!(
                    "expected a tensor on the CPU or a CUDA device, found one on device type {found} of DLPack"
                )));
            }
        };
        let address = (read.data as usize).wrapping_add(read.byte_offset as usize);
        let (dtype, _) = kind.moved();
        if bytes > 0 && !address.is_multiple_of(dtype.size()) {
            // Callers that catch it copy the tensor.
            return Err(PyValueError::new_err(format!(
                "expected memory aligned to {} bytes, found {address:#x}; pass tensor.clone()",
                dtype.size()
            )));
        }
        Ok(Self { address, bytes, kind, device })
    }

    /// Returns the number of elements.
    pub(crate) const fn count(&self) -> usize {
        self.bytes / self.kind.size()
    }

    /// Returns whether the two are the same memory.
    pub(crate) const fn is_same(&self, other: &Self) -> bool {
        self.address == other.address && self.bytes == other.bytes
    }

    /// Returns whether the two have memory in common.
    pub(crate) const fn overlaps(&self, other: &Self) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }

    /// Returns the elements as those of a type.
    ///
    /// # Safety
    /// The tensor exists while the result lives, and nothing writes to it. `T` has the size of the type in which the elements
    /// are moved.
    pub(crate) unsafe fn slice<'a, T: Element>(&self) -> &'a [T] {
        if self.bytes == 0 {
            // SAFETY: no elements are read.
            return unsafe { std::slice::from_raw_parts(no_elements(), 0) };
        }
        // SAFETY: by the caller; the memory is dense and aligned, and every bit pattern is an element.
        unsafe { std::slice::from_raw_parts(self.address as *const T, self.bytes / size_of::<T>()) }
    }

    /// Returns the elements as those of a type, to be changed.
    ///
    /// # Safety
    /// As [`slice`](Self::slice), and nothing else accesses the memory.
    pub(crate) unsafe fn slice_mut<'a, T: Element>(&self) -> &'a mut [T] {
        if self.bytes == 0 {
            // SAFETY: no elements are accessed.
            return unsafe { std::slice::from_raw_parts_mut(no_elements(), 0) };
        }
        // SAFETY: as in `slice`.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, self.bytes / size_of::<T>()) }
    }
}

/// Returns the address of slices without elements: aligned for every type of element, because a slice of bytes may be cast to one of
/// elements.
fn no_elements<T>() -> *mut T {
    NonNull::<u64>::dangling().as_ptr().cast()
}

/// Returns the views of a list of tensors.
pub(crate) fn views(tensors: &Bound<'_, PyAny>) -> PyResult<Vec<View>> {
    tensors.try_iter()?.map(|tensor| View::new(&tensor?)).collect()
}

/// Returns the current stream of a CUDA device.
pub(crate) fn current_stream(py: Python<'_>, device: u32) -> PyResult<usize> {
    let function = TENSORS.get().and_then(|tensors| tensors.table.current_stream);
    let function = function.ok_or_else(|| PyRuntimeError::new_err("no function for the current stream"))?;
    let mut stream = std::ptr::null_mut();
    // SAFETY: the GIL is held; the function writes one pointer.
    if unsafe { function(CUDA[0], device as i32, &raw mut stream) } != 0 {
        return Err(PyErr::fetch(py));
    }
    Ok(stream as usize)
}

const _: () = assert!(size_of::<*mut ffi::PyObject>() == size_of::<usize>());
