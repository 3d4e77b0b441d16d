//! Custom kernels as an algorithm.
//!
//! A [`NativeAlgorithm`] provides CUDA source instead of a plan. It is registered like any other algorithm
//! ([`select::Algorithm::kernels`](crate::Algorithm::kernels)), selected like any other, and bound to an
//! executor by [`prepare_on`](crate::Algorithm::prepare_on). Its source may include the device code's headers;
//! [`jit`](mscclpp_exec::cuda::jit) compiles and caches it. Calls of a communicator whose registry selects it launch its kernels. They are
//! not checked: they have no proof, no timeout and no report.

mod algorithm;
mod context;
mod erased;

pub use self::context::ContextKey;

use crate::Request;

use mscclpp_exec::cuda::{DeviceSlice, Executor, Stream};

use erased::Shared;

/// Error of an algorithm's own functions.
pub type NativeError = Box<dyn std::error::Error + Send + Sync>;

/// An algorithm that consists of kernels, for the ranks of one executor: all in this process, or one in each of several processes, whose
/// kernels use [channels](mscclpp_exec::cuda::channels) ([`Executor::channels`]).
///
/// ```
/// use mscclpp_exec::{cuda::jit::Function, cuda::jit::Source};
/// use mscclpp_select::kernels::{NativeAlgorithm, NativeError};
/// use mscclpp_exec::{cuda::DeviceSlice, cuda::Executor, cuda::Stream};
/// use mscclpp_select::Request;
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
///     fn init(&self, executor: &Executor) -> Result<Function, NativeError> {
///         Ok(executor.devices()[0].module(&Source::new("one_kernel.cu", SOURCE))?.function("copy_all")?)
///     }
///
///     fn context(
///         &self,
///         _: &Function,
///         _: &Executor,
///         _: &Request,
///         _: &[[DeviceSlice; 2]],
///     ) -> Result<(), NativeError> {
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
    /// Data that all calls on an executor share: usually kernels.
    type Kernels: Send + Sync;
    /// Data that all calls with one [key](Self::context_key) share: counters, scratch, channels.
    type Context: Send;

    /// Compiles the kernels; called once for every executor, before its first call.
    ///
    /// # Errors
    /// Any reason why it cannot serve this executor: no compiler, ranks on several devices.
    fn init(&self, world: &Executor) -> Result<Self::Kernels, NativeError>;

    /// Returns the key of the context for calls of a request. By default all calls of a request share one, and no other calls do.
    ///
    /// A context exists as long as a [`NativeRun`] that has used it. If contexts are created by calls of all ranks
    /// ([`Executor::channels`]), all ranks must return the same keys, and create and drop their runs in the same order.
    fn context_key(&self, request: &Request) -> ContextKey {
        ContextKey::of_request(request)
    }

    /// Creates the context of a key, outside of any capture: when the first request with the key is
    /// [prepared](crate::Algorithm::prepare_on), or, for a key [per allocation](ContextKey::per_allocation), at the first call on the
    /// allocations. `allocations`: then those of each rank's input and output, at their whole length; otherwise empty. It must not prepare
    /// this algorithm itself.
    ///
    /// # Errors
    /// Any reason why it cannot serve this request: a type without a kernel, too little memory.
    fn context(
        &self,
        kernels: &Self::Kernels,
        world: &Executor,
        request: &Request,
        allocations: &[[DeviceSlice; 2]],
    ) -> Result<Self::Context, NativeError>;

    /// Enqueues a call on a stream, and returns immediately; it may be captured. `ranks`: for each rank of this process its input and
    /// its output, of the lengths that the request states, or, in place, its one buffer and an empty slice.
    ///
    /// # Errors
    /// Usually those of [`Function::launch`](mscclpp_exec::cuda::jit::Function::launch).
    ///
    /// # Safety
    /// The slices must be memory that every device of this process in the executor can access. No other work may use them until the
    /// call is complete, and they must exist until then; if the call is captured, until the last launch of the graph is
    /// complete.
    unsafe fn launch(
        &self,
        kernels: &Self::Kernels,
        context: &mut Self::Context,
        ranks: &[[DeviceSlice; 2]],
        stream: &Stream,
    ) -> Result<(), NativeError>;
}

/// A native algorithm bound to an executor and a request, which can be launched any number of times.
///
/// `Send` but not `Sync`, because a context of an algorithm need not be `Sync`; launches borrow it mutably.
pub struct NativeRun {
    // Dropped first: contexts may use the executor.
    bound: Box<dyn erased::Bound>,
    name: String,
    request: Request,
    /// Number of ranks of this process.
    local: u32,
    world: Executor,
}

static_assertions::assert_impl_all!(NativeRun: Send);
static_assertions::assert_not_impl_any!(NativeRun: Sync);
