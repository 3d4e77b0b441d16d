//! Calls that reduce.

use mscclpp_communicator::Communicator;
use mscclpp_exec::{Error, with_type};

use super::memory::{Staging, concatenate, divide, read, written};
use crate::failure::Failure;
use crate::fold::fold;
use crate::gloo_order;
use crate::operator::Operator;
use crate::tensor::View;

/// Bytes that the ranks gather at a time for a reduction that they make themselves.
const FOLDED_BYTES: usize = 16 << 20;

pub(super) fn all_reduce(
    comm: &Communicator,
    tensor: &View,
    operator: Operator,
    staging: &mut Staging,
) -> Result<(), Failure> {
    all_reduce_bytes(comm, written(tensor), operator, staging)
}

fn all_reduce_bytes(
    comm: &Communicator,
    bytes: &mut [u8],
    operator: Operator,
    staging: &mut Staging,
) -> Result<(), Failure> {
    match operator {
        Operator::Plain(op, dtype) => {
            with_type!(dtype, T => comm.all_reduce_in_place::<T>(bytemuck::cast_slice_mut(bytes), op))?;
        }
        Operator::Fold(..) => {
            let piece = (FOLDED_BYTES / comm.num_ranks() as usize / 16).max(1) * 16;
            for part in bytes.chunks_mut(piece) {
                let all = staging.bytes(part.len() * comm.num_ranks() as usize)?;
                comm.all_gather::<u8>(part, all)?;
                folded(operator, all, part)?;
            }
        }
    }
    Ok(())
}

/// All-reduces each tensor of a list. Where gloo's order of additions is followed, the tensors are joined to one message, as gloo joins
/// them.
pub(super) fn all_reduce_list(
    comm: &Communicator,
    tensors: &[View],
    operator: Operator,
    staging: &mut Staging,
) -> Result<(), Failure> {
    match operator {
        Operator::Plain(op, dtype) if tensors.len() > 1 && gloo_order::has_order(comm, op, dtype) => {
            check_lengths(comm, tensors)?;
            let all = staging.bytes(tensors.iter().map(|tensor| tensor.bytes).sum())?;
            concatenate(tensors, all);
            with_type!(dtype, T => comm.all_reduce_in_place::<T>(bytemuck::cast_slice_mut(all), op))?;
            divide(all, tensors);
            Ok(())
        }
        _ => tensors.iter().try_for_each(|tensor| all_reduce(comm, tensor, operator, staging)),
    }
}

/// Checks that all ranks have tensors of the same lengths, which a joined message does not show.
///
/// # Errors
/// A mismatch, the same on all ranks. The communicator can still be used.
fn check_lengths(comm: &Communicator, tensors: &[View]) -> Result<(), Failure> {
    // FNV-1a.
    let mix = |hash: u64, tensor: &View| (hash ^ tensor.bytes as u64).wrapping_mul(0x0000_0100_0000_01b3);
    let own = tensors.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    let mut all = vec![0; comm.num_ranks() as usize];
    comm.all_gather::<u64>(&[own], &mut all)?;
    let Some(rank) = all.iter().position(|hash| *hash != all[0]) else { return Ok(()) };
    let reason = format!("expected a list of tensors of the same lengths as on rank 0, found others on rank {rank}");
    let message = format!("{reason}; pass the same number of tensors and of elements on all ranks");
    Err(Failure::of_kind("mismatch", "all_reduce_coalesced", message).with_cause(rank as u32, reason))
}

/// Reduces what was gathered.
fn folded(operator: Operator, all: &[u8], result: &mut [u8]) -> Result<(), Failure> {
    match operator {
        Operator::Fold(op, kind) => fold(op, kind, all, result),
        Operator::Plain(op, _) => Err(Error::Internal(format!("{op} is a reduction of the algorithms")).into()),
    }
}

