//! Operations with their places in a plan.

use std::ops::Range;

use super::view::View;
use crate::diag::Site;
use crate::plan::{Op, Operand, PlanTree, RemoteBuffer};
use crate::types::{BufferKind, ChannelKind};

/// An operation and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocatedOp<'p> {
    pub(super) rank: usize,
    pub(super) block: usize,
    /// Position in the block.
    pub(super) index: usize,
    /// Position in the pipeline, with the pipeline, when inside one.
    pub(super) inside: Option<(usize, &'p Op)>,
    /// As it stands, with the numbers of the whole plan: see [`Self::range`] and [`Self::number`].
    pub(super) op: &'p Op,
    /// Of how many instances its own is one; 1 if the whole plan is looked at.
    pub(super) instances: u32,
}

/// Visits every operation of a plan: pipelines, each followed by the operations of its body, and all others.
pub(super) fn each<'p>(view: View<'p>, visit: &mut impl FnMut(LocatedOp<'p>)) {
    each_of(view, 0..view.plan.ranks.len(), visit);
}

/// The same for some ranks.
pub(super) fn each_of<'p>(view: View<'p>, ranks: Range<usize>, visit: &mut impl FnMut(LocatedOp<'p>)) {
    let instances = view.instances();
    for (rank, tables) in ranks.clone().zip(&view.plan.ranks[ranks]) {
        for block in 0..tables.blocks.len() {
            for (index, op) in view.ops(rank, block).iter().enumerate() {
                let whole = LocatedOp { rank, block, index, inside: None, op, instances };
                visit(whole);
                let Some(body) = &op.body else { continue };
                for (i, inner) in body.ops.iter().enumerate() {
                    visit(LocatedOp { inside: Some((i, op)), op: inner, ..whole });
                }
            }
        }
    }
}

impl LocatedOp<'_> {
    /// One of its references, in the chunks of its instance.
    pub(super) fn range(&self, range: &Operand) -> Operand {
        Operand { index: self.number(range.index), ..*range }
    }

    /// The number that a chunk at which its ranges begin, a semaphore or a barrier has in its instance.
    pub(super) fn number(&self, number: u32) -> u32 {
        if self.instances == 1 { number } else { number / self.instances }
    }

    /// Where a finding about this operation points.
    pub(super) fn site(&self, plan: &PlanTree) -> Site {
        if let Some(place) = plan.origins.get(self.op.origin) {
            return Site::Source(place.clone());
        }
        let path = format!("rank {} / thread block {} / operation {}", self.rank, self.block, self.index);
        let name = self.op.kind.name();
        Site::Path(match self.inside {
            Some((index, pipeline)) => format!("{path} ({}) / operation {index} ({name})", pipeline.kind.name()),
            None => format!("{path} ({name})"),
        })
    }

    /// What its author calls it, for messages: the function that was called where the plan knows its source, else the
    /// name in the plan. An operation into which others were fused is called by all of them.
    pub(super) fn display_name(&self, plan: &PlanTree) -> String {
        match plan.origins.get(self.op.origin) {
            Some(_) => self.op.kind.functions().to_owned(),
            None => format!("`{}`", self.op.kind.name()),
        }
    }

    /// Who executes it, for messages: `rank 1, thread block 0`.
    pub(super) fn agent(&self) -> String {
        format!("rank {}, thread block {}", self.rank, self.block)
    }
}

/// The remote buffers behind the indexes of a thread block's table for the kind of channel that an operation uses.
pub(super) fn remotes<'p>(plan: &'p PlanTree, at: &LocatedOp) -> impl Fn(u32) -> Option<&'p RemoteBuffer> + use<'p> {
    let tables = &plan.ranks[at.rank];
    let numbers = at.op.channel.map_or(&[][..], |kind| tables.blocks[at.block].remote_buffers(kind));
    move |index| tables.remote_buffers.get(*numbers.get(index as usize)? as usize)
}

/// Buffer and members of the switch channel at index `index` of a thread block's table.
pub(super) fn switch<'p>(plan: &'p PlanTree, at: &LocatedOp, index: u32) -> Option<(BufferKind, &'p [u32])> {
    let tables = &plan.ranks[at.rank];
    let number = *tables.blocks[at.block].channels(ChannelKind::Switch).get(index as usize)?;
    tables.switch_channels().nth(number as usize)
}

/// Where a chunk of a rank's buffer really lives: input and output of an in-place plan are one memory.
pub(super) fn canonical_buffer(plan: &PlanTree, rank: u32, buffer: BufferKind, index: u32) -> (BufferKind, u32) {
    if !plan.collective.in_place {
        return (buffer, index);
    }
    // The part of one rank, in chunks of this plan (its instances counted).
    let tables = &plan.ranks[rank as usize];
    let part = tables.input_chunks.min(tables.output_chunks);
    plan.collective.canonical_chunk(rank, buffer, index, part)
}

#[cfg(test)]
mod tests {
    use super::each;
    use crate::plan::PlanTree;
    use crate::testing::plan;

    fn names(plan: &PlanTree) -> Vec<String> {
        let mut names = Vec::new();
        each(plan.into(), &mut |at| names.push(at.display_name(plan)));
        names
    }

    #[test]
    fn operations_are_called_as_their_author_calls_them() {
        let mut plan = plan(&[&["upkt s0 > i0; respkt.m i0 s0 > i0 r0:0; rlxwait.m#0; loop 16x1 { sem_release#0 }"]]);
        assert_eq!(names(&plan), ["`upkt`", "`respkt`", "`rlxwait`", "`pipeline`", "`sem_release`"]);
        let origin = plan.origins.add(std::panic::Location::caller().into());
        for op in &mut plan.ranks[0].blocks[0].ops {
            op.origin = origin;
            op.body.iter_mut().flat_map(|body| &mut body.ops).for_each(|op| op.origin = origin);
        }
        let reduce = "`reduce_packets` (fused with `put_packets`)";
        assert_eq!(names(&plan), ["`unpack_packets`", reduce, "the relaxed `wait`", "`pipeline`", "`release`"]);
    }
}
