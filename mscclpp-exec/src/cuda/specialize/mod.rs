//! Kernels written for one plan.
//!
//! The interpreter decodes every operation of a plan in every launch. Here the plan is turned into CUDA source in which its operations
//! stand one after the other, with their kinds, counts, slices and reduction as constants; thread blocks that do the same with
//! other chunks and channels share a function. The source is compiled at run time ([`jit`](super::jit)). It calls the device
//! functions that the interpreter calls, and takes the same argument, so that tables, counters, waits, reports and results are
//! the same bit for bit, and both kinds of launches may follow one another. So the host runs the interpreter's kernel wherever a
//! message does not divide into whole vectors ([`vectorizable`]).
//!
//! What is left out of the source are transfers of no chunks and loops without operations. Everything else stands there in the plan's
//! order; where operands and ids are cached, a statement's index leads to those of its operation, in each iteration of a
//! loop. [`validate_kernel`](crate::passes::validate_kernel) reads a source back and compares it with the plan.

mod shape;
mod vectorizable;
mod write;

use std::sync::{Mutex, PoisonError};

use mscclpp_core::plan::Plan;
use thiserror::Error;

use self::shape::Shapes;
pub(super) use self::vectorizable::{VECTOR, is_even};
use super::abi;
use super::device::Device;
use super::jit::{Function, Source, type_names};
use super::prepared_plan::{rooms, threads_of};
use super::switch::{self, Groups};
use super::tables::Tables;
use crate::dtype::DataType;
use crate::error::Error;
use crate::interpret::program::Reductions;
use crate::interpret::{Params, ResolvedPlan, resolve};
use crate::message::Message;
use crate::numeric::AccumType;

/// Most operations of all shapes of a plan. Each costs the compiler some milliseconds, and the device room for instructions.
const MOST_OPERATIONS: usize = 1024;

/// Why a run uses the interpreter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotSpecialized {
    /// Nobody asked for more.
    #[error("no specialized kernel was requested")]
    NotAsked,
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
        /// Thread blocks that were looked at.
        seen: usize,
        /// All of them.
        blocks: usize,
        /// Most operations.
        most: usize,
    },
    /// A plan with an operation that has more operands than a specialised kernel holds.
    #[error("an operation has {sources} sources and {destinations} destinations, expected at most {most} each")]
    TooWide {
        /// Its sources.
        sources: u32,
        /// Its destinations.
        destinations: u32,
        /// Most of each.
        most: u32,
    },
    /// The specialised kernel needs more of the device than the interpreter.
    #[error("{fit} blocks of the specialized kernel are co-resident on the device, expected {blocks}")]
    NotResident {
        /// Blocks of the plan.
        blocks: u32,
        /// Blocks that run at once.
        fit: u32,
    },
    /// It was not compiled or not loaded.
    #[error(transparent)]
    Failed(Box<Error>),
}

/// Kernels that were written for what one device has of a plan, or why there are none.
pub(super) struct Specialised {
    /// The device's thread blocks, and behind them where the tables end.
    agents: Vec<abi::Agent>,
    /// Few, so a list does.
    kernels: Mutex<Vec<(Constants, Result<Function, NotSpecialized>)>>,
}

/// What a kernel depends on beside its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    pub(super) dtype: DataType,
    pub(super) accumulate: AccumType,
    /// Number of the reduction that takes the place of the plan's own.
    pub(super) reduce: Option<u8>,
    /// Whether switches may combine.
    pub(super) combines: bool,
}

impl Constants {
    pub(super) fn new(program: &ResolvedPlan, params: &Params, float_sums: bool) -> Self {
        let Message { dtype, accumulate, .. } = params.message;
        let combines = params.reduction.is_some_and(|op| switch::combines(dtype, accumulate, op, float_sums));
        let reduce = match (program.reductions, params.reduction) {
            (Reductions::Generic, Some(op)) => Some(op as u8),
            _ => None,
        };
        Self { dtype, accumulate, reduce, combines }
    }
}

impl Specialised {
    pub(super) fn new(agents: Vec<abi::Agent>) -> Self {
        Self { agents, kernels: Mutex::default() }
    }

    /// The kernel for a type and reduction, compiled when it is first asked for.
    pub(super) fn kernel(
        &self,
        device: &Device,
        program: &ResolvedPlan,
        groups: &Groups,
        constants: Constants,
    ) -> Result<Function, NotSpecialized> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = kernels.iter().find(|(of, _)| *of == constants) {
            return known.clone();
        }
        let kernel = self.compile(device, program, groups, constants);
        if let Err(reason) = &kernel {
            log::info!("plan `{}` is interpreted: {reason}", program.plan.name());
        }
        kernels.push((constants, kernel.clone()));
        kernel
    }

    fn compile(
        &self,
        device: &Device,
        program: &ResolvedPlan,
        groups: &Groups,
        constants: Constants,
    ) -> Result<Function, NotSpecialized> {
        let failed = |error| NotSpecialized::Failed(Box::new(error));
        // First, since it is cheap.
        device.compiler().map_err(failed)?;
        let module = device
            .module(&source(program, &self.agents, &groups.useful(constants.combines), constants)?)
            .map_err(failed)?;
        let kernel = module.function(write::KERNEL).map_err(failed)?;
        // Like the interpreter, all blocks wait for one another.
        let blocks = self.agents.len() as u32 - 1;
        let threads = threads_of(program, constants.dtype, constants.accumulate);
        let each = device.driver().blocks_per_multiprocessor(kernel.handle, threads);
        let fit = each.map_err(|error| failed(error.into()))? * rooms(device, program);
        if blocks > fit { Err(NotSpecialized::NotResident { blocks, fit }) } else { Ok(kernel) }
    }
}

/// The source of a plan's kernel for a message's type and reduction, as [`Prepare::specialise`](super::Prepare::specialise)
/// compiles it for a world on one device.
///
/// # Errors
/// [`NotSpecialized::TooLarge`]; [`NotSpecialized::Failed`] if the plan cannot be prepared.
pub fn specialized_source(plan: &Plan, message: Message) -> Result<Source, NotSpecialized> {
    let failed = |error| NotSpecialized::Failed(Box::new(error));
    let program = resolve(plan).map_err(failed)?;
    let params = Params::new(&program, message, u64::MAX, u64::MAX).map_err(failed)?;
    let numbers: Vec<u32> = (0..program.agents.len() as u32).collect();
    let agents = Tables::agents(&program, &numbers, &program.proxies);
    let switched = vec![false; program.instrs.len()];
    source(&program, &agents, &switched, Constants::new(&program, &params, false))
}

/// `agents`: thread blocks, and behind them where the tables end. `switched`: operations that may have multicast addresses.
fn source(
    program: &ResolvedPlan,
    agents: &[abi::Agent],
    switched: &[bool],
    constants: Constants,
) -> Result<Source, NotSpecialized> {
    let Constants { dtype, accumulate, reduce, .. } = constants;
    let names = type_names(dtype, accumulate).ok_or_else(|| Error::UnsupportedAccumulator { dtype, accumulate });
    let names = names.map_err(|error| NotSpecialized::Failed(Box::new(error)))?;
    Ok(write::source(&Shapes::new(program, &agents[..agents.len() - 1], switched, MOST_OPERATIONS)?, names, reduce))
}
