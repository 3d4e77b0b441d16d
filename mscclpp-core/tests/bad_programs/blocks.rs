//! 5, 12: thread blocks out of step, and sources that are overwritten while a port reads them.

use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce, Custom};
use mscclpp_core::dsl::Program;
use mscclpp_core::plan::raw::{OpKind, PlanTree};
use mscclpp_core::types::BlockSync;

use super::{accepted, in_place, operation, plan, refused, spec};

/// Two thread blocks put a chunk together, block 0 tells the peer, whose block 0 then copies what has come.
pub(super) fn group_put(p: &Program, barriers: bool) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
    let both = p.thread_block_group(0..2);
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        if barriers {
            rank.barrier([0, 1]);
        }
        channel.put(slots[peer.id()].chunk(0), rank.input().chunk(0), &both);
        if barriers {
            rank.barrier([0, 1]);
        }
        channel.signal(0);
        channel.wait(0);
        rank.copy(rank.output().chunk(peer.id()), slots[rank.id()].chunk(0), 0);
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
    }
}

#[test]
fn a_group_without_a_barrier() {
    let plan = plan(spec(AllGather, 2), |p| group_put(p, false));
    let words =
        ["`copy` (rank 0, thread block 0)", "`put` (rank 1, thread block 1)", "scratch chunk 0 of rank 0", "order"];
    refused(&plan, "race", &words);
}

/// Thread block 0 reduces a chunk, thread block 1 sends it.
fn hand_over(barrier: bool) -> PlanTree {
    plan(in_place(AllReduce, 2), |p| {
        let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let (data, results) = (rank.memory_channel(peer), rank.memory_channel(peer));
            let mine = rank.input().chunk(rank.id());
            data.signal(0).relaxed();
            data.wait(0).relaxed().sync(BlockSync::After);
            data.put(slots[peer.id()].chunk(0), rank.input().chunk(peer.id()), 0);
            data.signal(0);
            data.wait(0);
            rank.reduce(mine, slots[rank.id()].chunk(0), 0);
            if barrier {
                rank.barrier([0, 1]);
            }
            results.put(peer.input().chunk(rank.id()), mine, 1);
            results.signal(1);
            results.wait(1);
        }
    })
}

#[test]
fn one_block_reduces_and_another_sends() {
    let words =
        ["`put` (rank 0, thread block 1)", "`reduce` (rank 0, thread block 0)", "input chunk 0 of rank 0", "barrier"];
    refused(&hand_over(false), "race", &words);
    accepted(&hand_over(true));
}

/// Four thread blocks copy two chunks together. In equal parts, the last two have the second chunk to themselves; but where a
/// chunk has an odd number of units, block 1 has one unit of it.
fn halves(both: bool) -> PlanTree {
    plan(spec(Custom { input: 2, output: 2 }, 1), |p| {
        let (rank, group) = (p.rank(0), p.thread_block_group(0..4));
        let (input, scratch, copied) = (rank.input(), rank.scratch(2), rank.semaphore(0));
        rank.copy(scratch.chunk(..), input.chunk(..), &group);
        for block in if both { 0..3 } else { 2..3 } {
            copied.release(block);
            copied.acquire(3);
        }
        rank.copy(rank.output().chunk(1), scratch.chunk(1), 3);
    })
}

#[test]
fn slices_that_end_within_the_next_chunk() {
    let words = [
        "data race on scratch chunk 1",
        "`copy` (rank 0, thread block 3) reads it",
        "`copy` (rank 0, thread block 1) writes it",
        "divide equally",
    ];
    refused(&halves(false), "race", &words);
    accepted(&halves(true));
}

/// A port still reads what the block overwrites.
fn reuse(flush: bool) -> PlanTree {
    plan(spec(AllGather, 2), |p| {
        let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
        for rank in p.ranks() {
            let (peer, own) = (p.rank(1 - rank.id()), slots[rank.id()].chunk(0));
            let channel = rank.port_channel(peer);
            rank.copy(own, rank.input().chunk(0), 0);
            channel.signal(0);
            channel.wait(0);
            channel.put(slots[peer.id()].chunk(1), own, 0);
            channel.signal(0);
            if flush {
                channel.flush(0);
            }
            rank.copy(rank.output().chunk(rank.id()), own, 0);
            rank.barrier([0]);
            rank.copy(own, rank.output().chunk(rank.id()), 0);
            channel.wait(0);
            rank.copy(rank.output().chunk(peer.id()), slots[rank.id()].chunk(1), 0);
            channel.signal(0);
            channel.wait(0);
        }
    })
}

#[test]
fn a_source_reused_before_the_port_has_read_it() {
    let words = [
        "`copy` (rank 0",
        "`put` (rank 0",
        "scratch chunk 0 of rank 0",
        "a port put reads its source asynchronously",
        "flush",
    ];
    refused(&reuse(false), "race", &words);
    accepted(&reuse(true));
}

/// Two puts with a signal each, and a reader that takes the first signal for the first chunk.
fn two_puts() -> PlanTree {
    let mut spec = spec(AllGather, 2);
    spec.collective.chunk_factor = 2;
    plan(spec, |p| {
        let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
        for rank in p.ranks() {
            let (peer, slot) = (p.rank(1 - rank.id()), slots[rank.id()]);
            let channel = rank.port_channel(peer);
            channel.signal(0);
            channel.wait(0);
            for i in 0..2 {
                channel.put_with_signal(slots[peer.id()].chunk(i), rank.input().chunk(i), 0);
            }
            for i in 0..2 {
                channel.wait(0);
                rank.copy(rank.output().chunk(2 * peer.id() + i), slot.chunk(i), 0);
            }
            rank.copy(rank.output().chunk(2 * rank.id()..2 * rank.id() + 2), rank.input().chunk(0..2), 0);
            channel.flush(0);
            channel.signal(0);
            channel.wait(0);
        }
    })
}

/// As two operations they come in order; as one, two threads give them to the port in any order.
#[test]
fn two_puts_with_signal_stay_in_order() {
    let mut plan = two_puts();
    accepted(&plan);
    for rank in 0..2 {
        let ops = &mut plan.ranks[rank].blocks[0].ops;
        let first = ops.iter().position(|op| op.kind == OpKind::PutWithSignal).expect("a put");
        let second = ops.remove(first + 1);
        assert_eq!(second.kind, OpKind::PutWithSignal);
        ops[first].srcs.extend(second.srcs);
        ops[first].dsts.extend(second.dsts);
        ops[first].ids.extend(second.ids);
    }
    assert_eq!(operation(&mut plan, |op| op.kind == OpKind::PutWithSignal).ids.len(), 2);
    refused(&plan, "race", &["`copy` (rank 0", "`put_with_signal` (rank 1", "scratch chunk 0 of rank 0"]);
}
