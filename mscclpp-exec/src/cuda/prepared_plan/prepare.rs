//! Prepares a plan: its kernels, and their parameters without the buffers.

use std::sync::Arc;

use super::{Part, PreparedPlan, nanoseconds};
use crate::cuda::addresses::Tables;
use crate::cuda::executor::{Inner, PrepareOptions};
use crate::cuda::ipc::IpcGroup;
use crate::cuda::plan_state;
use crate::cuda::plan_state::PlanState;
use crate::cuda::specialize::{Constants, NotSpecialized, is_even, takes_any_alignment};
use crate::process::describe;
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_base::interpret::program::Instr;
use mscclpp_base::interpret::{Block, Operand, Params, ResolvedPlan, Space};
use mscclpp_base::kernel_tier::KernelTier;
use mscclpp_base::message::Message;
use mscclpp_base::numeric::AccumType;
use mscclpp_cuda::abi;
use mscclpp_cuda::device::{Device, Kernels};
use mscclpp_cuda::driver::Handle;
use mscclpp_cuda::unused::Unused;

/// Returns the number of multiprocessors that thread blocks of a launch may occupy. The driver may clear and copy
/// memory by its own kernels, and thread blocks wait for data that goes through port channels: one multiprocessor is
/// reserved for the driver.
fn available_multiprocessors(device: &Device, program: &ResolvedPlan) -> u32 {
    device.properties().multiprocessors - u32::from(!program.proxies.is_empty())
}

/// Returns the number of CUDA threads of a thread block: the plan's number, limited by registers.
fn threads_of(program: &ResolvedPlan, dtype: DataType, accumulate: AccumType) -> u32 {
    let wide = accumulate.is_wider_than(dtype);
    program.plan.threads_per_block().min(if wide { abi::MAX_THREADS_WIDE } else { abi::MAX_THREADS })
}

/// Rejects a kernel of which not all thread blocks of a device are co-resident.
pub(in crate::cuda) fn check_co_resident(
    world: &Inner,
    program: &ResolvedPlan,
    part: &plan_state::DevicePlanState,
    kernel: Handle,
    threads: u32,
) -> Result<(), Error> {
    let device = &part.tables.device;
    // The thread blocks of other processes' ranks on the same device must be co-resident too.
    let ranks_on_device = |group: &IpcGroup| {
        let on = |rank| program.agents.iter().filter(|code| code.rank == rank).count();
        group.ranks_on_device().map(on).sum()
    };
    let blocks = world.group.as_ref().map_or(part.tables.numbers.len(), ranks_on_device) as u32;
    let each = device.driver().blocks_per_multiprocessor(kernel, threads)?;
    let fit = each * available_multiprocessors(device, program);
    if blocks > fit {
        let (plan, device) = (program.plan.name().to_owned(), device.label());
        return Err(Error::NotCoResident { plan, device, blocks, threads, fit });
    }
    Ok(())
}

/// Returns the kernels of a message, by device.
///
/// # Errors
/// [`Error::NotCoResident`] if not all thread blocks of a device are co-resident.
fn kernels(world: &Inner, context: &PlanState, message: &Message) -> Result<Vec<Kernels>, Error> {
    let program = &context.program;
    let threads = threads_of(program, message.dtype, message.accumulate);
    let of_part = |part: &plan_state::DevicePlanState| {
        let device = &part.tables.device;
        let kernels = device.kernels(message.dtype, message.accumulate)?;
        check_co_resident(world, program, part, kernels.execute, threads)?;
        Ok(kernels)
    };
    context.parts.iter().map(of_part).collect()
}

/// Returns the specialized kernels of a message, by device: all devices use them or none does.
fn specialized(
    world: &Inner,
    context: &PlanState,
    message: &Message,
    constants: Constants,
    prepare: PrepareOptions,
) -> Result<Vec<(Handle, KernelTier)>, NotSpecialized> {
    if !prepare.specialize {
        return Err(NotSpecialized::NotRequested);
    }
    let program = &context.program;
    let threads = threads_of(program, message.dtype, message.accumulate);
    let of_part = |part: &plan_state::DevicePlanState| {
        let tables = &part.tables;
        let (kernel, tier) = tables.specialized.kernel(&tables.device, program, constants, prepare.compile)?;
        match check_co_resident(world, program, part, kernel.handle, threads) {
            Ok(()) => Ok((kernel.handle, tier)),
            Err(Error::NotCoResident { blocks, fit, .. }) => Err(NotSpecialized::NotResident { blocks, fit }),
            Err(error) => Err(NotSpecialized::Failed(Box::new(error))),
        }
    };
    context.parts.iter().map(of_part).collect()
}

