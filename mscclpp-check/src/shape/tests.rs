//! Plans that the shape rule rejects, each one change of a valid plan.

use crate::testing::plan;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::{Code, Diagnostics};
use mscclpp_plan::raw::{
    BlockTable, BufferRef, ChannelTable, Count, Expectation, LoopBody, Op, OpKind, Operand, PlanTree, RemoteBuffer,
    Slice,
};
use mscclpp_plan::types::{BlockSync, BufferKind, ChannelKind, ReduceOp};

fn check(plan: &PlanTree) -> Diagnostics {
    super::check(plan.into())
}

/// Returns a valid plan with one operation of every kind.
fn valid() -> PlanTree {
    let first = "copy i0+2 > s0+2; barrier#0=2; put.m i0 > r0:0; put.p#0 i0 > r0:0; pws.p#0,1 i0 s1 > r0:0 r1:1; \
                 pwsf.p#0 i0 > r0:0; get.m#0 r1:0 > o0; re i0 s0 s1 > o0; res.m i0 s0 > i0 r2:0; \
                 rre.m i0 r1:0 > i0; rres.m i0 r1:0 > i0 r2:0; glre.w w0:0 > o0; glres.w w0:0 > w0:1; \
                 gstore.w i0 > w3:0; signal.m#0; wait.m#0; rlxsignal.m#1; rlxwait.m#1; flush.p#0,1; \
                 sem_release#0; sem_acquire#0; loop 64x2 { copy i0+2 > s0+2; nop }";
    let packets = "cpkt i0 > s0; upkt s0 > o0; cpkt i1 > s1; rppkt.m s0 > r0:5 r0:6; ppkt.m i0 > r0:4; \
                   ppkt.p#0 s0 > r0:3; repkt i0 s0 s1 > i0; respkt.m i0 s0 > i0 r0:2; recpkt i0 s0 > i0 s2; \
                   recspkt.m i0 s0 > i0 s2 r0:7; gstorepkt.w s0 > w0:1; rppkt.p#0 s0 > r0:5";
    let second = "wait.p#0; wait.p#1; wait.p#0; signal.m#0; wait.m#0; rlxsignal.m#1; rlxwait.m#1";
    let mut plan = plan(&[&[first, "barrier#0=2; nop", packets], &[second]]);
    let ops = &mut plan.ranks[0].blocks[0].ops;
    let like = ops.iter().find(|op| op.kind == OpKind::Copy).unwrap().clone();
    ops.push(Op { kind: OpKind::RowNorm, ..like });
    // The notation has no counts.
    ops.push(Op::new(OpKind::ExchangeCounts, mscclpp_plan::origin::Origin::UNKNOWN));
    let kinds =
        [(OpKind::Copy, OpKind::CopyCounted), (OpKind::Put, OpKind::PutCounted), (OpKind::Get, OpKind::GetCounted)];
    for (like, kind) in kinds {
        let op = ops.iter().find(|op| op.kind == like).unwrap().clone();
        ops.push(Op { kind, ids: Default::default(), count: Some(Count { sender: 1, receiver: 0 }), ..op });
    }
    let found = check(&plan);
    assert!(found.is_empty(), "{found}");
    plan
}

/// Returns the codes of a changed plan.
#[track_caller]
fn refused(code: Code, change: impl FnOnce(&mut PlanTree)) {
    let mut plan = valid();
    change(&mut plan);
    let found = check(&plan);
    assert!(found.iter().any(|finding| finding.code == code), "expected {code:?}, found {found:?}");
}

/// Returns the codes of a plan whose first operation of a kind is changed.
#[track_caller]
fn refused_op(code: Code, kind: OpKind, change: impl FnOnce(&mut Op)) {
    refused(code, |plan| {
        let blocks = &mut plan.ranks[0].blocks;
        change(blocks.iter_mut().flat_map(|block| &mut block.ops).find(|op| op.kind == kind).unwrap());
    });
}

#[test]
fn invalid_headers_are_rejected() {
    refused(Code::NoRanks, |plan| plan.ranks.clear());
    refused(Code::BadSpecification, |plan| plan.threads_per_block = 0);
    refused(Code::BadSpecification, |plan| plan.threads_per_block = 1025);
    refused(Code::BadSpecification, |plan| plan.buffer_alignment = 0);
    refused(Code::BadSpecification, |plan| plan.buffer_alignment = 24);
    refused(Code::BadSpecification, |plan| (plan.min_message_size, plan.max_message_size) = (2, 1));
    refused(Code::RankOutOfRange, |plan| plan.collective.root = 2);
}

