//! Operations with their locations in a plan.

use std::ops::Range;

use super::view::View;
use mscclpp_plan::diag::Site;
use mscclpp_plan::raw::{Op, Operand, PlanTree, RemoteBuffer};
use mscclpp_plan::types::{BufferKind, ChannelKind};

/// An operation and its location.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocatedOp<'p> {
    pub(super) rank: usize,
    pub(super) block: usize,
    /// Position in the block.
    pub(super) index: usize,
    /// Position in the pipeline, with the pipeline, when inside one.
    pub(super) inside: Option<(usize, &'p Op)>,
    /// As the plan has it, with the numbers of the whole plan: see [`Self::range`] and [`Self::number`].
    pub(super) op: &'p Op,
    /// The number of instances of which its own is one; 1 if the whole plan is checked.
    pub(super) instances: u32,
}

/// Visits every operation of a plan: pipelines, each followed by the operations of its body, and all others.
pub(super) fn each<'p>(view: View<'p>, visit: &mut impl FnMut(LocatedOp<'p>)) {
    each_of(view, 0..view.plan.ranks.len(), visit);
}

/// Visits every operation of some ranks, in the order of [`each`].
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
    /// Returns one of its operands, in the chunks of its instance.
    pub(super) fn range(&self, range: &Operand) -> Operand {
        Operand { index: self.number(range.index), ..*range }
    }

    /// Returns the number that the first chunk of an operand, a semaphore or a barrier has in its instance.
    pub(super) fn number(&self, number: u32) -> u32 {
        if self.instances == 1 { number } else { number / self.instances }
    }

    /// Returns the location of a finding about this operation.
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

    /// Returns the location of a finding about one of its operands: the argument of the call from which the operand comes.
    pub(super) fn operand_site(&self, plan: &PlanTree, operand: &Operand) -> Site {
        plan.origins.argument(operand.origin).map_or_else(|| self.site(plan), Site::Source)
    }

    /// Returns its name for messages: the function in the program if the plan has its source location, otherwise the
    /// name in the plan. An operation with which others were fused has all of their names.
    pub(super) fn display_name(&self, plan: &PlanTree) -> String {
        match plan.origins.get(self.op.origin) {
            Some(_) => self.op.kind.functions().to_owned(),
            None => format!("`{}`", self.op.kind.name()),
        }
    }

    /// Returns its thread block for messages: `rank 1, thread block 0`.
    pub(super) fn agent(&self) -> String {
        format!("rank {}, thread block {}", self.rank, self.block)
    }
}

/// Returns the remote buffers by index in a thread block's table for the kind of channel that an operation uses.
pub(super) fn remotes<'p>(plan: &'p PlanTree, at: &LocatedOp) -> impl Fn(u32) -> Option<&'p RemoteBuffer> + use<'p> {
    let tables = &plan.ranks[at.rank];
    let numbers = at.op.channel.map_or(&[][..], |kind| tables.blocks[at.block].remote_buffers(kind));
    move |index| tables.remote_buffers.get(*numbers.get(index as usize)? as usize)
}

/// Returns buffer and members of the switch channel at index `index` of a thread block's table.
pub(super) fn switch<'p>(plan: &'p PlanTree, at: &LocatedOp, index: u32) -> Option<(BufferKind, &'p [u32])> {
    let tables = &plan.ranks[at.rank];
    let number = *tables.blocks[at.block].channels(ChannelKind::Switch).get(index as usize)?;
    tables.switch_channels().nth(number as usize)
}

/// Returns the buffer that contains a chunk of a rank's buffer: input and output of an in-place plan are one buffer.
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
    use crate::testing::plan;
    use mscclpp_plan::raw::PlanTree;

    fn names(plan: &PlanTree) -> Vec<String> {
        let mut names = Vec::new();
        each(plan.into(), &mut |at| names.push(at.display_name(plan)));
        names
    }

    #[test]
    fn operations_have_the_names_of_the_program() {
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
