//! PyTorch's kernels that the host executes in place of the device, as far as tensors are contiguous and types are real numbers: PyTorch
//! launches them on its own, in barriers and collectives of objects, and tests compute with them. Their arguments have the layouts of
//! PyTorch 2.11 and 2.15.
//!
//! | module | kernels |
//! |---|---|
//! | `casts` | copies to another type |
//! | `fills` | `zeros`, `ones`, `full`, `fill_` |
//! | `randoms` | `randn`, `normal_`, `rand`, `uniform_` |
//! | `ranges` | `arange` |
//! | `elementwise` | sums, differences, products, quotients, comparisons |
//! | `concatenations` | `cat`, `stack` |
//! | `reductions` | `sum`, `max`, `min`, `all` |

mod casts;
mod concatenations;
mod elementwise;
mod fills;
mod host;
mod numbers;
mod randoms;
mod ranges;
mod reductions;

use std::ffi::c_void;

use self::casts::Cast;
use self::elementwise::Elementwise;
use self::randoms::Randoms;
use self::reductions::Reduction;
use crate::error::{self, Code};

/// Executes the kernel of a name, in the order of a stream. `rows`: the second dimension of the launch.
///
/// # Errors
/// `cudaErrorNotSupported` for other kernels.
///
/// # Safety
/// The arguments must be those of the kernel.
pub(crate) unsafe fn execute(
    name: &str,
    rows: u32,
    arguments: *const *const c_void,
    stream: usize,
) -> Result<(), Code> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if let Some(bytes) = fills::element_bytes(name) {
            fills::run(arguments, bytes, stream)
        } else if let Some(of_type) = ranges::element_type(name) {
            ranges::run(arguments, of_type, stream)
        } else if let Some(randoms) = Randoms::of(name) {
            randoms.run(arguments, stream)
        } else if let Some(cast) = Cast::of(name) {
            cast.run(arguments, stream)
        } else if let Some(elementwise) = Elementwise::of(name) {
            elementwise.run(arguments, stream)
        } else if let Some(bytes) = concatenations::element_bytes(name) {
            concatenations::run(arguments, rows as usize, bytes, stream)
        } else if let Some(reduction) = Reduction::of(name) {
            reduction.run(arguments, stream)
        } else {
            Err(error::NOT_SUPPORTED)
        }
    }
}

/// Returns what the kernel of this name does with each element of contiguous memory, if it is one of those.
fn functor(name: &str) -> Option<&str> {
    let kernels = ["29vectorized_elementwise_kernelI", "27unrolled_elementwise_kernelI"];
    let rest = name.strip_prefix("_ZN2at6native")?;
    kernels.iter().find_map(|kernel| rest.strip_prefix(kernel))
}