#[test]
fn expectations() {
    let expecting = |plan: &mut PlanTree, rank, chunk, inputs: &[(u32, u32)]| {
        let origin = mscclpp_plan::origin::Origin::UNKNOWN;
        plan.expectations = vec![Expectation { rank, chunk, len: 2, inputs: inputs.to_vec(), origin }];
    };
    let chunks = valid().ranks[0].output_chunks;
    let mut plan = valid();
    expecting(&mut plan, 1, chunks - 2, &[(0, chunks - 2)]);
    assert!(check(&plan).is_empty());
    refused(Code::EmptyList, |plan| expecting(plan, 0, 0, &[]));
    refused(Code::RankOutOfRange, |plan| expecting(plan, 2, 0, &[(0, 0)]));
    refused(Code::RankOutOfRange, |plan| expecting(plan, 0, 0, &[(0, 0), (u32::MAX, 0)]));
    refused(Code::ChunkOutOfRange, |plan| expecting(plan, 0, chunks - 1, &[(0, 0)]));
    let add = |plan: &mut PlanTree, chunk, len, inputs: &[(u32, u32)]| {
        let origin = mscclpp_plan::origin::Origin::UNKNOWN;
        plan.expectations.push(Expectation { rank: 1, chunk, len, inputs: inputs.to_vec(), origin });
    };
    // The same twice, and a part of it.
    let mut plan = valid();
    add(&mut plan, 0, 2, &[(0, 1), (1, 0)]);
    add(&mut plan, 0, 2, &[(1, 0), (0, 1)]);
    add(&mut plan, 1, 1, &[(0, 2), (1, 1)]);
    assert!(check(&plan).is_empty());
    for (chunk, len, inputs) in [(1, 1, &[(0, 1), (1, 1)][..]), (0, 1, &[(0, 1)]), (1, 2, &[(0, 2)])] {
        refused(Code::ContradictingExpectations, |plan| {
            add(plan, chunk, len, inputs);
            add(plan, 0, 2, &[(0, 1), (1, 0)]);
        });
    }
    // After the end of a short one in between.
    refused(Code::ContradictingExpectations, |plan| {
        add(plan, 0, 3, &[(0, 0)]);
        add(plan, 1, 1, &[(0, 1)]);
        add(plan, 2, 1, &[(1, 2)]);
    });
    refused(Code::ContradictingExpectations, |plan| {
        add(plan, 0, 1, &[(0, 0)]);
        add(plan, 0, 1, &[(0, 0), (0, 0)]);
    });
    refused(Code::ChunkOutOfRange, |plan| expecting(plan, 0, u32::MAX, &[(0, 0)]));
    refused(Code::ChunkOutOfRange, |plan| expecting(plan, 0, 0, &[(1, u32::MAX)]));
}

#[test]
fn chunk_counts() {
    refused(Code::ChunkCountMismatch, |plan| plan.ranks[1].input_chunks = 9);
    for kind in [CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
        refused(Code::ChunkCountMismatch, |plan| plan.collective.kind = kind);
    }
    refused(Code::ChunkCountMismatch, |plan| {
        plan.collective.kind = CollectiveKind::SendRecv;
        plan.ranks.iter_mut().for_each(|rank| rank.input_chunks = 9);
    });
    refused(Code::ChunkCountMismatch, |plan| {
        plan.collective.kind = CollectiveKind::AllReduce;
        plan.ranks.iter_mut().for_each(|rank| (rank.input_chunks, rank.output_chunks) = (9, 9));
    });
    for (input, output) in [(1, 1 << 20), (8, 4), (0, 0), (u32::MAX, u32::MAX)] {
        refused(Code::ChunkCountMismatch, |plan| plan.collective.kind = CollectiveKind::Custom { input, output });
        refused(Code::ChunkCountMismatch, |plan| plan.collective.kind = CollectiveKind::Test { input, output });
    }
}

