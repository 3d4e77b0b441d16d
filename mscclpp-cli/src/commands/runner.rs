//! Backends of `mscclpp run`: the CPU, or CUDA devices.

use mscclpp_communicator::Communicator;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda;
use mscclpp_exec::timeline::Timeline;
use mscclpp_exec::verify::{ROW_EPS, Verifier, VerifyReport};
use mscclpp_exec::{Error, Message, cpu};

use super::devices::{JobDevices, ranks_on_devices};
use crate::args::Backend;

/// Ranks on a backend.
pub(crate) enum Ranks {
    Cpu(cpu::Executor),
    Cuda(cuda::Executor),
}

/// A plan bound to a message, with buffers.
pub(crate) enum Runner {
    Cpu { prepared: cpu::PreparedPlan, buffers: cpu::Buffers },
    Cuda { prepared: Box<cuda::PreparedPlan>, buffers: cuda::Buffers, stream: cuda::Stream },
}

impl Ranks {
    /// Creates the ranks of a backend; those of the CUDA backend on `gpus` devices.
    ///
    /// # Errors
    /// [`Error::NoDevice`], [`Error::NoPeerAccess`].
    pub(crate) fn new(backend: Backend, gpus: u32, ranks: u32, options: cpu::Options) -> Result<Self, Error> {
        Ok(match backend {
            Backend::Cpu => Self::Cpu(cpu::Executor::with_options(ranks, options)),
            Backend::Cuda => {
                let options = cuda::Options::default().scratch_limit(options.scratch_limit);
                Self::Cuda(ranks_on_devices(ranks, gpus, options)?)
            }
        })
    }

    /// Creates the ranks of a job, each in its process with its CUDA device. A call of all ranks.
    ///
    /// # Errors
    /// Those of [`JobDevices::connect`].
    pub(crate) fn of_job(comm: &Communicator, options: cpu::Options) -> Result<Self, Error> {
        let options = cuda::Options::default().scratch_limit(options.scratch_limit);
        Ok(Self::Cuda(JobDevices::connect(comm, options)?.executor))
    }

    /// Prepares a plan for a message, and allocates buffers.
    ///
    /// # Errors
    /// Those of the backend's `prepare`.
    pub(crate) fn prepare(&self, plan: &Plan, message: Message) -> Result<Runner, Error> {
        Ok(match self {
            Self::Cpu(executor) => {
                let prepared = executor.prepare(plan, message)?;
                Runner::Cpu { buffers: prepared.buffers()?, prepared }
            }
            Self::Cuda(executor) => {
                let prepared = executor.prepare(plan, message)?;
                let (buffers, stream) = (prepared.buffers()?, executor.stream()?);
                Runner::Cuda { prepared: prepared.into(), buffers, stream }
            }
        })
    }
}

impl Runner {
    /// Returns the verifier of results.
    pub(crate) fn verifier(&self, seed: u64) -> Verifier {
        match self {
            Self::Cpu { prepared, .. } => Verifier::new(prepared, seed),
            Self::Cuda { prepared, .. } => Verifier::new(&**prepared, seed),
        }
    }

    /// Writes every input.
    pub(crate) fn fill(&mut self, verifier: &Verifier) -> Result<(), Error> {
        match self {
            Self::Cpu { buffers, .. } => verifier.fill(buffers),
            Self::Cuda { buffers, .. } => verifier.fill_device(buffers)?,
        }
        Ok(())
    }

    /// Overwrites all scratch with pseudo-random bytes.
    pub(crate) fn scramble_scratch(&mut self, seed: u64) -> Result<(), Error> {
        match self {
            Self::Cpu { prepared, .. } => prepared.scramble_scratch(seed),
            Self::Cuda { prepared, .. } => prepared.scramble_scratch(seed)?,
        }
        Ok(())
    }

    /// Launches once, and waits until the launch is complete.
    pub(crate) fn launch(&mut self) -> Result<(), Error> {
        match self {
            Self::Cpu { prepared, buffers } if prepared.collective().rows => {
                prepared.launch_buffers_normalized(buffers, ROW_EPS)
            }
            Self::Cpu { prepared, buffers } => prepared.launch_buffers(buffers),
            Self::Cuda { prepared, buffers, stream } => {
                match prepared.collective().rows {
                    true => prepared.launch_buffers_normalized(buffers, ROW_EPS, stream)?,
                    false => prepared.launch_buffers(buffers, stream)?,
                }
                prepared.synchronize(stream)
            }
        }
    }

    /// Records a timeline of the next launch.
    pub(crate) fn start_timeline(&mut self) -> Result<(), Error> {
        match self {
            Self::Cpu { prepared, .. } => prepared.start_timeline(),
            Self::Cuda { prepared, .. } => prepared.start_timeline()?,
        }
        Ok(())
    }

    /// Returns the timeline of the last launch.
    pub(crate) fn take_timeline(&mut self) -> Result<Timeline, Error> {
        match self {
            Self::Cpu { prepared, .. } => Ok(prepared.take_timeline()),
            Self::Cuda { prepared, .. } => prepared.take_timeline(),
        }
    }

    /// Compares every output with the expected one.
    pub(crate) fn check(&self, verifier: &Verifier) -> Result<VerifyReport, Error> {
        match self {
            Self::Cpu { buffers, .. } => Ok(verifier.check(buffers)),
            Self::Cuda { buffers, .. } => verifier.check_device(buffers),
        }
    }
}
