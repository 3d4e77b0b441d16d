//! Specialized kernels: CUDA source generated for one plan.
//!
//! The interpreter decodes every operation of a plan in every launch. Here the plan is turned into CUDA source that
//! contains its operations one after the other, with their kinds, counts, slices and reduction as constants; thread
//! blocks with the same operations on other chunks and channels share a function. The source is compiled at run time
//! ([`jit`](super::jit)), unless it is one of those that were compiled ahead of time. It calls the device functions that the interpreter calls, and takes the same parameters, so
//! that tables, counters, waits, reports and results are bitwise equal, and both kinds of launches may follow one
//! another. The host therefore runs the interpreter's kernel wherever a message does not divide into whole vectors
//! ([`vectorizable`]).
//!
//! The source omits transfers of 0 chunks and loops without operations. All other operations are in the plan's order;
//! where operands and ids are cached, a statement's index refers to those of its operation, in each iteration of a
//! loop. `validate_kernel` reads a source and compares it with the plan.

mod ahead_of_time;
mod shape;
mod vectorizable;
mod write;

use std::sync::{Mutex, Once, PoisonError};

use mscclpp_core::plan::Plan;
use thiserror::Error;

pub use self::ahead_of_time::{best_tier, sources_of_ranks};
use self::shape::Shapes;
pub(super) use self::vectorizable::{VECTOR, is_even, takes_any_alignment};
use super::switch::{self, Groups};
use super::tables::Tables;
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_base::error::jit::JitError;
use mscclpp_base::interpret::program::Reductions;
use mscclpp_base::interpret::{Params, ResolvedPlan, resolve};
use mscclpp_base::kernel_tier::KernelTier;
use mscclpp_base::message::Message;
use mscclpp_base::numeric::AccumType;
use mscclpp_base::passes::elide_own_packets::elide_own_packets;
use mscclpp_cuda::abi;
use mscclpp_cuda::device::{Compilation, Device, Function};
use mscclpp_cuda::jit::{Source, type_names};

/// Maximum number of operations of all shapes of a plan. Each costs some milliseconds of compilation, and space for
/// instructions on the device.
const MAX_OPERATIONS: usize = 1024;

/// Why a prepared plan uses the interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotSpecialized {
    /// The caller did not request a specialized kernel.
    #[error("no specialized kernel was requested")]
    NotRequested,
    /// The kernel is being compiled, for plans that are prepared later.
    #[error("its kernel is being compiled")]
    Compiling,
    /// No kernel was compiled ahead of time, and the caller does not want it to be compiled.
    #[error("its kernel was not compiled ahead of time, and none is to be compiled")]
    NotCompiled,
    /// A plan of too many different operations.
    #[error(
        "{seen} of {blocks} thread blocks have {operations} operations in {shapes} distinct sequences, expected at \
         most {most}"
    )]
    TooLarge {
        /// Operations of all sequences.
        operations: usize,
        /// Different sequences of operations.
        shapes: usize,
        /// Thread blocks that were examined.
        seen: usize,
        /// Number of all thread blocks.
        blocks: usize,
        /// Maximum number of operations.
        most: usize,
    },
    /// A plan with an operation that has more operands than a specialized kernel supports.
    #[error("an operation has {sources} sources and {destinations} destinations, expected at most {most} each")]
    TooWide {
        /// Its sources.
        sources: u32,
        /// Its destinations.
        destinations: u32,
        /// Maximum number of each.
        most: u32,
    },
    /// A plan with an operation for which specialized kernels have no code.
    #[error("specialized kernels do not support `{operation}`")]
    Unsupported {
        /// Name of the operation in plans.
        operation: &'static str,
    },
    /// The specialized kernel needs more resources of the device than the interpreter.
    #[error("{fit} blocks of the specialized kernel are co-resident on the device, expected {blocks}")]
    NotResident {
        /// Blocks of the plan.
        blocks: u32,
        /// Blocks that are co-resident.
        fit: u32,
    },
    /// The kernel was not compiled or not loaded.
    #[error(transparent)]
    Failed(Box<Error>),
}

