//! What only plan files can get wrong, or get past whoever wrote them: one change each of a plan that is right.

use mscclpp_core::collective::CollectiveKind::AllGather;
use mscclpp_core::plan::raw::{BufferRef, ChannelTable, OpKind, PlanTree, RemoteBuffer};
use mscclpp_core::types::{BlockSync, BufferKind, ChannelKind};

use super::{accepted, operation, packets, plan, refused, spec};

/// Two ranks put their chunk into each other's scratch, two thread blocks together, and say when it has been read.
fn right() -> PlanTree {
    let mut spec = spec(AllGather, 2);
    spec.collective.chunk_factor = 2;
    let plan = plan(spec, |p| {
        let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
        let both = p.thread_block_group(0..2);
        for rank in p.ranks() {
            let (id, peer) = (rank.id(), 1 - rank.id());
            let channel = rank.memory_channel(peer);
            let (port, begun) = (rank.port_channel(peer), rank.semaphore(0));
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(BlockSync::After);
            begun.release(0);
            begun.acquire(1);
            channel.put(slots[peer].chunk(0..2), rank.input().chunk(0..2), &both);
            rank.barrier([0, 1]);
            channel.signal(0);
            channel.wait(0);
            rank.copy(rank.output().chunk(2 * peer..2 * peer + 2), slots[id].chunk(0..2), 0);
            rank.copy(rank.output().chunk(2 * id..2 * id + 2), rank.input().chunk(0..2), 1);
            port.signal(0);
            port.wait(0);
        }
    });
    accepted(&plan);
    plan
}

#[track_caller]
fn changed(slug: &str, words: &[&str], change: impl FnOnce(&mut PlanTree)) {
    let mut plan = right();
    change(&mut plan);
    refused(&plan, slug, words);
}

#[track_caller]
fn changed_op(slug: &str, words: &[&str], kind: OpKind, change: impl FnOnce(&mut mscclpp_core::plan::raw::Op)) {
    changed(slug, words, |plan| change(operation(plan, |op| op.kind == kind)));
}

#[test]
fn ranks() {
    changed("self-channel", &["rank 0", "is rank 0 itself"], |plan| {
        plan.ranks[0].channels[0] = ChannelTable::Memory(vec![0]);
    });
    changed("index-out-of-range", &["the peer of memory channel 0 is rank 2", "below 2"], |plan| {
        plan.ranks[0].channels[0] = ChannelTable::Memory(vec![2]);
    });
    changed("self-channel", &["the owner of remote buffer 0 is rank 1 itself"], |plan| {
        plan.ranks[1].remote_buffers[0].rank = 1;
    });
    changed("chunk-count-mismatch", &["allgather over 2 ranks", "found 4 input and 4 output"], |plan| {
        plan.ranks.iter_mut().for_each(|rank| rank.input_chunks = 4);
    });
    changed("chunk-count-mismatch", &["expected 2 input and 4 output chunks as on rank 0, found 2 and 5"], |plan| {
        plan.ranks[1].output_chunks = 5;
    });
}

#[test]
fn threads_and_sizes() {
    for threads in [0, 4096] {
        changed("bad-specification", &["expected 1 to 1024 threads per block"], |plan| {
            plan.threads_per_block = threads
        });
    }
    changed("bad-specification", &["power of two, found 3 bytes"], |plan| plan.buffer_alignment = 3);
    changed("bad-specification", &["2 bytes, is larger than the largest, 1"], |plan| {
        (plan.min_message_size, plan.max_message_size) = (2, 1);
    });
}

