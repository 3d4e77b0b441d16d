//! Calls that move data without changing it.

use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::{DataType, Error, with_type};

use super::memory::{Staging, concatenate, copied, divide, read, written};
use crate::failure::Failure;
use crate::tensor::View;

pub(super) fn all_gather(
    comm: &Communicator,
    input: &View,
    output: &View,
    staging: &mut Staging,
) -> Result<(), Failure> {
    let own = View { address: output.address + comm.rank() as usize * input.bytes, bytes: input.bytes, ..*output };
    // The call reports other lengths.
    let is_whole = input.bytes.checked_mul(comm.num_ranks() as usize) == Some(output.bytes);
    let is_own = input.address == own.address;
    let in_place = is_whole && form(comm, CollectiveKind::AllGather, output, is_own)?;
    let input = input_of(input, &own, output, in_place, staging)?;
    with_type!(output.kind.moved().0, T => match in_place {
        true => comm.all_gather_in_place::<T>(written(output)),
        false => comm.all_gather::<T>(read(&input), written(output)),
    })?;
    Ok(())
}

/// Returns whether a call is made in place, as on all ranks: each decides on its own where its input is.
pub(super) fn form(comm: &Communicator, kind: CollectiveKind, output: &View, in_place: bool) -> Result<bool, Error> {
    comm.agree_in_place(&comm.request_of(kind, DataType::U8, output.bytes as u64), in_place)
}

/// Returns the input of a call that is made in place, where it is `own`, or is not, where it must not be in the output. Copies it if it is
/// elsewhere.
pub(super) fn input_of(
    input: &View,
    own: &View,
    output: &View,
    in_place: bool,
    staging: &mut Staging,
) -> Result<View, Error> {
    let is_own = in_place && input.address == own.address;
    if is_own || !in_place && !input.overlaps(output) {
        return Ok(*input);
    }
    let copied = if input.overlaps(output) { copied(input, staging)? } else { *input };
    if !in_place {
        return Ok(copied);
    }
    written::<u8>(own).copy_from_slice(read(&copied));
    Ok(*own)
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
    let (is_whole, is_own) = (input.bytes == output.bytes, input.address == output.address);
    let in_place = is_whole && form(comm, CollectiveKind::AllToAll, output, is_own)?;
    let input = input_of(input, output, output, in_place, staging)?;
    with_type!(output.kind.moved().0, T => match in_place {
        true => comm.all_to_all_in_place::<T>(written(output)),
        false => comm.all_to_all::<T>(read(&input), written(output)),
    })?;
    Ok(())
}

pub(super) fn all_to_all_list(
    comm: &Communicator,
    inputs: &[View],
    outputs: &[View],
    staging: &mut Staging,
) -> Result<(), Failure> {
    let bytes = |views: &[View]| views.iter().map(|view| view.bytes).collect::<Vec<_>>();
    let (counts, expected) = (bytes(inputs), bytes(outputs));
    let overlaps = inputs.iter().any(|input| outputs.iter().any(|output| input.overlaps(output)));
    let (source, target) = (joined(inputs).filter(|_| !overlaps), joined(outputs));
    let all = staging.bytes(counts.iter().chain(&expected).sum())?;
    let (sent, received) = all.split_at_mut(counts.iter().sum());
    if source.is_none() {
        concatenate(inputs, sent);
    }
    let sent: &[u8] = match &source {
        Some(source) => read(source),
        None => sent,
    };
    match target {
        Some(target) => drop(comm.all_to_all_v_into::<u8>(sent, &counts, written(&target), Some(&expected))?),
        None => {
            comm.all_to_all_v_into::<u8>(sent, &counts, received, Some(&expected))?;
            divide(received, outputs);
        }
    }
    Ok(())
}

/// Returns views that follow each other as one.
fn joined(views: &[View]) -> Option<View> {
    let first = *views.iter().find(|view| view.bytes > 0)?;
    views.iter().filter(|view| view.bytes > 0).try_fold(View { bytes: 0, ..first }, |all, view| {
        (all.address + all.bytes == view.address).then_some(View { bytes: all.bytes + view.bytes, ..all })
    })
}

/// Sends to each rank as many rows as `sent` has for it, and writes to `received` how many rows the ranks have sent, then, if it is twice as
/// long, where they begin.
pub(super) fn all_to_all_rows(
    comm: &Communicator,
    [input, output]: [&View; 2],
    [sent, received]: [&View; 2],
    elements: usize,
    staging: &mut Staging,
) -> Result<(), Failure> {
    let (dtype, lanes) = input.kind.moved();
    let row = elements * lanes;
    let rows: &[i64] = read(sent);
    let count = |rows: &i64| usize::try_from(*rows).ok()?.checked_mul(row);
    let counts: Option<Vec<usize>> = rows.iter().map(count).collect();
    let counts = counts.unwrap_or_default();
    let total = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
    let Some(total) = total.filter(|total| counts.len() == rows.len() && *total <= input.count() * lanes) else {
        let most = input.count() * lanes / row.max(1);
        let message =
            format!("expected sizes of the input of at least 0, with a sum of at most {most}, found {rows:?}");
        return Err(Failure::invalid("all_to_all_single", message));
    };
    let source = if input.overlaps(output) { copied(input, staging)? } else { *input };
    let counts = with_type!(dtype, T => {
        comm.all_to_all_v_into::<T>(&read(&source)[..total], &counts, written(output), None)
    })?;
    let (sizes, places) = written::<i64>(received).split_at_mut(counts.len());
    let mut begin = 0;
    for (number, count) in counts.into_iter().enumerate() {
        sizes[number] = (count / row.max(1)) as i64;
        if let Some(place) = places.get_mut(number) {
            *place = begin;
        }
        begin += sizes[number];
    }
    Ok(())
}
