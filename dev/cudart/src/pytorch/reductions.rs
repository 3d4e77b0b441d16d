//! Reductions: the kernels with which PyTorch finds the sum, the maximum or the minimum of contiguous elements, or whether all are true.
//! The host executes them, once the stream has reached them.

use std::ffi::c_void;

use super::host;
use super::numbers::{Number, Type};
use crate::error::{self, Code};

/// Maximum number of dimensions of a tensor.
const MAX_DIMS: usize = 25;

/// The argument of the kernels: `at::native::ReduceOp` of PyTorch 2.11 and 2.15 with indices of 4 bytes, after the operator and the
/// identity, up to what is used of it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Argument {
    element_bytes: i32,
    num_inputs: i32,
    num_outputs: i32,
    configuration: [i32; 13],
    num_dims: i32,
    /// Each divisor, and two numbers with which it divides.
    sizes: [[u32; 3]; MAX_DIMS],
    strides: [u32; MAX_DIMS],
    output_dims: i32,
    output_sizes: [[u32; 3]; MAX_DIMS],
    output_strides: [[u32; 2]; MAX_DIMS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Sum,
    Maximum,
    Minimum,
    /// Of truth values.
    All,
}

/// A kernel that reduces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    of_type: Type,
    operation: Operation,
}

impl Reduction {
    /// Returns the reduction that the kernel of this name is.
    pub(super) fn of(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("_ZN2at6native13reduce_kernelI")?;
        let (of_type, rest) = Type::parse(rest.split_once("8ReduceOpI")?.1)?;
        // The type, or a reference to it in the name.
        let rest = rest.strip_prefix("NS0_14func_wrapper_tI")?;
        let operator = Type::parse(rest).map(|(_, rest)| rest).or_else(|| rest.strip_prefix("S4_"))?;
        let operation = match operator {
            _ if !rest.contains("EEj") => return None,
            _ if operator.starts_with("NS0_13MaxNanFunctorI") => Operation::Maximum,
            _ if operator.starts_with("NS0_13MinNanFunctorI") => Operation::Minimum,
            _ if operator.starts_with("ZNS0_11sum_functorI") => Operation::Sum,
            _ if operator.starts_with("ZZZNS0_15and_kernel_cudaE") && operator.contains("EUlbbE_") => Operation::All,
            _ => return None,
        };
        Some(Self { of_type, operation })
    }

    /// Executes the kernel, and waits for the stream.
    ///
    /// # Errors
    /// `cudaErrorNotSupported` unless there is one result, of contiguous elements.
    ///
    /// # Safety
    /// The argument must be that of such a kernel.
    pub(super) unsafe fn run(self, arguments: *const *const c_void, stream: usize) -> Result<(), Code> {
        let Self { of_type, operation } = self;
        // The operator has a byte, and the identity follows.
        let identity_bytes = match operation {
            Operation::Sum => of_type.scalar_bytes,
            _ => of_type.bytes,
        };
        let begin = (2 * identity_bytes).next_multiple_of(align_of::<Argument>());
        let addresses = (begin + size_of::<Argument>()).next_multiple_of(align_of::<u64>());
        // SAFETY: guaranteed by the caller.
        let (argument, source, destination) = unsafe {
            let all = (*arguments).cast::<u8>();
            let address = |at: usize| all.add(addresses + at).cast::<u64>().read_unaligned();
            (all.add(begin).cast::<Argument>().read_unaligned(), address(0), address(8))
        };
        let Argument { element_bytes, num_inputs, num_outputs, num_dims, strides, .. } = argument;
        let is_contiguous = num_dims == 0 || (num_dims == 1 && strides[0] as usize == of_type.bytes);
        if element_bytes as usize != of_type.bytes || num_outputs != 1 || num_inputs < 1 || !is_contiguous {
            return Err(error::NOT_SUPPORTED);
        }
        let elements = of_type.read(&host::read(source, num_inputs as usize * of_type.bytes, stream)?);
        let combine = match operation {
            Operation::Sum => Number::plus,
            Operation::Maximum => {
                |first: Number, second: Number| first.with(second, i64::max, |a, b| or_nan(a, b, f64::max))
            }
            Operation::Minimum | Operation::All => {
                |first: Number, second: Number| first.with(second, i64::min, |a, b| or_nan(a, b, f64::min))
            }
        };
        host::write(destination, &of_type.write(elements.into_iter().reduce(combine)), stream)
    }
}

/// Combines two floats, of which NaN remains.
fn or_nan(first: f64, second: f64, combine: fn(f64, f64) -> f64) -> f64 {
    if first.is_nan() || second.is_nan() { f64::NAN } else { combine(first, second) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_reductions_are_recognized() {
        let of = |operator: &str| {
            let name = format!("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpI{operator}Li4ELi4EEEEEvT1_");
            Reduction::of(&name).map(|found| (found.operation, found.of_type.bytes))
        };
        let sum = "lNS0_14func_wrapper_tIlZNS0_11sum_functorIlllEclERNS_14TensorIteratorEEUlllE_EEjl";
        let of_halves =
            "N3c104HalfENS0_14func_wrapper_tIS4_ZNS0_11sum_functorIS4_fS4_EclERNS_14TensorIteratorEEUlffE_EEjS4_";
        assert_eq!(of(sum), Some((Operation::Sum, 8)));
        assert_eq!(of(of_halves), Some((Operation::Sum, 2)));
        assert_eq!(of("fNS0_14func_wrapper_tIfNS0_13MaxNanFunctorIfEEEEjf"), Some((Operation::Maximum, 4)));
        assert_eq!(of("lNS0_14func_wrapper_tIlNS0_13MinNanFunctorIlEEEEjl"), Some((Operation::Minimum, 8)));
        assert_eq!(of("fNS0_14func_wrapper_tIfNS0_11prod_functorIfEEEEjf"), None);
    }

    #[test]
    fn strides_are_where_the_kernels_have_them() {
        // After an operator and an identity of 8 bytes.
        assert_eq!(16 + std::mem::offset_of!(Argument, strides), 384);
        assert_eq!(size_of::<Argument>(), 988 - 16);
    }
}