pub(super) fn reduce(
    comm: &Communicator,
    tensor: &View,
    operator: Operator,
    root: u32,
    staging: &mut Staging,
) -> Result<(), Failure> {
    match operator {
        Operator::Plain(op, dtype) if gloo_order::has_order(comm, op, dtype) => {
            let result = staging.bytes(gloo_order::reduced_bytes(tensor.bytes, comm.num_ranks()))?;
            let (elements, padding) = result.split_at_mut(tensor.bytes);
            elements.copy_from_slice(read(tensor));
            padding.fill(0);
            with_type!(dtype, T => comm.all_reduce_in_place::<T>(bytemuck::cast_slice_mut(result), op))?;
            if comm.rank() == root {
                written::<u8>(tensor).copy_from_slice(&result[..tensor.bytes]);
            }
        }
        Operator::Plain(op, dtype) => {
            with_type!(dtype, T => comm.reduce_in_place::<T>(written(tensor), op, root))?;
        }
        Operator::Fold(..) => {
            let piece = (FOLDED_BYTES / comm.num_ranks() as usize / 16).max(1) * 16;
            for part in written::<u8>(tensor).chunks_mut(piece) {
                let all = staging.bytes(part.len() * comm.num_ranks() as usize)?;
                comm.all_gather::<u8>(part, all)?;
                if comm.rank() == root {
                    folded(operator, all, part)?;
                }
            }
        }
    }
    Ok(())
}

/// Reduces the parts of `input`, which are one after the other.
pub(super) fn reduce_scatter(
    comm: &Communicator,
    input: &[u8],
    output: &View,
    operator: Operator,
    overlaps: bool,
    staging: &mut Staging,
) -> Result<(), Failure> {
    match operator {
        Operator::Plain(op, dtype) if gloo_order::has_order(comm, op, dtype) => {
            let result = staging.bytes(input.len())?;
            with_type!(dtype, T => comm.all_reduce::<T>(bytemuck::cast_slice(input), bytemuck::cast_slice_mut(result), op))?;
            let part = comm.rank() as usize * output.bytes;
            written::<u8>(output).copy_from_slice(&result[part..part + output.bytes]);
        }
        Operator::Plain(op, dtype) if overlaps => {
            // The parts of the input that are no output stay as they are.
            let result = staging.bytes(output.bytes)?;
            with_type!(dtype, T => comm.reduce_scatter::<T>(bytemuck::cast_slice(input), bytemuck::cast_slice_mut(result), op))?;
            written::<u8>(output).copy_from_slice(result);
        }
        Operator::Plain(op, dtype) => {
            with_type!(dtype, T => comm.reduce_scatter::<T>(bytemuck::cast_slice(input), written(output), op))?;
        }
        Operator::Fold(..) => {
            let all = staging.bytes(input.len())?;
            comm.all_to_all::<u8>(input, all)?;
            folded(operator, all, written(output))?;
        }
    }
    Ok(())
}

/// Reduces the tensors r of all ranks, and writes the result to the output of rank r. Lengths may differ between ranks r.
pub(super) fn reduce_scatter_list(
    comm: &Communicator,
    inputs: &[View],
    output: &View,
    operator: Operator,
    staging: &mut Staging,
) -> Result<(), Failure> {
    let has_order = matches!(operator, Operator::Plain(op, dtype) if gloo_order::has_order(comm, op, dtype));
    let mut whole = Staging::default();
    if has_order || inputs.iter().any(|input| input.bytes != output.bytes) {
        let longest = inputs.iter().map(|input| input.bytes).max().unwrap_or_default();
        let (result, part) = whole.bytes(output.bytes + longest)?.split_at_mut(output.bytes);
        for (rank, input) in (0..).zip(inputs) {
            let part = &mut part[..input.bytes];
            part.copy_from_slice(read(input));
            all_reduce_bytes(comm, part, operator, staging)?;
            if rank == comm.rank() {
                result.copy_from_slice(part);
            }
        }
        // Last, because it may be one of the inputs.
        written::<u8>(output).copy_from_slice(result);
        return Ok(());
    }
    let bytes = whole.bytes(inputs.iter().map(|input| input.bytes).sum())?;
    concatenate(inputs, bytes);
    reduce_scatter(comm, bytes, output, operator, false, staging)
}
