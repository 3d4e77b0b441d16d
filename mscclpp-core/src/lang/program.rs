//! Entry point of the older API, the counterpart of `with MSCCLPPProgram(…):`.

use super::collective::Collective;
use super::context::ProgramContext;
use crate::check::Checks;
use crate::compile_trace;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::dsl::Program;
use crate::plan::Plan;
use crate::spec::AlgoSpec;
use crate::trace::Trace;
use crate::types::Protocol;

/// A program of the older API: its settings, then [`record`](Self::record).
#[derive(Clone, Debug)]
pub struct MscclppProgram {
    spec: AlgoSpec,
    collective: Collective,
}

impl MscclppProgram {
    /// Creates a program with the defaults of the original: protocol `Simple`, fusion on, 1024 threads per block, one
    /// copy of scratch, messages of any size.
    pub fn new(name: impl Into<String>, collective: Collective, num_ranks: u32, instances: u32) -> Self {
        let mut spec = AlgoSpec::new(name, collective.kind, num_ranks);
        spec.instances = instances;
        spec.buffer_alignment = 16;
        Self { spec, collective }
    }

    /// Sets whether scratch is sized for packets.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.spec.protocol = protocol;
        self
    }

    /// Sets whether neighboring operations are fused.
    #[must_use]
    pub fn instr_fusion(mut self, on: bool) -> Self {
        self.spec.fuse = on;
        self
    }

    /// Sets the CUDA threads per thread block, 1 to 1024.
    #[must_use]
    pub fn num_threads_per_block(mut self, threads: u32) -> Self {
        self.spec.threads_per_block = threads;
        self
    }

    /// Sets whether launches alternate between two halves of scratch.
    #[must_use]
    pub fn use_double_scratch_buffer(mut self, on: bool) -> Self {
        self.spec.double_scratch = on;
        self
    }

    /// Sets the ranks per node; all ranks unless set. It must divide the number of ranks.
    #[must_use]
    pub fn num_ranks_per_node(mut self, ranks: u32) -> Self {
        self.spec.ranks_per_node = ranks;
        self
    }

    /// Sets the smallest message, in bytes, inclusive.
    #[must_use]
    pub fn min_message_size(mut self, bytes: u64) -> Self {
        self.spec.min_message_size = bytes;
        self
    }

    /// Sets the largest message, in bytes, inclusive.
    #[must_use]
    pub fn max_message_size(mut self, bytes: u64) -> Self {
        self.spec.max_message_size = bytes;
        self
    }

    /// Records the operations of `body`.
    ///
    /// # Errors
    /// Returns the findings about the settings and the calls, in order.
    pub fn record(self, body: impl FnOnce(&ProgramContext<'_>)) -> Result<Trace, Diagnostics> {
        self.run(body).finish()
    }

    /// Builds the plan of the operations of `body`, as [`compile`](fn@crate::compile) does for the newer API.
    ///
    /// # Errors
    /// Returns the findings about the settings and the program.
    pub fn compile(self, body: impl FnOnce(&ProgramContext<'_>)) -> Result<Plan, Diagnostics> {
        compile_trace(self.run(body), &Checks::default())
    }

    fn run(self, body: impl FnOnce(&ProgramContext<'_>)) -> Program {
        let Self { mut spec, collective } = self;
        let (lowered, scale) = collective.to_collective();
        spec.collective = lowered;
        let (ranks, protocol) = (spec.num_ranks, spec.protocol);
        let program = Program::new(spec);
        if collective.num_ranks != ranks {
            program.report(
                Diagnostic::new(
                    Code::BadSpecification,
                    Site::None,
                    format!("the collective has {} ranks, but the program has {ranks}", collective.num_ranks),
                )
                .help(format!("use {ranks} ranks for both")),
            );
            return program;
        }
        let context = ProgramContext::new(&program, lowered, scale);
        body(&context);
        if protocol == Protocol::LL {
            context.level_scratch();
        }
        program
    }
}
