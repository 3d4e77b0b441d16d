//! The messages that specialized kernels support.

use mscclpp_base::interpret::Params;
use mscclpp_base::interpret::program::{Operand, ResolvedPlan, Space};

pub(in crate::cuda) use mscclpp_cuda::abi::VECTOR_BYTES as VECTOR;

/// Returns whether all operands of a plan's operations consist of whole vectors, without padding, if inputs and outputs
/// begin at multiples of [`VECTOR`], as all other memory does.
pub(in crate::cuda) fn is_even(program: &ResolvedPlan, params: &Params) -> bool {
    let stride = params.layout.stride;
    let is_whole = |operand: &Operand, size: u32| {
        let area = params.area(operand.rank, operand.space);
        let end = (u64::from(operand.index) + u64::from(size)).saturating_mul(stride);
        operand.space == Space::Packets || area.wrap == 0 && !area.view.is_split() && end <= area.view.len
    };
    // Every boundary is a multiple of the unit.
    takes_any_alignment(program)
        || params.layout.unit.is_multiple_of(VECTOR)
            && program.instrs.iter().filter(|instr| instr.counted.is_none()).all(|instr| {
                let (srcs, dsts) = (program.srcs(instr), program.dsts(instr));
                let size = srcs.first().map_or(0, |src| src.size);
                srcs.iter().chain(dsts).all(|operand| is_whole(operand, size))
            })
}

/// Returns whether buffers may begin at any address: all data is counted, and counted copies take any alignment.
pub(in crate::cuda) fn takes_any_alignment(program: &ResolvedPlan) -> bool {
    program.is_counted && program.instrs.iter().all(|instr| instr.counted.is_some() || instr.srcs == 0)
}
