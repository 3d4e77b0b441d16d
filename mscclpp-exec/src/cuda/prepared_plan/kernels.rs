//! Specialized kernels that take the interpreter's place while a program runs.

use super::PreparedPlan;
use crate::cuda::plan_state::DevicePlanState;
use crate::cuda::specialize::{NotSpecialized, VECTOR, is_even};

impl PreparedPlan {
    /// Compiles specialized kernels in the background, unless launches run them or cannot. Launches are interpreted until
    /// [`adopt_kernels`](Self::adopt_kernels).
    #[doc(hidden)]
    pub fn compile_kernels(&mut self) {
        let context = &self.context;
        if self.specialized.is_ok() || !self.compilations.is_empty() || !is_even(&context.program, &self.params) {
            return;
        }
        let (groups, constants) = (&context.groups, self.constants);
        let parts = context.parts.iter();
        let started: Result<Vec<_>, NotSpecialized> = parts
            .map(|part| part.specialized.compile_later(&part.device, &context.program, groups, constants))
            .collect();
        match started {
            Ok(compilations) => self.compilations = compilations.into_iter().flatten().collect(),
            Err(reason) => self.specialized = Err(reason),
        }
        if self.specialized == Err(NotSpecialized::NotRequested) && self.compilations.is_empty() {
            self.use_kernels();
        }
    }

    /// Lets the following launches run specialized kernels, if all are compiled. Loads them, for which the driver may wait for the
    /// work of the device; not in a capture. Each process decides for itself: both kinds of launches use memory in the same way.
    #[doc(hidden)]
    pub fn adopt_kernels(&mut self) {
        let is_compiled = self.compilations.iter().all(|compilation| compilation.image().is_some());
        if !self.compilations.is_empty() && is_compiled {
            self.compilations.clear();
            self.use_kernels();
        }
    }

    /// Loads the kernels.
    fn use_kernels(&mut self) {
        let context = &self.context;
        let load = |part: &DevicePlanState| {
            let kernel = part.specialized.kernel(&part.device, &context.program, &context.groups, self.constants)?;
            // Ranks of other processes on the device need room too.
            super::check_co_resident(&self.world, &context.program, part, kernel.handle, self.threads)
                .map_err(|error| NotSpecialized::Failed(Box::new(error)))?;
            Ok(kernel.handle)
        };
        let loaded: Result<Vec<_>, NotSpecialized> = context.parts.iter().map(load).collect();
        if let Err(reason) = &loaded {
            log::info!("plan `{}` is interpreted: {reason}", context.program.plan.name());
        }
        self.specialized = loaded.map(|kernels| {
            self.parts.iter_mut().zip(kernels).for_each(|(part, kernel)| part.written = Some(kernel));
        });
    }

    /// Returns whether the last launch ran specialized kernels.
    #[doc(hidden)]
    pub fn ran_specialized(&self) -> bool {
        let is_specialized = self.parts.iter().all(|part| part.written.is_some() && part.recording.is_none());
        is_specialized && self.bases.iter().all(|base| base.is_multiple_of(VECTOR))
    }
}
