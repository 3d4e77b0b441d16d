//! Calls that move data without changing it.

use mscclpp_exec::{Communicator, with_type};

use super::memory::{Staging, concatenate, divide, read, written};
use crate::failure::Failure;
use crate::tensor::View;

pub(super) fn all_gather(
    comm: &Communicator,
    input: &View,
    output: &View,
    staging: &mut Staging,
) -> Result<(), Failure> {
    // In place on all ranks: each rank decides on its own where its input is, and their calls have one form.
    if input.bytes.checked_mul(comm.num_ranks() as usize) == Some(output.bytes) {
        let own = View { address: output.address + comm.rank() as usize * input.bytes, bytes: input.bytes, ..*output };
        if input.overlaps(&own) && input.address != own.address {
            let copy = staging.bytes(input.bytes)?;
            copy.copy_from_slice(read(input));
            written::<u8>(&own).copy_from_slice(copy);
        } else if input.address != own.address {
            written::<u8>(&own).copy_from_slice(read(input));
        }
        with_type!(output.kind.moved().0, T => comm.all_gather_in_place::<T>(written(output)))?;
        return Ok(());
    }
    // The call reports the lengths.
    with_type!(output.kind.moved().0, T => comm.all_gather::<T>(read(input), written(output)))?;
    Ok(())
}

pub(super) fn all_gather_list(
    comm: &Communicator,
    input: &View,
    outputs: &[View],
    staging: &mut Staging,
) -> Result<(), Failure> {
    if outputs.iter().all(|output| output.bytes == input.bytes) {
        let all = staging.bytes(input.bytes * outputs.len())?;
        with_type!(input.kind.moved().0, T => comm.all_gather::<T>(read(input), bytemuck::cast_slice_mut(all)))?;
        divide(all, outputs);
        return Ok(());
    }
    // All ranks have the same lengths, each rank's own one.
    for (root, output) in (0..).zip(outputs) {
        if root == comm.rank() && output.address != input.address {
            let own = staging.bytes(input.bytes)?;
            own.copy_from_slice(read(input));
            written::<u8>(output).copy_from_slice(own);
        }
        comm.broadcast_in_place::<u8>(written(output), root)?;
    }
    Ok(())
}

pub(super) fn all_to_all(
    comm: &Communicator,
    input: &View,
    output: &View,
    staging: &mut Staging,
) -> Result<(), Failure> {
    with_type!(output.kind.moved().0, T => {
        // Not in place: each rank decides on its own where its input is, and their calls have one form.
        if input.overlaps(output) {
            let copy = staging.bytes(input.bytes)?;
            copy.copy_from_slice(read(input));
            comm.all_to_all::<T>(bytemuck::cast_slice(copy), written(output))
        } else {
            comm.all_to_all::<T>(read(input), written(output))
        }
    })?;
    Ok(())
}

pub(super) fn all_to_all_list(
    comm: &Communicator,
    inputs: &[View],
    outputs: &[View],
    staging: &mut Staging,
) -> Result<(), Failure> {
    let all = staging.bytes(inputs.iter().map(|input| input.bytes).sum())?;
    concatenate(inputs, all);
    let counts: Vec<usize> = inputs.iter().map(|input| input.bytes).collect();
    let expected: Vec<usize> = outputs.iter().map(|output| output.bytes).collect();
    let received = comm.all_to_all_v_checked::<u8>(all, &counts, &expected)?;
    divide(&received.elements, outputs);
    Ok(())
}
