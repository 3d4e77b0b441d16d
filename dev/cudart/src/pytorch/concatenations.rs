//! Concatenations: the kernels with which PyTorch copies contiguous tensors one after the other, for `cat` and `stack`, which are
//! executed as copies.

use std::ffi::c_void;

use crate::driver;
use crate::error::{self, Code};

/// Maximum number of tensors of a launch.
const MAX_TENSORS: usize = 128;

/// `CatArrInputTensorMetadata` of PyTorch 2.11 and 2.15, up to what is used of it.
#[repr(C)]
struct Inputs {
    addresses: [u64; MAX_TENSORS],
    /// Where each is in the result, counted in the dimension of the concatenation.
    offsets: [u32; MAX_TENSORS],
    /// Sizes in that dimension.
    sizes: [u32; MAX_TENSORS],
    num_elements: [u32; MAX_TENSORS],
}

/// Returns the bytes of an element, if the kernel of this name concatenates contiguous tensors.
pub(super) fn element_bytes(name: &str) -> Option<u64> {
    let variants =
        ["35CatArrayBatchedCopy_alignedK_contig", "26CatArrayBatchedCopy_contig", "30CatArrayBatchedCopy_vectorized"];
    let rest = name.strip_prefix("_ZN2at6native")?;
    let (_, rest) = variants.iter().find_map(|variant| rest.split_once(variant))?;
    let (bytes, rest) = rest.strip_prefix("INS1_10OpaqueTypeILj")?.split_once("EEEj")?;
    // The number of dimensions, and that of tensors.
    let is_known = rest.strip_prefix("Li")?.split_once('E')?.1.starts_with("Li128E");
    is_known.then(|| bytes.parse().ok())?
}

/// Enqueues a concatenation of a number of tensors on a stream.
///
/// # Errors
/// `cudaErrorNotSupported` in a dimension that is not the first one.
///
/// # Safety
/// The arguments must be those of such a kernel: the result, the inputs, the result's shape, the dimension, and the elements of one step
/// in it.
pub(super) unsafe fn run(
    arguments: *const *const c_void,
    num_tensors: usize,
    element_bytes: u64,
    stream: usize,
) -> Result<(), Code> {
    // SAFETY: guaranteed by the caller.
    let (result, inputs, step) = unsafe {
        let step = u64::from((*arguments.add(4)).cast::<u32>().read());
        ((*arguments).cast::<u64>().read(), &*(*arguments.add(1)).cast::<Inputs>(), step)
    };
    let copies = (0..num_tensors.min(MAX_TENSORS)).map(|at| {
        let (offset, size) = (u64::from(inputs.offsets[at]), u64::from(inputs.sizes[at]));
        let elements = u64::from(inputs.num_elements[at]);
        // Otherwise the parts of each tensor are apart in the result.
        let is_whole = elements == size * step;
        let copy = (result + offset * step * element_bytes, inputs.addresses[at], elements * element_bytes);
        if is_whole { Ok(copy) } else { Err(error::NOT_SUPPORTED) }
    });
    let copies: Vec<_> = copies.collect::<Result<_, Code>>()?;
    let mut copies = copies.into_iter().filter(|(.., bytes)| *bytes > 0);
    copies.try_for_each(|(to, from, bytes)| driver::cuMemcpyAsync(to, from, bytes as usize, stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_concatenations_are_recognized() {
        let of = |variant: &str, rest: &str| {
            format!(
                "_ZN2at6native40_GLOBAL__N__f1f992fe_8_Shape_cu_49f7391c{variant}INS1_10OpaqueTypeILj8EEEj{rest}vPT_"
            )
        };
        let contiguous = "35CatArrayBatchedCopy_alignedK_contig";
        assert_eq!(element_bytes(&of(contiguous, "Li1ELi128ELi1ELi16EEE")), Some(8));
        assert_eq!(element_bytes(&of("26CatArrayBatchedCopy_contig", "Li2ELi128ELi1EEE")), Some(8));
        assert_eq!(element_bytes(&of(contiguous, "Li1ELi64ELi1ELi16EEE")), None);
        assert_eq!(element_bytes(&of("19CatArrayBatchedCopy", "Li1ELi128ELi1EEE")), None);
    }
}