#[test]
fn thread_blocks() {
    changed_op(
        "barrier-mismatch",
        &["barrier 0 of rank 0 expects 3 thread blocks, but thread blocks [0, 1] use it"],
        OpKind::Barrier,
        |op| op.num_blocks = 3,
    );
    // Block 0 twice, and block 1 not at all.
    changed("barrier-mismatch", &["expects 2 thread blocks, but thread blocks [0] use it"], |plan| {
        let blocks = &mut plan.ranks[0].blocks;
        let at = blocks[0].ops.iter().position(|op| op.kind == OpKind::Barrier).expect("a barrier");
        let again = blocks[0].ops[at].clone();
        blocks[0].ops.insert(at, again);
        blocks[1].ops.retain(|op| op.kind != OpKind::Barrier);
    });
    changed("barrier-mismatch", &["reaches barrier 0 of rank 0 twice, but thread block 1 once"], |plan| {
        let ops = &mut plan.ranks[0].blocks[0].ops;
        let at = ops.iter().position(|op| op.kind == OpKind::Barrier).expect("a barrier");
        ops.insert(at, ops[at].clone());
    });
    changed_op("bad-group", &["`put` (rank 0", "slice 2 of 2"], OpKind::Put, |op| {
        op.slice.as_mut().expect("a slice").index = 2
    });
    // Half of the chunk is put by nobody.
    changed("uninitialized-read", &["`copy` (rank 1", "scratch chunk 1 of rank 1"], |plan| {
        plan.ranks[0].blocks[1].ops.retain(|op| op.kind != OpKind::Put);
    });
}

#[test]
fn chunks() {
    changed_op("overlapping-copy", &["`copy` (rank 0", "unordered"], OpKind::Copy, |op| {
        (op.srcs[0], op.dsts[0]) = (op.dsts[0], op.dsts[0]);
        op.srcs[0].index = 1;
    });
    changed_op("size-mismatch", &["operands of 1 and of 2 chunks"], OpKind::Copy, |op| op.srcs[0].size = 1);
    changed_op("empty-chunk", &["empty operand"], OpKind::Copy, |op| op.srcs[0].size = 0);
    changed_op("chunk-out-of-range", &["input chunks 1..3 of rank 0, which has 2"], OpKind::Put, |op| {
        op.srcs[0].index = 1
    });
    changed_op("chunk-out-of-range", &["scratch chunks 1..3 of rank 1, which has 2"], OpKind::Put, |op| {
        op.dsts[0].index = 1
    });
    let get = |op: &mut mscclpp_core::plan::raw::Op| {
        op.kind = OpKind::Get;
        op.ids = [0].into_iter().collect();
        (op.srcs[0], op.dsts[0]) = (op.dsts[0], op.srcs[0]);
        op.dsts[0].size = 1;
    };
    changed_op("size-mismatch", &["`get` (rank 0", "operands of 2 and of 1 chunks"], OpKind::Put, get);
}

#[test]
fn channels_and_semaphores() {
    changed_op("index-out-of-range", &["names memory channel 7 of its thread block"], OpKind::Signal, |op| {
        op.ids[0] = 7
    });
    changed("wrong-channel", &["moves data of rank 1 over a port channel to rank 0"], |plan| {
        let rank = &mut plan.ranks[1];
        rank.remote_buffers = vec![RemoteBuffer { rank: 0, buffer: BufferKind::Scratch, memory: true, port: true }];
        // The only other rank is 0, so a third one is needed to lead elsewhere.
        let third = rank.clone();
        plan.ranks.push(third);
        plan.ranks.iter_mut().for_each(|rank| rank.output_chunks = 6);
        let rank = &mut plan.ranks[2];
        rank.remote_buffers[0].rank = 1;
        rank.blocks[0].remote_buffers = vec![(ChannelKind::Port, vec![0].into())].into();
        let put = rank.blocks[0].ops.iter_mut().find(|op| op.kind == OpKind::Put).expect("a put");
        (put.channel, put.slice) = (Some(ChannelKind::Port), None);
        put.ids = [0].into_iter().collect();
        put.dsts[0].buffer = BufferRef::Remote(0);
    });
    changed(
        "bad-specification",
        &["expected an initial value of 0 to 2147483647 for semaphore 0", "found -1"],
        |plan| plan.ranks[0].semaphores[0] = -1,
    );
}

#[test]
fn packets_from_nobody() {
    let plan = plan(packets(AllGather, 2), |p| {
        for rank in p.ranks() {
            rank.unpack_packets(rank.output().chunk(0), rank.scratch(1).chunk(0), 0);
        }
    });
    refused(
        &plan,
        "deadlock",
        &["`unpack_packets` (rank 0", "the packets of scratch chunk 0, but no remaining operation"],
    );
}
