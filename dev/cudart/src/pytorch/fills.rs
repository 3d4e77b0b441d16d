//! Fills: the kernels with which PyTorch writes one value to all elements of contiguous memory, for `zeros`, `ones`, `full` and
//! `fill_`, which are executed as copies of the host's bytes.

use std::ffi::c_void;

use super::functor;
use crate::driver;
use crate::error::Code;

/// Types of elements, as they are written in names, with their sizes in bytes.
const TYPES: [(&str, usize); 15] = [
    ("b", 1),
    ("a", 1),
    ("h", 1),
    ("c", 1),
    ("s", 2),
    ("t", 2),
    ("N3c104HalfE", 2),
    ("N3c108BFloat16E", 2),
    ("i", 4),
    ("j", 4),
    ("f", 4),
    ("l", 8),
    ("m", 8),
    ("x", 8),
    ("d", 8),
];

/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;

/// Returns the bytes of an element, if the kernel of this name fills memory.
pub(super) fn element_bytes(name: &str) -> Option<usize> {
    let (_, of) = functor(name)?.split_once("NS0_11FillFunctorI")?;
    let (_, bytes) = TYPES.iter().find(|(of_type, _)| {
        // The functor's type, and one pointer to the memory.
        of.strip_prefix(of_type).is_some_and(|rest| rest.starts_with("EESt5arrayIPcLm1EE"))
    })?;
    Some(*bytes)
}

/// Enqueues a fill on a stream.
///
/// # Safety
/// The arguments must be those of such a kernel: the number of elements, the value, and the address.
pub(super) unsafe fn run(arguments: *const *const c_void, element_bytes: usize, stream: usize) -> Result<(), Code> {
    // SAFETY: guaranteed by the caller.
    let (count, value, address) = unsafe {
        let value = std::slice::from_raw_parts((*arguments.add(1)).cast::<u8>(), element_bytes);
        ((*arguments).cast::<i32>().read(), value.to_vec(), (*arguments.add(2)).cast::<u64>().read())
    };
    let bytes = usize::try_from(count).unwrap_or(0) * element_bytes;
    if value.iter().all(|byte| *byte == value[0]) {
        return if bytes == 0 { Ok(()) } else { driver::cuMemsetD8Async(address, value[0], bytes, stream) };
    }
    let chunk = value.repeat(bytes.min(CHUNK) / element_bytes);
    (0..bytes).step_by(CHUNK).try_for_each(|at| {
        // SAFETY: at most the bytes of the chunk.
        unsafe {
            driver::cuMemcpyHtoDAsync_v2(address + at as u64, chunk.as_ptr(), chunk.len().min(bytes - at), stream)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fills_are_recognized() {
        let vectorized = |of: &str| {
            format!(
                "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorI{of}EESt5arrayIPcLm1EEEEviT0_T1_"
            )
        };
        for (name, bytes) in TYPES {
            assert_eq!(element_bytes(&vectorized(name)), Some(bytes), "{name}");
        }
        let others = [
            vectorized("N3c107complexIfEE"),
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"
                .into(),
            "FillFunctor".into(),
        ];
        for name in others {
            assert_eq!(element_bytes(&name), None, "{name}");
        }
    }
}
