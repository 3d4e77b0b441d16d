//! What the reference system's executor refuses or does wrongly, whatever room it has.
//!
//! 1. It divides by the numbers of input and output chunks.
//! 2. It always adds, refuses a switch reduction that is not fused with a broadcast, and swaps the chunks of a `get`.
//! 3. In a pipeline, packet operations ignore the window, and members of a thread-block group run into each other's slices.
//! 4. With double scratch it moves only packets to the other half of another rank's scratch, by the size of its own.
//!
//! These are facts about its operations one by one, so looking at each is enough. A plan without any of this may still meet
//! what no plan can avoid there: its `flush` waits for nothing.

use super::MOST_FINDINGS;
use super::effect::effects;
use super::place::{Placed, each};
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::{OpKind, Place, PlanTree};
use crate::vocab::{BufferKind, ReduceOp};

/// Everything that is wrong.
pub(crate) fn faults(plan: &PlanTree) -> Diagnostics {
    let mut found = Diagnostics::default();
    let mut file = |site: Site, message: String, help: &str| {
        if found.len() < MOST_FINDINGS {
            found.push(Diagnostic::new(Code::NotInReference, site, message).help(help));
        }
    };
    for (number, rank) in plan.ranks.iter().enumerate() {
        for (buffer, chunks) in [(BufferKind::Input, rank.input_chunks), (BufferKind::Output, rank.output_chunks)] {
            if chunks == 0 {
                let message = format!("rank {number} has no {buffer} chunks, by whose number the reference divides");
                let help = "give every rank at least one input and output chunk";
                file(Site::Path(format!("rank {number}")), message, help);
            }
        }
        let (own, other) = (rank.scratch_chunks, plan.ranks[0].scratch_chunks);
        if plan.double_scratch && own != other {
            let message = format!(
                "rank {number} has {own} scratch chunks and rank 0 {other}, and the reference finds the second half of \
                 another rank's scratch by the size of its own"
            );
            file(Site::Path(format!("rank {number}")), message, "give all ranks as much scratch");
        }
    }
    each(plan, &mut |at| {
        if let Some((message, help)) = fault(plan, &at) {
            file(at.site(plan), format!("{} ({}) {message}", at.called(plan), at.agent()), help);
        }
    });
    found
}

/// What is wrong with an operation, and what helps.
fn fault(plan: &PlanTree, at: &Placed) -> Option<(String, &'static str)> {
    let op = at.op;
    if let Some(reduce) = op.reduce.filter(|reduce| *reduce != ReduceOp::Sum) {
        let message = format!("reduces with {reduce}, where the reference always adds");
        return Some((message, "run the plan with this runtime, or let it sum"));
    }
    if op.kind == OpKind::SwitchReduce {
        let message = "stands alone, and the reference knows it only fused with a broadcast".to_owned();
        return Some((message, "broadcast its result right behind it, so that the two become one"));
    }
    if op.kind == OpKind::Get && op.srcs.iter().zip(&op.dsts).any(|(src, dst)| src.index != dst.index) {
        let message = "reads one chunk into another, for which the reference swaps the two".to_owned();
        return Some((message, "get into the chunk of the same number, or let the peer put"));
    }
    let mut packets = false;
    let mut far = false;
    effects(plan, at, &mut |effect| {
        packets |= effect.packets;
        let own = matches!(effect.range.place, Place::Local(_));
        far |= !effect.packets && effect.buffer == BufferKind::Scratch && !own;
    });
    if plan.double_scratch && far {
        let message = "handles plain data in another rank's scratch, whose second half the reference misses".to_owned();
        return Some((message, "move packets, or leave out double scratch"));
    }
    at.inside?;
    if op.body.is_some() {
        return Some(("stands inside another pipeline".to_owned(), "put one behind the other"));
    }
    if packets {
        let message = "handles packets in a pipeline, whose windows the reference ignores for them".to_owned();
        return Some((message, "take it out of the pipeline"));
    }
    let slice = op.slice.filter(|slice| slice.of > 1)?;
    let message = format!(
        "does part {} of {} in a pipeline, whose windows run over the end of parts in the reference",
        slice.index, slice.of
    );
    Some((message, "give every thread block chunks of its own"))
}
