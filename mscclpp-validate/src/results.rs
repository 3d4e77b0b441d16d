//! Runs two plans on the same data and compares every element of inputs and outputs.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;

use super::ValidationError;
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_base::message::Message;
use mscclpp_base::random::Random;
use mscclpp_exec::cpu::{Buffers, Executor, PreparedPlan};
use mscclpp_exec::{E4m3, RowNorm};

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
    if plan.collective.rows {
        let message = Message::rows::<f32>(chunks as usize, HIDDEN).any_size();
        let [one, other] = [plan, other].map(|plan| row_results(world.prepare(&Plan::new(plan), message)?));
        return (0..).zip(one?.iter().zip(&other?)).try_for_each(|(rank, (one, other))| one.compare(other, rank));
    }
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

/// Elements of a row: those of a chunk.
const HIDDEN: usize = CHUNK as usize / size_of::<f32>();

/// What a rank of a plan that normalizes rows passes and has.
struct RankRows {
    input: Vec<f32>,
    output: Vec<f32>,
    residual: Vec<f32>,
    quantized: Vec<E4m3>,
    scales: Vec<f32>,
}

impl RankRows {
    /// Fails where another plan has written something else.
    fn compare(&self, other: &Self, rank: u32) -> Result<(), ValidationError> {
        let floats = |rows: &Self| [&rows.input, &rows.output, &rows.residual, &rows.scales].map(|list| to_bytes(list));
        let quantized = |rows: &Self| rows.quantized.iter().map(|value| value.0).collect::<Vec<u8>>();
        let lists = floats(self).into_iter().chain([quantized(self)]);
        let others = floats(other).into_iter().chain([quantized(other)]);
        for (buffer, (one, other)) in
            ["input", "output", "residual", "scales", "quantized rows"].into_iter().zip(lists.zip(others))
        {
            if let Some(byte) = one.iter().zip(&other).position(|(one, other)| one != other) {
                return Err(ValidationError::Results { rank, buffer, byte });
            }
        }
        Ok(())
    }
}

fn to_bytes(list: &[f32]) -> Vec<u8> {
    list.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns what the ranks have after two consecutive launches, of which the second one adds the sums of the first.
fn row_results(mut run: PreparedPlan) -> Result<Vec<RankRows>, Error> {
    let mut random = Random(1);
    let mut list = |len: usize| (0..len).map(|_| (random.next() % 256) as f32 - 128.0).collect::<Vec<f32>>();
    let (input, output) = (run.input_len(), run.output_len());
    let is_in_place = run.collective().in_place;
    let own = if run.collective().kind == CollectiveKind::AllGather { input } else { output };
    let mut ranks: Vec<RankRows> = (0..run.num_ranks())
        .map(|_| RankRows {
            input: list(if is_in_place { input.max(output) } else { input }),
            output: list(if is_in_place { 0 } else { output }),
            residual: list(own),
            quantized: vec![E4m3(0); own],
            scales: vec![0.0; own / HIDDEN],
        })
        .collect();
    for _ in 0..2 {
        let (mut inputs, mut outputs, mut norms) = (Vec::new(), Vec::new(), Vec::new());
        for RankRows { input, output, residual, quantized, scales } in &mut ranks {
            norms.push(RowNorm::new(1e-6).residual_in_place(residual).quantized_by_row(quantized, scales));
            inputs.push(&mut input[..]);
            outputs.push(&mut output[..]);
        }
        match is_in_place {
            true => run.launch_rows_in_place(&mut inputs, norms)?,
            false => run.launch_rows(&inputs, &mut outputs, norms)?,
        }
    }
    Ok(ranks)
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
