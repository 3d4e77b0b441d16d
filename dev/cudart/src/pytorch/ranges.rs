//! Ranges: the kernels of PyTorch's `arange`, which are executed as copies of the host's bytes.

use std::ffi::c_void;

use super::host;
use super::numbers::{Number, Type};
use crate::error::Code;

/// Returns the type of the elements, if the kernel of this name writes a range.
pub(super) fn element_type(name: &str) -> Option<Type> {
    let (_, rest) = name.split_once("29elementwise_kernel_with_indexIi")?;
    // A function in that of the dispatch over types, of which the first has no number.
    let (_, rest) = rest.split_once("15arange_cuda_out")?.1.split_once("ENKUlvE_clEvENKUlvE")?;
    let (number, _) = rest.split_once("_clEv")?;
    Type::dispatched(if number.is_empty() { 0 } else { number.parse::<usize>().ok()? + 1 })
}

/// Executes the kernel, and waits for the stream.
///
/// # Safety
/// The arguments must be those of such a kernel: the number of elements, the first one and the step, and the address.
pub(super) unsafe fn run(arguments: *const *const c_void, of_type: Type, stream: usize) -> Result<(), Code> {
    // Integers are computed in 8 bytes.
    let scalars = if of_type.is_integer() { Type::dispatched(3).unwrap_or(of_type) } else { of_type.scalar() };
    // SAFETY: guaranteed by the caller.
    let (count, functor, address) = unsafe {
        let functor = std::slice::from_raw_parts((*arguments.add(1)).cast::<u8>(), 2 * scalars.bytes);
        ((*arguments).cast::<i32>().read(), functor.to_vec(), (*arguments.add(2)).cast::<u64>().read())
    };
    let numbers = scalars.read(&functor);
    let (first, step) = (numbers[0], numbers[1]);
    let elements = (0..i64::from(count)).map(|at| first.plus(step.times(Number::Integer(at))));
    if count <= 0 { Ok(()) } else { host::write(address, &of_type.write(elements), stream) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ranges_are_recognized() {
        let bytes = |number: &str| {
            let name = format!(
                "_ZN50_GLOBAL__N__2fa45684_17_RangeFactories_cu_38772b0829elementwise_kernel_with_indexIiZZZN2at6native15arange_cuda_out\
                 ERKN3c106ScalarES6_S6_RNS1_6TensorEENKUlvE_clEvENKUlvE{number}_clEvEUllE_EEvT_T0_PN15function_traitsISD_E11result_typeE"
            );
            element_type(&name).map(|of_type| (of_type.bytes, of_type.is_integer()))
        };
        let found = ["", "1", "2", "5", "6"].map(bytes);
        assert_eq!(found, [Some((1, true)), Some((4, true)), Some((8, true)), Some((4, false)), Some((2, false))]);
        assert_eq!(bytes("8"), None);
    }
}
