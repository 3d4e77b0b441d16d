//! Copies of contiguous tensors to another type.

use std::ffi::c_void;

use super::functor;
use super::host;
use super::numbers::Type;
use crate::error::{self, Code};

/// A kernel that converts the elements of one tensor to another type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cast {
    /// Between types that its name has.
    Named(Type, Type),
    /// Between types that its arguments have.
    Given,
}

impl Cast {
    /// Returns what the kernel of this name converts, if it is one of these.
    pub(super) fn of(name: &str) -> Option<Self> {
        let text = functor(name).filter(|text| text.contains("St5arrayIPcLm2EE"))?;
        if let Some((_, types)) = text.split_once("27converting_copy_kernel_cudaI") {
            let (from, rest) = Type::parse(types)?;
            return Some(Self::Named(from, Type::parse(rest)?.0));
        }
        let is_given = ["direct_copy_kernel_cuda", "12LoadWithCastILi1EEE", "13StoreWithCastILi1EEE"];
        is_given.iter().all(|part| text.contains(part)).then_some(Self::Given)
    }

    /// Executes the kernel, and waits for the stream.
    ///
    /// # Safety
    /// The arguments must be those of such a kernel: the number of elements, the functor, the addresses of the result and of the source;
    /// and if types are given what computes offsets, and the types from which elements are loaded and as which they are stored.
    pub(super) unsafe fn run(self, arguments: *const *const c_void, stream: usize) -> Result<(), Code> {
        // SAFETY: guaranteed by the caller.
        let (count, [result, source], types) = unsafe {
            let given = |at: usize| Type::numbered((*arguments.add(at)).cast::<u8>().read());
            let types = match self {
                Self::Named(from, to) => Some((from, to)),
                Self::Given => given(5).zip(given(6)),
            };
            ((*arguments).cast::<i32>().read(), (*arguments.add(2)).cast::<[u64; 2]>().read(), types)
        };
        let (from, to) = types.ok_or(error::NOT_SUPPORTED)?;
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Ok(());
        }
        let numbers = from.read(&host::read(source, count * from.bytes, stream)?);
        host::write(result, &to.write(numbers), stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognized() {
        let name = "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE4_clEvEUldE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_6memory12LoadWithCastILi1EEENSC_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";
        assert!(matches!(Cast::of(name), Some(Cast::Given)));
        assert!(Cast::of(&name.replace("direct_copy", "other_copy")).is_none());
        assert!(Cast::of(&name.replace("LoadWithCast", "LoadWithoutCast")).is_none());
        let name = "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_27converting_copy_kernel_cudaIN3c104HalfEfEEvRNS_18TensorIteratorBaseEEUlS4_E_St5arrayIPcLm2EELb0EEEviT0_T1_";
        assert!(matches!(Cast::of(name), Some(Cast::Named(from, to)) if (from.bytes, to.bytes) == (2, 4)));
    }
}
