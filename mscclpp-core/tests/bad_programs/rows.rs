//! Norms of rows that are incomplete, split, repeated, elsewhere, or added afterwards.

use mscclpp_core::collective::CollectiveKind::{
    self, AllGather, AllReduce, AllToAll, Broadcast, Custom, ReduceScatter,
};
use mscclpp_core::dsl::{Program, Rank};
use mscclpp_core::plan::raw::{OpKind, PlanTree};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::ReduceOp;

use super::{accepted, plan, refused, spec};

/// A specification of a plan with rows.
fn rows(kind: CollectiveKind) -> AlgoSpec {
    let mut spec = spec(kind, 2);
    spec.collective.rows = true;
    spec
}

/// Both ranks add the rows of both; `norm` does what follows, before the peer's rows may change.
fn reduced(spec: AlgoSpec, norm: impl Fn(Rank<'_>)) -> PlanTree {
    plan(spec, |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.handshake(0).relaxed();
            channel.reduce(rank.input().chunk(..), peer.input().chunk(..), 0).to(rank.output().chunk(..));
            norm(rank);
            channel.handshake(0).relaxed();
        }
    })
}

/// Normalizes all rows of the output.
fn whole(rank: Rank<'_>) {
    rank.row_norm(rank.output().chunk(..), rank.output().chunk(..), 0);
}

/// Each rank normalizes its rows with `norm`, and reads those of the other one.
fn gathered(norm: impl Fn(Rank<'_>), after: impl Fn(Rank<'_>)) -> PlanTree {
    plan(rows(AllGather), |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            norm(rank);
            channel.handshake(0);
            channel.get(rank.output().chunk(peer.id()), peer.output().chunk(peer.id()), 0);
            after(rank);
            channel.handshake(0).relaxed();
        }
    })
}

/// Normalizes the rank's own part of an all-gather.
fn own(rank: Rank<'_>) {
    rank.row_norm(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
}

#[test]
fn right_norms_are_accepted() {
    accepted(&reduced(rows(AllReduce), whole));
    accepted(&gathered(own, |_| ()));
}

#[test]
fn a_norm_in_a_plan_without_rows() {
    let plan = reduced(spec(AllReduce, 2), whole);
    refused(&plan, "split-row", &["`row_norm` (rank 0, thread block 0)", "within a row", "write `rows`"]);
}

#[test]
fn rows_of_a_collective_whose_results_are_not_normalized() {
    for kind in [AllToAll, Broadcast] {
        let plan = plan(rows(kind), |p| {
            for rank in p.ranks() {
                rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0);
            }
        });
        refused(&plan, "split-row", &[kind.name(), "not normalized", "`AllGather`"]);
    }
}

#[test]
fn a_norm_of_an_average() {
    let plan = plan(rows(AllReduce), |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.handshake(0).relaxed();
            let sum = channel.reduce(rank.input().chunk(..), peer.input().chunk(..), 0).op(ReduceOp::Avg);
            sum.to(rank.output().chunk(..));
            whole(rank);
            channel.handshake(0).relaxed();
        }
    });
    refused(&plan, "split-row", &["divided when the launch ends", "use `sum`"]);
}

#[test]
fn a_norm_before_the_handshake() {
    // Of rows that the peer has not sent yet.
    let plan = plan(rows(AllReduce), |p| {
        let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.handshake(0).relaxed();
            channel.put(slots[peer.id()].chunk(..), rank.input().chunk(..), 0);
            rank.reduce(rank.input().chunk(..), slots[rank.id()].chunk(..), 0).to(rank.output().chunk(..));
            whole(rank);
            channel.handshake(0);
        }
    });
    refused(&plan, "race", &["`put` (rank 1, thread block 0)", "scratch chunk 0 of rank 0"]);
}

#[test]
fn a_norm_of_a_part_of_the_ranks() {
    let plan = plan(rows(AllReduce), |p| {
        for rank in p.ranks() {
            rank.row_norm(rank.output().chunk(..), rank.input().chunk(..), 0);
        }
    });
    refused(&plan, "wrong-result", &["output chunk 0 of rank 0 lacks input chunk 0 of rank 1"]);
}

#[test]
fn a_norm_of_half_of_the_rows() {
    let plan = reduced(rows(AllReduce), |rank| {
        rank.row_norm(rank.output().chunk(0), rank.output().chunk(0), 0);
    });
    refused(
        &plan,
        "not-normalized",
        &["output chunk 1 of rank 0", "not normalized", "call `row_norm` on the sum of all ranks"],
    );
}

#[test]
fn norms_of_overlapping_chunks() {
    let plan = reduced(rows(AllReduce), |rank| {
        whole(rank);
        rank.row_norm(rank.output().chunk(1), rank.output().chunk(1), 0);
    });
    refused(&plan, "repeated-norm", &["output chunk 1", "also normalizes", "normalize every row once"]);
}

#[test]
fn a_norm_into_scratch() {
    let plan = reduced(rows(AllReduce), |rank| {
        let scratch = rank.scratch(2);
        rank.row_norm(scratch.chunk(..), rank.output().chunk(..), 0);
        rank.copy(rank.output().chunk(..), scratch.chunk(..), 0);
    });
    refused(&plan, "repeated-norm", &["does not write to the output", "normalize into a chunk of the rank's output"]);
}