#[test]
fn rank_tables() {
    refused(Code::IndexOutOfRange, |plan| plan.ranks[0].channels[0] = ChannelTable::Memory(vec![1, 1, 1, 2]));
    refused(Code::SelfChannel, |plan| plan.ranks[0].channels[0] = ChannelTable::Memory(vec![1, 1, 1, 0]));
    refused(Code::IndexOutOfRange, |plan| plan.ranks[0].channels.push(ChannelTable::Port(vec![])));
    let remote = |rank| RemoteBuffer { rank, buffer: BufferKind::Input, memory: true, port: true };
    refused(Code::IndexOutOfRange, |plan| plan.ranks[0].remote_buffers.push(remote(2)));
    refused(Code::SelfChannel, |plan| plan.ranks[0].remote_buffers.push(remote(0)));
    let group = |ranks: &[u32]| ChannelTable::Switch { buffer: BufferKind::Scratch, groups: vec![ranks.to_vec()] };
    refused(Code::NotAMember, |plan| plan.ranks[0].channels.push(group(&[1])));
    refused(Code::NotAMember, |plan| plan.ranks[0].channels.push(group(&[0, 1])));
    refused(Code::IndexOutOfRange, |plan| plan.ranks[0].channels.push(group(&[0, 7])));
    refused(Code::BadGroup, |plan| plan.ranks[0].channels.push(group(&[0, 1, 0])));
    refused(Code::BadSpecification, |plan| plan.ranks[0].semaphores[1] = -1);
}

#[test]
fn block_tables() {
    refused(Code::IndexOutOfRange, |plan| plan.ranks[0].blocks[0].channels[0].1.push(4));
    refused(Code::IndexOutOfRange, |plan| plan.ranks[0].blocks[0].channels[2].1.push(4));
    refused(Code::IndexOutOfRange, |plan| plan.ranks[0].blocks[0].remote_buffers[0].1.push(3));
    refused(Code::IndexOutOfRange, |plan| {
        plan.ranks[0].blocks[0].channels.push((ChannelKind::Port, BlockTable::new()))
    });
    refused(Code::IndexOutOfRange, |plan| plan.ranks[0].remote_buffers[1].memory = false);
}

#[test]
fn barriers() {
    refused(Code::BarrierMismatch, |plan| plan.ranks[0].blocks[1].ops.clear());
    refused_op(Code::BarrierMismatch, OpKind::Barrier, |op| op.num_blocks = 3);
    refused_op(Code::BadOperands, OpKind::Barrier, |op| op.num_blocks = 0);
    refused_op(Code::BadOperands, OpKind::Barrier, |op| op.ids.clear());
}

#[test]
fn attributes() {
    refused_op(Code::BadOperands, OpKind::Copy, |op| op.channel = Some(ChannelKind::Memory));
    refused_op(Code::BadOperands, OpKind::Signal, |op| op.channel = None);
    refused_op(Code::BadOperands, OpKind::Flush, |op| op.channel = Some(ChannelKind::Memory));
    refused_op(Code::BadOperands, OpKind::Signal, |op| op.channel = Some(ChannelKind::Switch));
    refused_op(Code::BadOperands, OpKind::Reduce, |op| op.reduce = None);
    refused_op(Code::BadOperands, OpKind::Copy, |op| op.reduce = Some(ReduceOp::Sum));
    refused_op(Code::BadOperands, OpKind::Wait, |op| op.sync = BlockSync::After);
    refused_op(Code::BadOperands, OpKind::CopyCounted, |op| op.count = None);
    refused_op(Code::BadOperands, OpKind::Copy, |op| op.count = Some(Count { sender: 0, receiver: 0 }));
    refused_op(Code::BadOperands, OpKind::ExchangeCounts, |op| op.count = Some(Count { sender: 0, receiver: 0 }));
    refused_op(Code::RankOutOfRange, OpKind::GetCounted, |op| op.count = Some(Count { sender: 0, receiver: 2 }));
    refused_op(Code::BadGroup, OpKind::Copy, |op| op.slice = Some(Slice { index: 2, count: 2 }));
    refused_op(Code::BadGroup, OpKind::Copy, |op| op.slice = Some(Slice { index: 0, count: 0 }));
    refused_op(Code::BadGroup, OpKind::Wait, |op| op.slice = Some(Slice { index: 0, count: 1 }));
}

