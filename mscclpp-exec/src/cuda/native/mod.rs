//! Kernels of one's own as an algorithm.
//!
//! A [`NativeAlgorithm`] brings CUDA source instead of a plan. It is put into a registry like any other
//! ([`select::Algorithm::kernels`](crate::select::Algorithm::kernels)), chosen like any other, and bound to a world by
//! [`prepare_on`](crate::select::Algorithm::prepare_on). Its source may include the device code's headers, and is compiled and kept by
//! [`jit`](super::jit). Nothing checks what its kernels do: no proof, no deadline, no report.

mod erased;

use crate::select::Request;

use super::{DeviceSlice, Executor, Stream};

pub(crate) use erased::Shared;

/// What an algorithm's own functions fail with.
pub type NativeError = Box<dyn std::error::Error + Send + Sync>;

/// An algorithm that is kernels, for the ranks of one world.
///
/// ```
/// use mscclpp_exec::cuda::jit::{Function, Source};
/// use mscclpp_exec::cuda::native::{NativeAlgorithm, NativeError};
/// use mscclpp_exec::cuda::{DeviceSlice, Stream, World};
/// use mscclpp_exec::select::Request;
///
/// /// Every rank gets rank 0's input: one kernel copies it.
/// struct OneKernel;
///
/// #[derive(Clone, Copy, bytemuck::NoUninit)]
/// #[repr(C)]
/// struct Copy {
///     to: u64,
///     from: u64,
///     bytes: u64,
/// }
///
/// const SOURCE: &str = r#"
///     #include "copy.h"
///     struct Copy { uint64_t to, from, bytes; };
///     KERNEL(256) copy_all(KERNEL_PARAM Copy copy) {
///         mscclpp::copy_bytes(reinterpret_cast<char*>(copy.to), reinterpret_cast<const char*>(copy.from), copy.bytes, 0);
///     }
/// "#;
///
/// impl NativeAlgorithm for OneKernel {
///     type Kernels = Function;
///     type Context = ();
///
///     fn init(&self, world: &World) -> Result<Function, NativeError> {
///         Ok(world.devices()[0].module(&Source::new("one_kernel.cu", SOURCE))?.function("copy_all")?)
///     }
///
///     fn context(&self, _: &Function, _: &World, _: &Request) -> Result<(), NativeError> {
///         Ok(())
///     }
///
///     unsafe fn launch(
///         &self,
///         kernel: &Function,
///         _: &mut (),
///         ranks: &[[DeviceSlice; 2]],
///         stream: &Stream,
///     ) -> Result<(), NativeError> {
///         for [_, output] in ranks {
///             let copy = Copy { to: output.address, from: ranks[0][0].address, bytes: output.bytes };
///             // SAFETY: the kernel takes such a struct, and copies between the caller's memories.
///             unsafe { kernel.launch(stream, 1, 256, &copy)? };
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait NativeAlgorithm: Send + Sync + 'static {
    /// What all calls on a world share: kernels, as a rule.
    type Kernels: Send + Sync;
    /// What all calls of one request share: counters, scratch.
    type Context: Send;

    /// Compiles; called once for every world, before its first call.
    ///
    /// # Errors
    /// Whatever keeps it from serving this world: no compiler, ranks on several devices.
    fn init(&self, world: &Executor) -> Result<Self::Kernels, NativeError>;

    /// Makes ready for calls of a request, outside of any capture; called by every
    /// [`prepare_on`](crate::select::Algorithm::prepare_on).
    ///
    /// # Errors
    /// Whatever keeps it from serving this request: a type without a kernel, no memory.
    fn context(
        &self,
        kernels: &Self::Kernels,
        world: &Executor,
        request: &Request,
    ) -> Result<Self::Context, NativeError>;

    /// Puts a call on a stream, and returns at once; it may be captured. `ranks`: for each rank its input and its output, of the
    /// lengths that the request says, or, in place, its one buffer and nothing.
    ///
    /// # Errors
    /// As a rule those of [`Function::launch`](super::jit::Function::launch).
    ///
    /// # Safety
    /// The slices are memory that every device of the world reaches. Nobody else uses them until the call is done, and they are
    /// there until then; if it is captured, until the last launch of the graph is.
    unsafe fn launch(
        &self,
        kernels: &Self::Kernels,
        context: &mut Self::Context,
        ranks: &[[DeviceSlice; 2]],
        stream: &Stream,
    ) -> Result<(), NativeError>;
}

/// A native algorithm bound to a world and a request, to be launched any number of times.
pub struct NativeRun {
    name: String,
    request: Request,
    bound: Box<dyn erased::Bound>,
}
