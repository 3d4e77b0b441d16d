//! Exchange of tensors with other libraries by DLPack, with which PyTorch, JAX, CuPy and others pass memory to each
//! other without copies.
//!
//! ```no_run
//! # use mscclpp_base::DataType;
//! # use mscclpp_cuda::{buffer::DeviceBuffer, device::Device, dlpack};
//! # fn f(device: &Device, capsule: *mut dlpack::ManagedTensor) -> Result<(), mscclpp_base::Error> {
//! // What a capsule named `dltensor` holds, which is renamed to `used_dltensor` then.
//! let tensor = unsafe { dlpack::Tensor::import(capsule, device)? };
//! let slice = tensor.as_slice(); // for `PreparedPlan::bind` or `PreparedPlan::launch`
//!
//! let buffer = DeviceBuffer::new(device, 4 * 1000)?;
//! let capsule = dlpack::export(buffer, DataType::F32, &[10, 100])?; // for `torch.from_dlpack`
//! # Ok(()) }
//! ```

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::buffer::DeviceBuffer;
use crate::device::Device;
use crate::device::stream::Stream;
use crate::lend::{DeviceMut, DeviceRef, Lent};
use crate::slice::DeviceSlice;
use crate::uses::Uses;
use mscclpp_base::dtype::{DataType, Element};
use mscclpp_base::error::Error;

/// `DLDevice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TensorDevice {
    /// Kind of the device; 2 for CUDA.
    pub kind: i32,
    /// Number of the device, counted from 0.
    pub ordinal: i32,
}

/// `DLDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TensorType {
    /// Integer, unsigned, float and so on, by DLPack's numbers.
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Elements of a vector; 1 for scalars.
    pub lanes: u16,
}

/// `DLTensor`.
#[derive(Debug)]
#[repr(C)]
pub struct RawTensor {
    /// Address of the memory.
    pub data: *mut c_void,
    /// Device of the memory.
    pub device: TensorDevice,
    /// Number of dimensions.
    pub ndim: i32,
    /// Type of the elements.
    pub dtype: TensorType,
    /// Elements of each dimension.
    pub shape: *mut i64,
    /// Distance between neighboring elements of each dimension, in elements; null for row-major order without gaps.
    pub strides: *mut i64,
    /// Offset of the first element in the memory.
    pub byte_offset: u64,
}

