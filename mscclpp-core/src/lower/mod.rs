//! Lowering: conversion of a recorded program to a plan.
//!
//! A list of passes, each a pure function over one thread block or the whole tree, each in its own file:
//!
//! 1. `group`: recorded operations become per-rank, per-block lists; a pipelined loop becomes one operation per block.
//! 2. `fuse` (if the program requests it): neighboring operations of a block become one. It is first, while the
//!    operations are in the authors' order and no block syncs are between them.
//! 3. `dependency` (if requested): operations that access the same memory as an earlier one of their block require a
//!    block sync before them, unless the sync attributes that fusion left contain one already.
//! 4. `data_sync`: the sync attributes become `nop`s.
//! 5. `split` (more than one instance): chunk ranges that cannot be interleaved become single chunks.
//! 6. `number`: rank-level numbers of channels and remote buffers become indexes into the thread block's tables.
//! 7. `replicate` (more than one instance): every block becomes one block per instance.
//!
//! Before `number`, operands and channels have rank-level numbers. The result is canonical: it contains exactly what
//! plan JSON can contain, so that writing and reading it returns an equal tree.

mod access;
mod data_sync;
mod dependency;
mod fuse;
mod group;
mod number;
#[doc(hidden)]
pub mod replicate;
mod split;

use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::PlanTree;
use crate::trace::Trace;
use crate::types::Replication;
use dependency::Dependencies;
use fuse::Fusion;
use mscclpp_plan::parallel;
use number::Numbering;

/// Lowers a recorded program to a plan.
///
/// The trace must be one in which a recorder found no mistake; a trace that was built manually is only checked as far
/// as safe indexing requires. The plan is not checked for hazards or deadlocks here.
///
/// # Cost
/// Linear in the operations, times the instances; searches in sorted maps where dependencies are tracked.
///
/// # Errors
/// [`Code::BadSpecification`] for instances without replication, [`Code::MixedSizes`] for instances whose chunk ranges cannot be
/// interleaved, [`Code::TooLarge`] for numbers beyond 32 bits, and [`Code::RankOutOfRange`], [`Code::ThreadBlockOutOfRange`],
/// [`Code::BadPipeline`] or [`Code::ForeignHandle`] for a trace that contradicts its own tables.
pub fn lower(trace: &Trace) -> Result<PlanTree, Diagnostics> {
    lowered(trace.clone())
}

/// Lowers a recorded program and consumes it.
pub(crate) fn lowered(trace: Trace) -> Result<PlanTree, Diagnostics> {
    let spec = &trace.spec;
    if spec.instances > 1 && spec.replication == Replication::None {
        let message = format!("expected 1 instance with `replication = none`, found {}", spec.instances);
        return Err(Diagnostic::new(Code::BadSpecification, Site::Path("spec.replication".into()), message)
            .help("remove `replication`, or use one instance")
            .into());
    }
    let (fuse, auto_sync, instances) = (spec.fuse, spec.auto_sync, spec.instances);
    let mut plan = group::group(trace)?;
    // Rank by rank, so that a rank's operations are still in the cache for the next pass.
    let worth = parallel::is_worth(parallel::operations(&plan).saturating_mul(instances as usize));
    let fusion = fuse.then(|| Fusion::of(&plan));
    let waits = auto_sync.then(|| Dependencies::of(&plan));
    parallel::halves(worth, &mut plan.ranks, |first, ranks| {
        for (number, rank) in (first..).zip(ranks) {
            if let Some(fusion) = &fusion {
                fusion.fuse(number, rank);
            }
            if let Some(waits) = &waits {
                waits.mark(number, rank);
            }
            data_sync::insert(rank);
        }
    });
    if instances > 1 {
        split::split(&mut plan)?;
        replicate::bounded(&plan, instances)?;
    }
    let halves = parallel::halves(worth, &mut plan.ranks, |first, ranks| {
        let mut numbering = Numbering::default();
        (first..).zip(ranks).try_for_each(|(number, rank)| {
            numbering.number(rank);
            if instances > 1 { replicate::replicate_rank(number, rank, instances) } else { Ok(()) }
        })
    });
    halves.into_iter().collect::<Result<(), _>>()?;
    if instances > 1 {
        replicate::expectations(&mut plan, instances);
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::lower;
    use crate::diag::Code;
    use crate::testing::{text, trace};
    use crate::types::Replication;

    /// The worked example of the plan format: both ranks exchange a chunk and add it.
    const PAIR_SUM: &str = "put.m#0 i1 > r0:0; signal.m#0@before; wait.m#0@after; re i0 s0 > i0; put.m#0 i0 > r1:0; \
                            signal.m#0@before; wait.m#0@after";

    #[test]
    fn all_passes_work_together() {
        let trace = trace(&[&[PAIR_SUM], &[PAIR_SUM]]);
        let plan = lower(&trace).unwrap();
        assert_eq!(
            text(&plan.ranks[0].blocks[0].ops),
            "put.m i1 > r0:0; nop; signal.m#0; wait.m#0; nop; res.m i0 s0 > i0 r1:0; nop; signal.m#0; wait.m#0; nop"
        );
    }

    #[test]
    fn lowering_does_not_change_the_trace() {
        let mut trace = trace(&[&[PAIR_SUM], &[PAIR_SUM]]);
        trace.spec.instances = 2;
        let first = lower(&trace).unwrap();
        assert_eq!(first.ranks[0].blocks.len(), 2);
        assert_eq!(text(&first.ranks[0].blocks[1].ops)[..16], *"put.m i3 > r0:1;");
        assert_eq!(lower(&trace).unwrap(), first);
    }

    #[test]
    fn passes_can_be_switched_off() {
        let mut trace = trace(&[&["copy i0 > s0; copy s0 > o0; signal.m#0; signal.m#1"], &[""]]);
        trace.spec.fuse = false;
        trace.spec.auto_sync = false;
        let plan = lower(&trace).unwrap();
        assert_eq!(text(&plan.ranks[0].blocks[0].ops), "copy i0 > s0; copy s0 > o0; signal.m#0; signal.m#1");
    }

    #[test]
    fn instances_need_replication() {
        let mut trace = trace(&[&[""]]);
        trace.spec.replication = Replication::None;
        assert!(lower(&trace).is_ok());
        trace.spec.instances = 2;
        assert_eq!(lower(&trace).unwrap_err().iter().next().unwrap().code, Code::BadSpecification);
    }
}
