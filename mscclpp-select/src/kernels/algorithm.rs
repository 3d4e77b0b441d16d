//! Custom kernels in a registry: how they get into it, and how an executor gets them out.

use mscclpp_core::collective::CollectiveKind;

use super::{NativeAlgorithm, NativeRun, Shared};
use crate::{Algorithm, CallError, Request};
use mscclpp_exec::cuda::Executor;

impl Algorithm {
    /// Creates an algorithm from kernels that are launched instead of running a plan, on CUDA devices.
    /// [`prepare_on`](Self::prepare_on) binds them to an executor.
    pub fn kernels(name: impl Into<String>, collective: CollectiveKind, algorithm: impl NativeAlgorithm) -> Self {
        Self::of_kernels(&name.into(), collective, Shared::new(algorithm))
    }

    /// Binds kernels to a CUDA executor and a request. Compiles them on the first call for an executor.
    ///
    /// # Errors
    /// [`CallError`] if it does not consist of [`kernels`](Self::kernels), does not serve the request, or with the
    /// error that its functions return.
    #[doc(hidden)]
    pub fn prepare_on(&self, world: &Executor, request: &Request) -> Result<NativeRun, CallError> {
        let failed = |source| CallError { name: self.name().to_owned(), source };
        self.check_request(request).map_err(|rejection| failed(format!("it {rejection}").into()))?;
        let kernels = self.kernels_as::<Shared>();
        let kernels = kernels.ok_or_else(|| failed("it is not a kernel: prepare its plan".into()))?;
        kernels.prepare(self.name(), world, request)
    }
}