/// `DLManagedTensor`, as a capsule named `dltensor` holds it.
#[derive(Debug)]
#[repr(C)]
pub struct ManagedTensor {
    /// The tensor.
    pub tensor: RawTensor,
    /// Context of the owner.
    pub context: *mut c_void,
    /// Frees the tensor; called once by its last owner.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// Device kind of CUDA devices.
const CUDA: i32 = 2;

/// Maximum number of dimensions of a tensor; more are rejected as invalid.
const MAX_DIMENSIONS: i32 = 64;

/// DLPack's numbers of the data types.
const TYPES: [(DataType, u8); 12] = [
    (DataType::I8, 0),
    (DataType::I32, 0),
    (DataType::I64, 0),
    (DataType::U8, 1),
    (DataType::U32, 1),
    (DataType::U64, 1),
    (DataType::F16, 2),
    (DataType::F32, 2),
    (DataType::F64, 2),
    (DataType::BF16, 4),
    (DataType::F8E4M3, 10),
    (DataType::F8E5M2, 12),
];

/// Another library's tensor on a device, which is freed by its deleter when this is dropped.
///
/// `Send` and `Sync`: DLPack's tensors may be used and freed by any thread, and nothing changes one through a shared
/// reference.
#[derive(Debug)]
pub struct Tensor {
    tensor: NonNull<ManagedTensor>,
    slice: DeviceSlice,
    dtype: DataType,
    device: Device,
    /// Calls to which it was lent, whose work may be pending.
    uses: Uses,
}

// SAFETY: DLPack's tensors may be used and freed by any thread; nothing here is changed through a shared reference.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

static_assertions::assert_impl_all!(Tensor: Send, Sync);

impl Tensor {
    /// Takes ownership of a tensor, all of whose elements are on `device`, without gaps. A rejected tensor is freed at
    /// once.
    ///
    /// # Errors
    /// [`Error::Tensor`] for null, another device, a type that is not supported, elements with gaps in between, more
    /// than 64 dimensions, or a shape that does not fit into memory.
    ///
    /// # Safety
    /// `tensor` must be null or a valid tensor of DLPack that the caller owns: no other code calls its deleter. Work
    /// that was enqueued on streams of its former owner must be complete, or ordered before its use here.
    pub unsafe fn import(tensor: *mut ManagedTensor, device: &Device) -> Result<Self, Error> {
        let wrong = |found: String, expected: &str| Error::Tensor { found, expected: expected.to_owned() };
        let Some(tensor) = NonNull::new(tensor) else {
            return Err(wrong("that is null".into(), "one with memory"));
        };
        let (device, uses) = (device.clone(), Uses::default());
        let mut taken = Self { tensor, slice: DeviceSlice::EMPTY, dtype: DataType::U8, device, uses };
        // SAFETY: guaranteed by the caller.
        let raw = unsafe { &tensor.as_ref().tensor };
        if (raw.device.kind, i64::from(raw.device.ordinal)) != (CUDA, i64::from(taken.device.ordinal())) {
            let TensorDevice { kind, ordinal } = raw.device;
            return Err(wrong(
                format!("on device {ordinal} of kind {kind}"),
                &format!("one on {}, of kind {CUDA}", taken.device.label()),
            ));
        }
        let TensorType { code, bits, lanes } = raw.dtype;
        let known = TYPES.iter().find(|(dtype, of)| *of == code && dtype.size() * 8 == usize::from(bits) && lanes == 1);
        let Some(&(dtype, _)) = known else {
            return Err(wrong(
                format!("of type {code} with {bits} bits and {lanes} lanes"),
                "an element type of a message",
            ));
        };
        if !(0..=MAX_DIMENSIONS).contains(&raw.ndim) {
            return Err(wrong(format!("of {} dimensions", raw.ndim), "at most 64"));
        }
        let list = |at: *const i64| match raw.ndim {
            0 => &[][..],
            // SAFETY: the array has one entry for each dimension.
            count => unsafe { std::slice::from_raw_parts(at, count as usize) },
        };
        if raw.shape.is_null() && raw.ndim > 0 {
            return Err(wrong("without shape".into(), "one with a shape"));
        }
        let shape = list(raw.shape);
        let elements = shape.iter().try_fold(1_u64, |all, &each| all.checked_mul(u64::try_from(each).ok()?));
        let bytes = elements.and_then(|elements| elements.checked_mul(dtype.size() as u64));
        // The limit of all allocations; strides of more could not be multiplied below.
        let bytes = bytes.filter(|&bytes| i64::try_from(bytes).is_ok());
        let end = bytes.and_then(|bytes| (raw.data as u64).checked_add(raw.byte_offset)?.checked_add(bytes));
        let (Some(bytes), Some(_)) = (bytes, end) else {
            return Err(wrong(format!("of shape {shape:?}"), "one that fits into memory"));
        };
        if raw.data.is_null() && bytes > 0 {
            return Err(wrong("without memory".into(), "one with memory"));
        }
        if !raw.strides.is_null() && bytes > 0 {
            let strides = list(raw.strides);
            let mut next = 1;
            for (&len, &stride) in shape.iter().zip(strides).rev() {
                // The stride of a dimension of length one is not significant.
                if len != 1 && stride != next {
                    return Err(wrong(
                        format!("of shape {shape:?} with strides {strides:?}"),
                        "a contiguous row-major one",
                    ));
                }
                next *= len;
            }
        }
        if bytes > 0 {
            taken.slice = DeviceSlice { address: raw.data as u64 + raw.byte_offset, bytes };
        }
        taken.dtype = dtype;
        Ok(taken)
    }

    /// Returns the range of its elements.
    pub fn as_slice(&self) -> DeviceSlice {
        self.slice
    }

    /// Returns the type of its elements.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }
}

// SAFETY: the memory exists until the deleter is called, which `drop` does after the calls that use it.
unsafe impl<T: Element> DeviceRef<T> for Tensor {
    fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
        let (expected, found) = (T::TYPE, self.dtype);
        if expected != found {
            return Err(Error::ElementType { expected, found });
        }
        if !self.slice.address.is_multiple_of(size_of::<T>() as u64) {
            let (found, expected) =
                (format!("at address {:#x}", self.slice.address), format!("one that is aligned for {found}"));
            return Err(Error::Tensor { found, expected });
        }
        let lane = stream.on(self.device.driver())?;
        // SAFETY: as above.
        Ok(unsafe { Lent::with_uses(self.slice, &self.uses, lane) })
    }
}

