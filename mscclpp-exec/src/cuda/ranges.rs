//! Ranges of the instructions that a thread block's cache has first, computed when a plan is prepared for a message.
//!
//! They are in the kernel parameters, so that a launch neither divides nor visits operands before its first operation,
//! and a message of another size needs no other memory. The device computes ranges of later instructions, and all of a
//! launch whose ranges do not fit (`find_runs` in `kernels/executor.h`); the simulator compares the two in each launch.

use super::tables::{cached, lower};
use mscclpp_base::interpret::program::{Instr, Operand, ResolvedPlan};
use mscclpp_base::interpret::{Params, Space};
use mscclpp_cuda::abi;

/// Sets the ranges in the kernel parameters of a device with these thread blocks, if all of them fit.
pub(super) fn fill(program: &ResolvedPlan, params: &Params, blocks: &[abi::Block], launch: &mut abi::LaunchParams) {
    let mut rows = || -> Option<()> {
        let mut used = 0;
        for (block, slot) in blocks.iter().zip(launch.rows.get_mut(..blocks.len())?) {
            let instrs = &program.instrs[block.first as usize..block.end as usize];
            let instrs = &instrs[..instrs.len().min(abi::CACHED_INSTRS as usize)];
            let lowered: Vec<_> = instrs.iter().map(|instr| lower(program, instr)).collect();
            let cached = lowered.first().map_or(0, |_| cached(&lowered)) as usize;
            let ranges = instrs.iter().zip(&lowered).take(cached).map(|pair| range(program, params, pair));
            let row = ranges.collect::<Option<Vec<_>>>()?;
            // Thread blocks whose ranges are equal share them.
            let known = launch.ranges[..used].windows(row.len().max(1)).position(|known| known == row);
            let first = known.unwrap_or(used);
            if known.is_none() {
                launch.ranges.get_mut(used..used + row.len())?.copy_from_slice(&row);
                used += row.len();
            }
            *slot = u8::try_from(first).ok()?;
        }
        Some(())
    };
    launch.has_ranges = rows().is_some().into();
}

/// Returns the range of an instruction; `None` if it does not fit into 32 bits, or the operands not into a cache.
fn range(program: &ResolvedPlan, params: &Params, (instr, lowered): (&Instr, &abi::Instr)) -> Option<abi::ParamRange> {
    let layout = &params.layout;
    if lowered.opcode == abi::Opcode::LOOP {
        let window = layout.window(instr.unit);
        let (start, len) = (u32::try_from(window).ok()?, u32::try_from(layout.trips(instr.count, window)).ok()?);
        return Some(abi::ParamRange { start, len, ..bytemuck::Zeroable::zeroed() });
    }
    let bytes = u64::from(lowered.size).checked_mul(layout.stride)?;
    let (start, len) = layout.slice(bytes, lowered.slice_index, lowered.slice_of);
    let skipped = (instr.srcs - lowered.srcs) as usize;
    let (srcs, dsts) = (&program.srcs(instr)[skipped..], program.dsts(instr));
    if lowered.srcs + lowered.dsts > abi::CACHED_OPERANDS {
        return None;
    }
    let runs = runs(params, start + len, srcs, dsts);
    let (end, low_bits) = runs.unwrap_or_default();
    Some(abi::ParamRange {
        start: start.try_into().ok()?,
        len: len.try_into().ok()?,
        end: end.try_into().ok()?,
        whole: runs.is_some().into(),
        low_bits,
    })
}

/// Returns where operands end of which each is one run, at most at `end`, and the lowest bits of their offsets; `None` if one
/// is not one run.
fn runs(params: &Params, end: u64, srcs: &[Operand], dsts: &[Operand]) -> Option<(u64, u16)> {
    let limit = |operand: &Operand| {
        let area = params.area(0, operand.space);
        let first = u64::from(operand.index).checked_mul(params.layout.stride)?;
        let is_run = area.wrap == 0 && !area.view.is_split();
        let scale = if operand.space == Space::Packets { 2 } else { 1 };
        is_run.then(|| (area.view.len.saturating_sub(first), first.wrapping_mul(scale)))
    };
    let (mut most, mut written, mut offsets) = (end, 0, 0);
    for (operand, is_written) in srcs.iter().map(|src| (src, false)).chain(dsts.iter().map(|dst| (dst, true))) {
        let (limit, offset) = limit(operand)?;
        (most, offsets) = (most.min(limit), offsets | offset);
        if is_written {
            written = written.max(limit);
        }
    }
    // A destination that is longer than a source is filled with zeros, so it is not one run.
    let written = written.min(end);
    (written <= most).then_some((written, (offsets % abi::VECTOR_BYTES) as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::tables::Tables;
    use mscclpp_base::dtype::DataType;
    use mscclpp_base::interpret::resolve;
    use mscclpp_base::message::Message;

    #[test]
    fn ranges_of_up_to_32_bits_are_in_the_parameters() {
        for (count, fits) in [(256, 1), (1 << 30, 1), (1 << 38, 0)] {
            for plan in mscclpp_algorithms::allreduce_all_pairs::algorithm().plans() {
                let program = resolve(plan).expect("it is a plan");
                let message = Message::new(DataType::F32, count).any_size();
                let params = Params::new(&program, message, u64::MAX, u64::MAX).expect("it fits");
                let numbers: Vec<u32> = (0..program.agents.len() as u32).collect();
                let mut launch: abi::LaunchParams = bytemuck::Zeroable::zeroed();
                fill(&program, &params, &Tables::blocks(&program, &numbers, &[]), &mut launch);
                assert_eq!(launch.has_ranges, fits, "{count} elements, {} ranks", plan.num_ranks());
            }
        }
    }
}
