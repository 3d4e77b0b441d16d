//! Comparison of the postconditions of rotated ranks with those of the representatives.

use super::super::place::canonical_buffer;
use super::chunks::Chunks;
use crate::space::Space;
use mscclpp_plan::collective::{ChunkCounts, CollectiveKind, OutputContent};
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::BufferKind;

/// The chunks of all inputs and outputs, by the numbers at the representatives.
pub(super) struct Renumbering {
    own: u32,
    extent: ChunkCounts,
    /// Per rank and chunk.
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    fuel: u64,
}

/// The number of a chunk without accesses.
pub(super) const UNKNOWN: u32 = u32::MAX;

impl Renumbering {
    /// Prepares the comparison for a plan. `None` if that would take more than `fuel`, or its collective has no
    /// postconditions that can be rotated.
    pub(super) fn new(plan: &PlanTree, own: u32, fuel: u64) -> Option<Self> {
        use CollectiveKind as K;
        if !matches!(
            plan.collective.kind,
            K::AllReduce | K::AllGather | K::ReduceScatter | K::AllToAll | K::AllToAllV | K::SendRecv
        ) {
            return None;
        }
        let tables = plan.ranks.first()?;
        let ranks = plan.ranks.len() as u32;
        let extent =
            ChunkCounts { num_ranks: ranks, input: tables.input_chunks, output: tables.output_chunks, distance: 1 };
        let chunks = u64::from(extent.input) + u64::from(extent.output);
        if chunks.checked_mul(ranks.into())? > fuel {
            return None;
        }
        let alike = |rank: &&mscclpp_plan::raw::RankPlan| {
            (rank.input_chunks, rank.output_chunks) == (extent.input, extent.output)
        };
        if !plan.ranks[..own as usize].iter().all(|rank| alike(&rank)) {
            return None;
        }
        let names = |chunks: u32| (0..own).flat_map(|_| 0..chunks).collect::<Vec<_>>();
        let (mut inputs, mut outputs) = (names(extent.input), names(extent.output));
        inputs.resize(ranks as usize * extent.input as usize, UNKNOWN);
        outputs.resize(ranks as usize * extent.output as usize, UNKNOWN);
        Some(Self { own, extent, inputs, outputs, fuel })
    }

    /// Records the numbers of the chunks of a rank that is rotated from a representative.
    pub(super) fn note(&mut self, plan: &PlanTree, chunks: &Chunks, own: u32, rank: u32) {
        let ChunkCounts { input, output, .. } = self.extent;
        for (kind, count, names) in
            [(BufferKind::Input, input, &mut self.inputs), (BufferKind::Output, output, &mut self.outputs)]
        {
            let (_, first) = canonical_buffer(plan, own, kind, 0);
            for (chunk, name) in (0..count).zip(&mut names[rank as usize * count as usize..]) {
                let (buffer, place) = canonical_buffer(plan, rank, kind, chunk);
                let number = chunks.get(Space::of(buffer, false), place);
                *name =
                    number.and_then(|number| number.checked_sub(first)).filter(|name| *name < count).unwrap_or(UNKNOWN);
            }
        }
    }

    pub(super) fn input(&self, rank: u32, chunk: u32) -> u32 {
        self.inputs[rank as usize * self.extent.input as usize + chunk as usize]
    }

    /// Returns the numbers of inputs and outputs, by rank and chunk, and the chunks of each.
    pub(super) fn tables(&self) -> (&[u32], &[u32], (usize, usize)) {
        (&self.inputs, &self.outputs, (self.extent.input as usize, self.extent.output as usize))
    }

    pub(super) fn keeps_inputs(&self) -> bool {
        self.inputs
            .chunks(self.extent.input.max(1) as usize)
            .all(|chunks| (0..).zip(chunks).all(|(chunk, name)| chunk == *name))
    }

    /// Returns whether every rank has the postconditions of its representative, chunk by chunk.
    pub(super) fn hold(&mut self, plan: &PlanTree) -> bool {
        let ChunkCounts { num_ranks: ranks, output, .. } = self.extent;
        // The required contents of an output chunk of a representative: postconditions are in ascending order and may
        // span chunks.
        let required = |rank: u32| {
            let mut chunks = vec![None; output as usize];
            for postcondition in plan.collective.postconditions(self.extent, rank) {
                for i in 0..postcondition.len {
                    let content = match postcondition.content {
                        OutputContent::Input { rank, chunk } => OutputContent::Input { rank, chunk: chunk + i },
                        OutputContent::Reduction { chunk } => OutputContent::Reduction { chunk: chunk + i },
                        OutputContent::Normalized { chunk } => OutputContent::Normalized { chunk: chunk + i },
                        OutputContent::NormalizedInput { rank, chunk } => {
                            OutputContent::NormalizedInput { rank, chunk: chunk + i }
                        }
                    };
                    if let Some(place) = chunks.get_mut((postcondition.chunk + i) as usize) {
                        *place = Some(content);
                    }
                }
            }
            chunks
        };
        let own: Vec<_> = (0..self.own).map(required).collect();
        let kept = self.keeps_inputs();
        if plan.collective.kind == CollectiveKind::SendRecv && !kept {
            // The distance of a send-receive is unknown here.
            return false;
        }
        for rank in self.own..ranks {
            let back = rank - rank % self.own;
            let unshifted = |other: u32| if other >= back { other - back } else { other + ranks - back };
            let names = &self.outputs[rank as usize * output as usize..][..output as usize];
            for (theirs, name) in required(rank).into_iter().zip(names) {
                let Some(mine) = own[(rank % self.own) as usize].get(*name as usize) else { return false };
                let input = |rank, chunk| Some(self.input(rank, chunk)).filter(|name| *name != UNKNOWN);
                let same = match (theirs, *mine) {
                    (None, None) => true,
                    // All outputs of a plan are normalized, or none.
                    (
                        Some(OutputContent::Input { rank, chunk } | OutputContent::NormalizedInput { rank, chunk }),
                        Some(
                            OutputContent::Input { rank: like, chunk: mine }
                            | OutputContent::NormalizedInput { rank: like, chunk: mine },
                        ),
                    ) => {
                        like == unshifted(rank)
                            && input(rank, chunk).is_some_and(|name| Some(name) == input(like, mine))
                    }
                    (Some(theirs), Some(mine)) if theirs.is_reduction() && mine.is_reduction() && kept => {
                        theirs.chunk() == mine.chunk()
                    }
                    (Some(theirs), Some(mine)) if theirs.is_reduction() && mine.is_reduction() => {
                        let (chunk, mine) = (theirs.chunk(), mine.chunk());
                        match self.fuel.checked_sub(ranks.into()) {
                            Some(fuel) => self.fuel = fuel,
                            None => return false,
                        }
                        let input = |rank, chunk| self.input(rank, chunk);
                        (0..ranks).all(|rank| {
                            let name = input(rank, chunk);
                            name != UNKNOWN && name == input(unshifted(rank), mine)
                        })
                    }
                    _ => false,
                };
                if !same {
                    return false;
                }
            }
        }
        true
    }
}