/// Returns whether no operation accesses the input or output of another rank than its own.
fn accesses_own_buffers_only(program: &ResolvedPlan) -> bool {
    let instrs = |block: &Block| &program.instrs[block.start as usize..block.end as usize];
    let is_own = |block: &Block, operand: &Operand| operand.rank == block.rank || !operand.space.is_callers();
    let operands = |instr: &Instr| program.srcs(instr).iter().chain(program.dsts(instr));
    // Proxies transfer from memory that is registered for them, or from scratch.
    let are_from_scratch = |instr: &Instr| !instr.action.is_port() || operands(instr).all(|of| !of.space.is_callers());
    (program.proxies.is_empty() || program.is_counted && program.instrs.iter().all(are_from_scratch))
        && program
            .agents
            .iter()
            .all(|block| instrs(block).iter().all(|instr| operands(instr).all(|operand| is_own(block, operand))))
}

impl PreparedPlan {
    pub(in crate::cuda) fn new(
        world: Arc<Inner>,
        context: Arc<PlanState>,
        params: Params,
        prepare: PrepareOptions,
    ) -> Result<Self, Error> {
        let (program, message) = (&context.program, &params.message);
        let threads = threads_of(program, message.dtype, message.accumulate);
        let floats = world.options.in_switch_floats || prepare.in_switch_floats;
        let constants = Constants::new(program, &params, floats);
        // Before the ranks agree: to load a kernel may wait for all work of the device, and no rank has launched this plan yet.
        let written = specialized(&world, &context, message, constants, prepare);
        let kernels = world.agree(
            &format!("prepare of {}", describe(&program.plan, message, message.dtype.into())),
            kernels(&world, &context, message),
        )?;
        context.grow_scratch(&world, params.scratch)?;
        let area = |space| params.area(0, space);
        let view = |space| {
            let view = &area(space).view;
            abi::View { len: view.len, part: view.part(), padded: view.padded() }
        };
        let mut launch: abi::LaunchParams = bytemuck::Zeroable::zeroed();
        launch.timeout_ns = nanoseconds(world.timeout);
        launch.stride = params.layout.stride;
        launch.unit = params.layout.unit;
        launch.wrap = area(Space::Scratch).wrap;
        launch.len_scratch = area(Space::Scratch).view.len;
        launch.len_packets = area(Space::Packets).view.len;
        launch.input = view(Space::Input);
        launch.output = view(Space::Output);
        launch.divisor = program.shape.ranks.max(1);
        launch.reduce = constants.reduce.map_or(abi::PLAN_REDUCTIONS, |reduction| reduction.0.into());
        launch.floats_by_switch = u32::from(floats);
        let even = prepare.specialize && is_even(program, &params);
        let sides = (0..world.ranks)
            .map(|rank| {
                [Space::Input, Space::Output].map(|space| {
                    let area = params.area(rank, space);
                    (area.slice as usize % 4, area.base)
                })
            })
            .collect();
        let (mut parts, ranks) = (Vec::with_capacity(kernels.len()), world.ranks);
        for (at, ((&number, part), kernels)) in world.numbers.iter().zip(&context.parts).zip(kernels).enumerate() {
            let mut launch = launch;
            part.fill(&context, &params, &mut launch);
            launch.scratch = context.scratch_table(at);
            let written = written.as_ref().ok().filter(|_| even).map(|written| written[at].0);
            let is_divided = |rank: u32| params.divide.is_some() && params.result(program, rank).is_some();
            let here = (0..ranks).filter(|&rank| world.device_of[rank as usize] == number);
            let divided = here.filter(|&rank| is_divided(rank)).collect();
            parts.push(Part {
                execute: kernels.execute,
                written,
                divide: kernels.divide,
                launch,
                divided,
                recording: None,
            });
        }
        let least = |written: Vec<(_, KernelTier)>| written.into_iter().map(|(_, tier)| tier).min();
        let specialized = written.map(|written| least(written).unwrap_or_default());
        let bases = Vec::with_capacity(2 * ranks as usize);
        let own_buffers_only = accesses_own_buffers_only(program);
        let (tables, unused) = (Tables::default(), Unused::default());
        let places = context.scratch_places();
        let takes_any_alignment = takes_any_alignment(&context.program);
        Ok(Self {
            world,
            context,
            params,
            specialized,
            threads,
            places,
            placed: 0,
            is_captured: None,
            own_buffers_only,
            parts,
            sides,
            bases,
            counts: Vec::new(),
            takes_any_alignment,
            tables,
            unused,
        })
    }
}