#[test]
fn reference_lists() {
    let extra = Operand::local(BufferKind::Scratch, 0, 1);
    for kind in OpKind::ALL.iter().copied().filter(|kind| !matches!(kind, OpKind::Pipeline)) {
        refused_op(Code::BadOperands, kind, |op| op.dsts.push(extra));
        if kind.is_data() {
            refused_op(Code::BadOperands, kind, |op| op.srcs.clear());
            refused_op(Code::BadOperands, kind, |op| op.dsts.clear());
        }
    }
    refused_op(Code::BadOperands, OpKind::Reduce, |op| op.srcs.truncate(1));
    refused_op(Code::BadOperands, OpKind::ReadReduce, |op| op.srcs.reverse());
    refused_op(Code::BadOperands, OpKind::PutWithSignal, |op| op.srcs.truncate(1));
    refused_op(Code::BadOperands, OpKind::PutWithSignal, |op| op.ids.truncate(1));
    refused_op(Code::BadOperands, OpKind::Get, |op| op.ids.clear());
    refused_op(Code::BadOperands, OpKind::Put, |op| op.ids.push(0));
    refused_op(Code::BadOperands, OpKind::Signal, |op| op.ids.clear());
    refused_op(Code::BadOperands, OpKind::Signal, |op| op.ids.push(0));
    refused_op(Code::BadOperands, OpKind::SemaphoreAcquire, |op| op.ids.clear());
    refused(Code::TooFewThreads, |plan| plan.threads_per_block = 1);
}

#[test]
fn indexes() {
    refused_op(Code::IndexOutOfRange, OpKind::Signal, |op| op.ids[0] = 4);
    refused_op(Code::IndexOutOfRange, OpKind::SemaphoreRelease, |op| op.ids[0] = 4);
    refused_op(Code::IndexOutOfRange, OpKind::Put, |op| op.dsts[0].buffer = BufferRef::Remote(3));
    refused_op(Code::IndexOutOfRange, OpKind::SwitchBroadcast, |op| op.dsts[0].buffer = BufferRef::Switch(4));
    refused_op(Code::EmptyChunk, OpKind::Copy, |op| op.srcs[0].size = 0);
    refused_op(Code::ChunkOutOfRange, OpKind::Copy, |op| op.srcs[0].index = 7);
    refused_op(Code::ChunkOutOfRange, OpKind::Copy, |op| op.srcs[0].index = u32::MAX);
    refused_op(Code::ChunkOutOfRange, OpKind::Put, |op| op.dsts[0].index = 8);
    refused_op(Code::ChunkOutOfRange, OpKind::SwitchReduceBroadcast, |op| op.dsts[0].index = 8);
    refused(Code::ChunkOutOfRange, |plan| plan.ranks[1].scratch_chunks = 0);
    refused_op(Code::SizeMismatch, OpKind::Copy, |op| op.srcs[0].size = 1);
    refused_op(Code::SizeMismatch, OpKind::Reduce, |op| op.srcs[2].size = 2);
    refused_op(Code::SizeMismatch, OpKind::PutWithSignal, |op| op.dsts[1].size = 2);
}

#[test]
fn packets_outside_of_scratch_are_rejected() {
    refused_op(Code::NotScratch, OpKind::CopyPackets, |op| op.dsts[0].buffer = BufferRef::Local(BufferKind::Output));
    refused_op(Code::NotScratch, OpKind::UnpackPackets, |op| op.srcs[0].buffer = BufferRef::Local(BufferKind::Input));
    refused_op(Code::NotScratch, OpKind::PutPackets, |op| op.dsts[0].buffer = BufferRef::Remote(1));
    refused_op(Code::NotScratch, OpKind::ReducePackets, |op| op.srcs[1].buffer = BufferRef::Local(BufferKind::Input));
    refused_op(Code::NotScratch, OpKind::ReduceCopyPackets, |op| {
        op.dsts[1].buffer = BufferRef::Local(BufferKind::Input)
    });
    refused(Code::NotScratch, |plan| {
        let put = plan.ranks[0].blocks[2].ops.iter_mut().find(|op| op.channel == Some(ChannelKind::Port)).unwrap();
        put.srcs[0].buffer = BufferRef::Local(BufferKind::Input);
    });
}

#[test]
fn channels_must_lead_to_the_ranks_of_the_buffers() {
    refused_op(Code::WrongChannel, OpKind::SwitchReduceBroadcast, |op| op.dsts[0].buffer = BufferRef::Switch(1));
    let mut plan = plan(&[&["get.m#0 r0:0 > o0; put.p#1 i0 > r0:0"], &[""], &[""]]);
    assert!(check(&plan).is_empty());
    plan.ranks[0].channels[0] = ChannelTable::Memory(vec![2, 1, 1, 1]);
    plan.ranks[0].channels[1] = ChannelTable::Port(vec![1, 2, 1, 1]);
    let codes: Vec<_> = check(&plan).into_iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::WrongChannel; 2]);
}

