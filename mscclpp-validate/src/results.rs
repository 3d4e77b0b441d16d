//! Runs two plans on the same data and compares every element of inputs and outputs.

use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;

use super::ValidationError;
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_base::message::Message;
use mscclpp_base::random::Random;
use mscclpp_exec::cpu::{Buffers, Executor, PreparedPlan};

/// Bytes of a chunk: two vectors, so that more than one thread moves each slice of a chunk.
const CHUNK: u64 = 32;

/// Maximum number of bytes of all buffers of a plan that is run.
const MOST_BYTES: u64 = 1 << 26;

/// Fails where one of two plans for the same collective has other results. Plans with very many chunks are not run.
pub(super) fn compare(plan: &PlanTree, other: &PlanTree) -> Result<(), ValidationError> {
    let Some(rank) = plan.ranks.first() else { return Ok(()) };
    let chunks = u64::from(rank.input_chunks.max(rank.output_chunks));
    let all = other.ranks.iter().map(|rank| chunks.saturating_add(rank.scratch_chunks.into()));
    if all.fold(0, u64::saturating_add).saturating_mul(CHUNK) > MOST_BYTES {
        return Ok(());
    }
    let count = chunks * CHUNK / DataType::I32.size() as u64;
    let world = Executor::new(plan.ranks.len() as u32);
    let [one, other] = [plan, other].map(|plan| {
        let run = world.prepare(&Plan::new(plan), Message::new(DataType::I32, count).any_size())?;
        results(run)
    });
    let (one, other) = (one?, other?);
    for rank in 0..one.num_ranks() {
        let parts = [("input", one.input(rank), other.input(rank)), ("output", one.output(rank), other.output(rank))];
        for (buffer, one, other) in parts {
            if let Some(byte) = one.iter().zip(other).position(|(one, other)| one != other) {
                return Err(ValidationError::Results { rank, buffer, byte });
            }
        }
    }
    Ok(())
}

/// Returns the buffers after two consecutive launches.
fn results(mut run: PreparedPlan) -> Result<Buffers, Error> {
    let mut random = Random(1);
    let mut buffers = run.buffers()?;
    for rank in 0..run.num_ranks() {
        buffers.output_mut(rank).fill_with(|| random.next() as u8);
        buffers.input_mut(rank).fill_with(|| random.next() as u8);
    }
    for _ in 0..2 {
        run.launch_buffers(&mut buffers)?;
    }
    Ok(buffers)
}
