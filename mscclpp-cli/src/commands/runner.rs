//! Backends of `mscclpp run`: the CPU, or a CUDA device.

use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{self, Device};
use mscclpp_exec::verify::{Verifier, VerifyReport};
use mscclpp_exec::{Error, Message, cpu};

/// What runs plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Backend {
    /// The CPU.
    #[default]
    Cpu,
    /// CUDA device 0, with all ranks on it.
    Cuda,
}

impl From<Backend> for mscclpp_exec::select::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Cpu => Self::Cpu,
            Backend::Cuda => Self::Cuda,
        }
    }
}

impl Backend {
    /// Returns the name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Cuda => "CUDA",
        }
    }
}

/// Ranks on a backend.
pub(crate) struct Ranks {
    /// The CPU executor: with a device it computes the expected results.
    cpu: cpu::Executor,
    cuda: Option<cuda::Executor>,
}

/// A plan bound to a message, with buffers.
pub(crate) struct Runner {
    run: cpu::PreparedPlan,
    buffers: cpu::Buffers,
    cuda: Option<OnDevice>,
}

struct OnDevice {
    run: cuda::PreparedPlan,
    buffers: cuda::Buffers,
    stream: cuda::Stream,
}

impl Ranks {
    /// Creates the ranks of a backend.
    ///
    /// # Errors
    /// [`Error::NoDevice`].
    pub(crate) fn new(backend: Backend, ranks: u32, options: cpu::Options) -> Result<Self, Error> {
        let cuda = match backend {
            Backend::Cpu => None,
            Backend::Cuda => {
                let own = cuda::Options { scratch_limit: options.scratch_limit, ..cuda::Options::default() };
                Some(cuda::Executor::with_options(&Device::new(0)?, ranks, own))
            }
        };
        Ok(Self { cpu: cpu::Executor::with_options(ranks, options), cuda })
    }

    /// Prepares a plan for a message, and allocates buffers.
    ///
    /// # Errors
    /// Those of either backend's `prepare`.
    pub(crate) fn prepare(&self, plan: &Plan, message: Message) -> Result<Runner, Error> {
        let run = self.cpu.prepare(plan, message)?;
        let buffers = run.buffers()?;
        let cuda = match &self.cuda {
            None => None,
            Some(world) => {
                let run = world.prepare(plan, message)?;
                Some(OnDevice { buffers: run.buffers()?, stream: world.stream()?, run })
            }
        };
        Ok(Runner { run, buffers, cuda })
    }
}

impl Runner {
    /// Returns the verifier of results.
    pub(crate) fn verifier(&self, seed: u64) -> Verifier {
        Verifier::new(&self.run, seed)
    }

    /// Writes every input.
    pub(crate) fn fill(&mut self, verifier: &Verifier) -> Result<(), Error> {
        verifier.fill(&mut self.buffers);
        if let Some(OnDevice { buffers, .. }) = &mut self.cuda {
            for rank in 0..self.buffers.num_ranks() {
                buffers.write_output(rank, self.buffers.output(rank))?;
                buffers.write_input(rank, self.buffers.input(rank))?;
            }
        }
        Ok(())
    }

    /// Overwrites all scratch with pseudo-random bytes.
    pub(crate) fn scramble_scratch(&mut self, seed: u64) -> Result<(), Error> {
        match &mut self.cuda {
            None => self.run.scramble_scratch(seed),
            Some(OnDevice { run, .. }) => run.scramble_scratch(seed)?,
        }
        Ok(())
    }

    /// Launches once, and waits until the launch is complete.
    pub(crate) fn launch(&mut self) -> Result<(), Error> {
        match &mut self.cuda {
            None => self.run.launch_buffers(&mut self.buffers),
            Some(OnDevice { run, buffers, stream }) => {
                run.launch_buffers(buffers, stream)?;
                run.synchronize(stream)
            }
        }
    }

    /// Compares every output with the expected one.
    pub(crate) fn check(&mut self, verifier: &Verifier) -> Result<VerifyReport, Error> {
        if let Some(OnDevice { buffers, .. }) = &self.cuda {
            for rank in 0..self.buffers.num_ranks() {
                buffers.read_output(rank, self.buffers.output_mut(rank))?;
            }
        }
        Ok(verifier.check(&self.buffers))
    }
}