#[test]
fn sources_and_destinations_do_not_overlap_partly() {
    refused_op(Code::OverlappingCopy, OpKind::Copy, |op| op.dsts[0] = Operand::local(BufferKind::Input, 1, 2));
    refused(Code::OverlappingCopy, |plan| {
        plan.collective.kind = CollectiveKind::AllReduce;
        plan.collective.in_place = true;
        plan.ranks[0].blocks[0].ops[0].dsts[0] = Operand::local(BufferKind::Output, 1, 2);
    });
    for (ops, fine) in [
        ("re i0+2 s0+2 > i0+2", true),
        ("re s0+2 s1+2 > i0+2", true),
        ("re s0+2 i1+2 > i0+2", false),
        ("re i0+2 i1+2 > i1+2", false),
        ("re i0+2 i1+2 > o1+2", true),
        ("put.m i0+2 i2+2 > r0:0+2 r0:0+2", true),
        ("put.m i0+2 i2+2 > r0:0+2 r0:1+2", false),
        ("put.m i0+2 i2 > r0:0+2 r0:0", false),
        ("put.m i0+2 i2+2 > r0:0+2 r1:1+2", true),
        ("put.p#0,0 i0 i1 > r0:0 r0:0", false),
        ("put.p#0,0 i0 i1 > r0:0 r0:1", true),
        ("rres.m i0+2 r0:0+2 > i0+2 r0:1+2", false),
        ("rres.m i0+2 r0:0+2 > i0+2 r0:0+2", true),
        ("glres.w w0:0+2 > w0:1+2", false),
        ("gstore.w s0+2 > w0:1+2", false),
        ("recpkt i0+2 s0+2 > i0+2 s1+2", false),
        ("recpkt s4 s4 > s4 s5", true),
        ("cpkt s0+2 > s1+2", true),
    ] {
        let found = check(&crate::testing::plan(&[&[ops], &[""]]));
        assert_eq!(found.is_empty(), fine, "{ops}: {found}");
        assert!(found.iter().all(|finding| finding.code == Code::OverlappingCopy), "{ops}: {found}");
    }
}

#[test]
fn loops() {
    let body = |op: &mut mscclpp_plan::raw::Op, change: fn(&mut LoopBody)| change(op.body.as_mut().unwrap());
    refused_op(Code::BadLoop, OpKind::Pipeline, |op| body(op, |body| body.unit = 0));
    refused_op(Code::BadLoop, OpKind::Pipeline, |op| body(op, |body| body.unit = 24));
    refused(Code::BadLoop, |plan| plan.buffer_alignment = 128);
    let mut plan = crate::testing::plan(&[&["loop 24x1 { copy i0 > s0 }"], &[""]]);
    plan.buffer_alignment = 8;
    assert_eq!(check(&plan).into_iter().map(|finding| finding.code).collect::<Vec<_>>(), [Code::BadLoop]);
    refused_op(Code::BadLoop, OpKind::Pipeline, |op| body(op, |body| body.num_chunks = 0));
    refused_op(Code::BadLoop, OpKind::Pipeline, |op| body(op, |body| body.num_chunks = 4));
    refused_op(Code::BadLoop, OpKind::Pipeline, |op| {
        let inner = op.clone();
        body(op, |body| body.ops.clear());
        op.body.as_mut().unwrap().ops.push(inner);
    });
    refused_op(Code::BadLoop, OpKind::Pipeline, |op| op.body = None);
    refused_op(Code::BadLoop, OpKind::Nop, |op| {
        op.body = Some(Box::new(LoopBody { unit: 16, num_chunks: 1, ops: vec![] }))
    });
}

#[test]
fn findings_of_a_plan_full_of_mistakes_are_limited() {
    let mut plan = plan(&[&[""], &[""]]);
    let op = crate::testing::ops("signal.m#9").remove(0);
    plan.ranks[0].blocks[0].ops =
        (0..10_000).map(|i| mscclpp_plan::raw::Op { ids: [9 + i].into_iter().collect(), ..op.clone() }).collect();
    assert_eq!(check(&plan).len(), super::MAX_FINDINGS);
}

#[test]
fn long_lists_of_ranks_are_shortened() {
    assert_eq!(super::some(&[3, 1]), "3, 1");
    assert_eq!(super::some(&[7; 8]), "7, 7, 7, 7, 7, 7, 7, 7");
    assert_eq!(super::some(&[7; 9]), "7, 7, 7, 7, 7, 7, 7, 7, … (9 in all)");
}