/// When a kernel is compiled that was not compiled before.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compile {
    /// When the plan is prepared, which waits.
    #[default]
    Now,
    /// In the background, for plans that are prepared later.
    InBackground,
    Never,
}

/// Specialized kernels for one device's part of a plan, or why there are none.
pub(super) struct SpecializedKernels {
    /// Of the device's thread blocks.
    shapes: Result<Shapes, NotSpecialized>,
    /// Few, so that a list suffices.
    kernels: Mutex<Vec<(Constants, State)>>,
}

/// What there is of a kernel.
#[derive(Clone)]
enum State {
    /// It was not compiled ahead of time.
    Absent,
    Compiling(Compilation),
    Kernel(Result<(Function, KernelTier), NotSpecialized>),
}

/// The constants of a kernel other than its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    pub(super) dtype: DataType,
    pub(super) accumulate: AccumType,
    /// The reduction that replaces the plan's own.
    pub(super) reduce: Option<abi::Reduction>,
    /// Whether switches may combine.
    pub(super) combines: bool,
}

impl Constants {
    pub(super) fn new(program: &ResolvedPlan, params: &Params, switch_floats: bool) -> Self {
        let Message { dtype, accumulate, .. } = params.message;
        let combines = params.reduction.is_some_and(|op| switch::combines(dtype, accumulate, op, switch_floats));
        let reduce = match (program.reductions, params.reduction) {
            (Reductions::Generic, Some(op)) => Some(op.into()),
            _ => None,
        };
        Self { dtype, accumulate, reduce, combines }
    }
}

impl SpecializedKernels {
    /// Finds the shapes of a device's thread blocks, and stores them in these.
    pub(super) fn new(program: &ResolvedPlan, groups: &Groups, blocks: &mut [abi::Block]) -> Self {
        let switched = [false, true].map(|combines| groups.useful(combines));
        let shapes = Shapes::new(program, blocks, &switched, MAX_OPERATIONS);
        for (block, &shape) in blocks.iter_mut().zip(shapes.iter().flat_map(|shapes| &shapes.blocks)) {
            block.shape = shape;
        }
        Self { shapes, kernels: Mutex::default() }
    }

    /// Returns the kernel for a type and reduction: one that was compiled ahead of time, or one that is compiled at run time.
    ///
    /// # Errors
    /// [`NotSpecialized::NotCompiled`] and [`NotSpecialized::Compiling`] as `compile` demands; all others.
    pub(super) fn kernel(
        &self,
        device: &Device,
        program: &ResolvedPlan,
        constants: Constants,
        compile: Compile,
    ) -> Result<(Function, KernelTier), NotSpecialized> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kernels.iter().find(|(of, _)| *of == constants).map(|(_, state)| state.clone());
        let is_new = known.is_none();
        let state = match (known.unwrap_or_else(|| self.ahead_of_time(device, constants)), compile) {
            (State::Absent, Compile::InBackground) => match self.source(device, constants) {
                Ok(source) => State::Compiling(device.compile_later(source)),
                Err(reason) => State::Kernel(Err(reason)),
            },
            (state, _) => state,
        };
        let mut keep = |state| {
            kernels.retain(|(of, _)| *of != constants);
            kernels.push((constants, state));
        };
        let module = match (&state, compile) {
            (State::Kernel(kernel), _) => {
                if is_new {
                    note(program, kernel);
                }
                let kernel = kernel.clone();
                keep(state);
                return kernel;
            }
            (State::Absent, Compile::Never) => {
                keep(state);
                return Err(NotSpecialized::NotCompiled);
            }
            (State::Absent, _) => self.source(device, constants).and_then(|of| device.module(&of).map_err(failed)),
            (State::Compiling(compilation), _) => match (compilation.image(), compile) {
                (Some(image), _) => image
                    .as_ref()
                    .map_err(|error| Error::from(error.clone()))
                    .and_then(|image| device.compiled_module(compilation.source(), image)),
                (None, Compile::Now) => device.module(compilation.source()),
                (None, _) => {
                    keep(state);
                    return Err(NotSpecialized::Compiling);
                }
            }
            .map_err(failed),
        };
        let kernel = module.and_then(|module| module.function(write::KERNEL).map_err(failed));
        let kernel = kernel.map(|kernel| (kernel, KernelTier::JustInTime));
        note(program, &kernel);
        if let Err(NotSpecialized::Failed(error)) = &kernel
            && let Error::Driver(_) | Error::Capturing { .. } = **error
        {
            // The driver may load it another time.
            return kernel;
        }
        if kernel.is_ok() {
            log::info!("plan `{}` has a compiled kernel for {}", program.plan.name(), constants.dtype.name());
        }
        keep(State::Kernel(kernel.clone()));
        kernel
    }

    /// Returns the kernel that was compiled ahead of time, if there is one that the driver loads.
    fn ahead_of_time(&self, device: &Device, constants: Constants) -> State {
        let shapes = self.shapes.as_ref().map_err(Clone::clone);
        match shapes.and_then(|shapes| source(shapes, constants)) {
            Err(reason) => State::Kernel(Err(reason)),
            Ok(source) => match device.ahead_of_time(&source, write::KERNEL) {
                Ok(Some(kernel)) => State::Kernel(Ok((kernel, KernelTier::AheadOfTime))),
                Ok(None) => State::Absent,
                Err(error) => {
                    log::info!("a kernel that was compiled ahead of time is not used: {error}");
                    State::Absent
                }
            },
        }
    }

    fn source(&self, device: &Device, constants: Constants) -> Result<Source, NotSpecialized> {
        // Checked first, since it is cheap.
        device.compiler().map_err(failed)?;
        source(self.shapes.as_ref().map_err(Clone::clone)?, constants)
    }
}