// SAFETY: as above; the exclusive borrow excludes other calls through this tensor while the call is enqueued.
unsafe impl<T: Element> DeviceMut<T> for Tensor {
    fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
        DeviceRef::<T>::lend(self, stream)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // The deleter may give the memory to other work at once. If the work cannot be awaited, the memory is leaked.
        let is_unused = match self.uses.wait() {
            Ok(true) => true,
            Ok(false) | Err(_) => self.device.driver().wait_idle().is_ok(),
        };
        if !is_unused {
            return;
        }
        // SAFETY: ownership was taken by `import`, and the tensor was not freed before.
        unsafe {
            if let Some(deleter) = self.tensor.as_ref().deleter {
                deleter(self.tensor.as_ptr());
            }
        }
    }
}

/// Data that an exported tensor owns.
struct Exported {
    managed: ManagedTensor,
    /// The length of every dimension, followed by the stride of every dimension.
    dimensions: Box<[i64]>,
    _memory: Arc<DeviceBuffer>,
}

/// Converts a buffer into a tensor in row-major order, for a capsule named `dltensor`. Its memory is freed when its
/// deleter is called, which the consumer does once.
///
/// # Errors
/// [`Error::Tensor`] if the shape does not have as many bytes as the buffer.
pub fn export(buffer: DeviceBuffer, dtype: DataType, shape: &[u64]) -> Result<NonNull<ManagedTensor>, Error> {
    export_shared(Arc::new(buffer), dtype, shape)
}

/// Converts a buffer into a tensor as [`export`] does. It is freed when its other owners have dropped it, too.
///
/// # Errors
/// That of [`export`].
#[doc(hidden)]
pub fn export_shared(
    memory: Arc<DeviceBuffer>,
    dtype: DataType,
    shape: &[u64],
) -> Result<NonNull<ManagedTensor>, Error> {
    let DeviceSlice { address, bytes } = memory.as_slice();
    let elements = shape.iter().try_fold(1_u64, |all, &each| all.checked_mul(each));
    let signed: Option<Vec<i64>> = shape.iter().map(|&each| i64::try_from(each).ok()).collect();
    let expected = || format!("one of {bytes} bytes");
    let fits = elements.and_then(|elements| elements.checked_mul(dtype.size() as u64)) == Some(bytes);
    let (true, Some(mut dimensions), Ok(ndim)) = (fits, signed, i32::try_from(shape.len())) else {
        return Err(Error::Tensor { found: format!("of {dtype} with shape {shape:?}"), expected: expected() });
    };
    // DLPack allowed null strides for tensors without gaps, and since 1.2 requires strides. They wrap where there are
    // no elements.
    let row_major_stride =
        |at: usize| shape[at + 1..].iter().fold(1_u64, |all, &each| all.wrapping_mul(each)).cast_signed();
    dimensions.extend((0..shape.len()).map(row_major_stride));
    let dimensions = dimensions.into_boxed_slice();
    let code = TYPES.iter().find(|(known, _)| *known == dtype).map_or(0, |(_, code)| *code);
    let tensor = RawTensor {
        data: address as *mut c_void,
        device: TensorDevice { kind: CUDA, ordinal: memory.ordinal() as i32 },
        ndim,
        dtype: TensorType { code, bits: dtype.size() as u8 * 8, lanes: 1 },
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = ManagedTensor { tensor, context: std::ptr::null_mut(), deleter: Some(delete) };
    let exported = Box::into_raw(Box::new(Exported { managed, dimensions, _memory: memory }));
    // SAFETY: just created and not shared with other code; the pointers are to parts of it, which do not move until
    // `delete`.
    unsafe {
        let lengths = (*exported).dimensions.as_mut_ptr();
        (*exported).managed.tensor.shape = lengths;
        (*exported).managed.tensor.strides = lengths.add(shape.len());
        (*exported).managed.context = exported.cast();
        Ok(NonNull::new_unchecked(&raw mut (*exported).managed))
    }
}

/// Frees an exported tensor.
unsafe extern "C" fn delete(tensor: *mut ManagedTensor) {
    if tensor.is_null() {
        return;
    }
    // SAFETY: made by `export`, whose box the context is; the caller owns the tensor and calls this once.
    drop(unsafe { Box::from_raw((*tensor).context.cast::<Exported>()) });
}