#[test]
fn a_norm_into_other_rows() {
    let plan = reduced(rows(AllReduce), |rank| {
        let scratch = rank.scratch(2);
        rank.copy(scratch.chunk(..), rank.output().chunk(..), 0);
        rank.row_norm(rank.output().chunk(0), scratch.chunk(1), 0);
        rank.row_norm(rank.output().chunk(1), scratch.chunk(0), 0);
    });
    refused(&plan, "wrong-result", &["output chunk 0 of rank 0"]);
}

#[test]
fn normalized_rows_that_are_added() {
    let plan = reduced(rows(AllReduce), |rank| {
        whole(rank);
        rank.reduce(rank.output().chunk(..), rank.input().chunk(..), 0);
    });
    refused(&plan, "not-normalized", &["normalized before", "only move the result"]);
}

#[test]
fn a_norm_without_its_block_sync() {
    let mut plan = reduced(rows(AllReduce), whole);
    for rank in &mut plan.ranks {
        let ops = &mut rank.blocks[0].ops;
        let norm = ops.iter().position(|op| op.kind == OpKind::RowNorm).expect("a norm");
        assert_eq!(ops.remove(norm - 1).kind, OpKind::Nop);
    }
    refused(&plan, "race", &["`row_norm` (rank 0, thread block 0)"]);
}

#[test]
fn a_norm_by_another_thread_block() {
    let plan = reduced(rows(AllReduce), |rank| {
        rank.row_norm(rank.output().chunk(..), rank.output().chunk(..), 1);
    });
    refused(&plan, "race", &["`row_norm` (rank 0, thread block 1)"]);
}

#[test]
fn a_scatter_that_normalizes_another_part() {
    let plan = plan(rows(ReduceScatter), |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            let sum = rank.output().chunk(0);
            channel.handshake(0).relaxed();
            channel.reduce(rank.input().chunk(peer.id()), peer.input().chunk(peer.id()), 0).to(sum);
            rank.row_norm(sum, sum, 0);
            channel.handshake(0).relaxed();
        }
    });
    refused(&plan, "wrong-result", &["output chunk 0 of rank 0"]);
}

#[test]
fn a_gather_that_normalizes_what_it_receives() {
    let plan = gathered(own, |rank| {
        let other = rank.output().chunk(1 - rank.id());
        rank.row_norm(other, other, 0);
    });
    refused(
        &plan,
        "repeated-norm",
        &["output chunk 1, expected one of the rank's own part, 0..1", "on the rank whose input has them"],
    );
}

#[test]
fn a_gather_without_norms() {
    let copied = |rank: Rank<'_>| rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
    let plan = gathered(copied, |_| ());
    refused(
        &plan,
        "not-normalized",
        &["output chunk 0 of rank 0 holds input chunk 0 of rank 0", "the input of the rank that has the rows"],
    );
}

#[test]
fn a_gather_that_reads_rows_before_they_are_normalized() {
    let plan = plan(rows(AllGather), |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.handshake(0);
            own(rank);
            channel.get(rank.output().chunk(peer.id()), peer.output().chunk(peer.id()), 0);
            channel.handshake(0).relaxed();
        }
    });
    refused(&plan, "race", &["`row_norm` (rank 1, thread block 0)"]);
}

/// A custom collective of two chunks on one rank, with the expectation of its first chunk.
fn custom(norms: impl Fn(&Program, Rank<'_>), expects: bool) -> PlanTree {
    let mut spec = spec(Custom { input: 2, output: 2 }, 1);
    spec.collective.rows = true;
    plan(spec, |p| {
        let rank = p.rank(0);
        norms(p, rank);
        if expects {
            p.expect(rank.output().chunk(0), rank.input().chunk(0));
        }
    })
}

#[test]
fn a_custom_collective_that_normalizes_other_rows_than_it_states() {
    accepted(&custom(|_, rank| rank.row_norm(rank.output().chunk(0), rank.input().chunk(0), 0), true));
    let plan = custom(|_, rank| rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0), true);
    refused(&plan, "not-normalized", &["output chunk 0 of rank 0", "the rows that the program expects"]);
    let plan = custom(
        |_, rank| {
            let scratch = rank.scratch(1);
            rank.copy(scratch.chunk(0), rank.input().chunk(1), 0);
            rank.row_norm(rank.output().chunk(0), scratch.chunk(0), 0);
        },
        true,
    );
    refused(&plan, "wrong-result", &["output chunk 0 of rank 0 holds input chunk 1 of rank 0, expected input chunk 0"]);
}

#[test]
fn a_custom_collective_that_normalizes_a_shorter_chunk() {
    let plan = custom(|_, rank| rank.row_norm(rank.output().chunk(0), rank.input().chunk(1), 0), false);
    refused(&plan, "short-chunk", &["rows of chunk 1 into chunk 0", "copy the chunk to scratch"]);
}

#[test]
fn a_custom_collective_that_adds_normalized_rows() {
    let plan = custom(
        |_, rank| {
            rank.row_norm(rank.output().chunk(0), rank.input().chunk(0), 0);
            rank.reduce(rank.output().chunk(0), rank.input().chunk(1), 0).to(rank.output().chunk(1));
        },
        false,
    );
    refused(&plan, "not-normalized", &["output chunk 1 of rank 0", "normalized before"]);
}