fn failed(error: Error) -> NotSpecialized {
    NotSpecialized::Failed(Box::new(error))
}

/// Logs why a plan is interpreted; once that there is no compiler.
fn note<T>(program: &ResolvedPlan, kernel: &Result<T, NotSpecialized>) {
    static NO_COMPILER: Once = Once::new();
    let Err(reason) = kernel else { return };
    if let NotSpecialized::Failed(error) = reason
        && let Error::Jit(error) = &**error
        && let JitError::NoCompiler { .. } = **error
    {
        return NO_COMPILER.call_once(|| log::info!("plans are interpreted: {reason}"));
    }
    log::info!("plan `{}` is interpreted: {reason}", program.plan.name());
}

/// Returns the source of a plan's kernel for a message's type and reduction, as
/// [`PrepareOptions::specialize`](super::PrepareOptions::specialize) compiles it for an executor on one device, and for
/// each thread block the number of the function that executes it.
///
/// # Errors
/// [`NotSpecialized::TooLarge`]; [`NotSpecialized::Failed`] if the plan cannot be prepared.
pub fn specialized_source(plan: &Plan, message: Message) -> Result<(Source, Vec<u32>), NotSpecialized> {
    let mut program = resolve(plan).map_err(failed)?;
    elide_own_packets(&mut program);
    let params = Params::new(&program, message, u64::MAX, u64::MAX).map_err(failed)?;
    let numbers: Vec<u32> = (0..program.agents.len() as u32).collect();
    let blocks = Tables::blocks(&program, &numbers, &program.proxies);
    let switched = [(); 2].map(|()| vec![false; program.instrs.len()]);
    let shapes = Shapes::new(&program, &blocks, &switched, MAX_OPERATIONS)?;
    Ok((source(&shapes, Constants::new(&program, &params, false))?, shapes.blocks))
}

/// Generates the source. That of a plan which does not depend on the type, as it combines, normalizes and counts no elements, is the same for all.
fn source(shapes: &Shapes, constants: Constants) -> Result<Source, NotSpecialized> {
    let Constants { dtype, accumulate, reduce, combines } = constants;
    let names = type_names(dtype, accumulate).ok_or(Error::UnsupportedAccumulator { dtype, accumulate });
    let (names, reduce) = match shapes.depend_on_type() {
        true => (names.map_err(failed)?, reduce),
        false => (["uint8_t"; 2], None),
    };
    Ok(write::source(shapes, names, reduce, combines))
}
