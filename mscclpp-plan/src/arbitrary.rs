//! Random trees for property tests: any value of the types, valid or not.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use mscclpp_plan::collective::{Collective, CollectiveKind};
use mscclpp_plan::origin::{Origin, Origins, SourceLocation};
use mscclpp_plan::raw::{
    BlockTable, BlockTables, BufferRef, ChannelTable, Count, Expectation, LoopBody, Op, OpKind, Operand, PlanTree,
    RankPlan, RemoteBuffer, Slice, ThreadBlock,
};
use mscclpp_plan::types::{BlockSync, BufferKind, ChannelKind, Protocol, ReduceOp};

/// Generates mostly small numbers, rarely a large one.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0..9_u32, 2 => 0..70_000_u32, 1 => any::<u32>()]
}

fn numbers() -> impl Strategy<Value = Vec<u32>> {
    vec(number(), 0..5)
}

fn kind() -> impl Strategy<Value = ChannelKind> {
    select(ChannelKind::ALL.to_vec())
}

fn buffer() -> impl Strategy<Value = BufferKind> {
    select(BufferKind::ALL.to_vec())
}

fn reference() -> impl Strategy<Value = Operand> {
    let place = prop_oneof![
        4 => buffer().prop_map(BufferRef::Local),
        3 => number().prop_map(BufferRef::Remote),
        1 => number().prop_map(BufferRef::Switch),
    ];
    (place, number(), number()).prop_map(|(place, index, size)| Operand::new(place, index, size))
}

fn op(depth: u32) -> BoxedStrategy<Op> {
    let body = if depth == 0 {
        Just(None).boxed()
    } else {
        let body = (any::<u64>(), number(), vec(op(depth - 1), 0..4));
        let body = body.prop_map(|(unit, num_chunks, ops)| Box::new(LoopBody { unit, num_chunks, ops }));
        option::weighted(0.2, body).boxed()
    };
    (
        (select(OpKind::ALL.to_vec()), option::of(kind()), option::of(select(ReduceOp::ALL.to_vec()))),
        select(vec![BlockSync::None, BlockSync::Before, BlockSync::After, BlockSync::Both]),
        option::weighted(0.2, (number(), number())),
        (vec(reference(), 0..4), vec(reference(), 0..4), numbers()),
        prop_oneof![3 => Just(0), 1 => number()],
        body,
        0..6_u32,
    )
        .prop_map(|((kind, channel, reduce), sync, slice, (srcs, dsts, ids), blocks, body, origin)| Op {
            kind,
            channel,
            reduce,
            sync,
            slice: slice.filter(|(index, _)| index % 3 > 0).map(|(index, of)| Slice { index, count: of }),
            count: slice.filter(|(index, _)| index % 3 < 2).map(|(sender, receiver)| Count { sender, receiver }),
            srcs: srcs.into(),
            dsts: dsts.into(),
            ids: ids.into(),
            num_blocks: blocks,
            body,
            origin: Origin(origin),
        })
        .boxed()
}

fn block() -> impl Strategy<Value = ThreadBlock> {
    let tables = || vec((kind(), numbers().prop_map(BlockTable::from)), 0..4).prop_map(BlockTables::from);
    (vec(op(2), 0..6), tables(), tables()).prop_map(|(ops, channels, remote_buffers)| ThreadBlock {
        ops,
        channels,
        remote_buffers,
    })
}

fn rank() -> impl Strategy<Value = RankPlan> {
    let table = prop_oneof![
        numbers().prop_map(ChannelTable::Memory),
        numbers().prop_map(ChannelTable::Port),
        (buffer(), vec(numbers(), 0..3)).prop_map(|(buffer, groups)| ChannelTable::Switch { buffer, groups }),
    ];
    let remote = (number(), buffer(), any::<bool>(), any::<bool>())
        .prop_map(|(rank, buffer, memory, port)| RemoteBuffer { rank, buffer, memory, port });
    (
        (number(), number(), number()),
        vec(block(), 0..4),
        vec(table, 0..4),
        vec(remote, 0..4),
        vec(prop_oneof![3 => -3..4_i64, 1 => any::<i64>()], 0..3),
    )
        .prop_map(
            |((input_chunks, output_chunks, scratch_chunks), blocks, channels, remote_buffers, semaphores)| RankPlan {
                input_chunks,
                output_chunks,
                scratch_chunks,
                blocks,
                channels,
                remote_buffers,
                semaphores,
            },
        )
}

fn collective() -> impl Strategy<Value = Collective> {
    let kind = (0..10_usize, number(), number()).prop_map(|(which, input, output)| {
        [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::AllToAll,
            CollectiveKind::AllToAllV,
            CollectiveKind::SendRecv,
            CollectiveKind::Broadcast,
            CollectiveKind::Reduce,
            CollectiveKind::Custom { input, output },
            CollectiveKind::Test { input, output },
        ][which]
    });
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (kind, number(), flags, number()).prop_map(|(kind, chunk_factor, (in_place, dividing, rows), root)| Collective {
        kind,
        chunk_factor,
        in_place,
        root,
        dividing,
        rows,
    })
}

/// Generates five source locations and the unknown one.
fn origins() -> Origins {
    let mut origins = Origins::default();
    for line in 1..6 {
        origins.add(SourceLocation {
            file: "src/ring.rs".into(),
            line,
            column: 9,
            variables: (1..line).map(|i| ("step".into(), if i == 4 { i128::MIN } else { i128::from(i) - 1 })).collect(),
            token: if line == 3 { u32::MAX } else { line * 7 },
            ..SourceLocation::default()
        });
    }
    origins
}

/// Generates any expectation.
fn expectation() -> impl Strategy<Value = Expectation> {
    (number(), number(), number(), vec((number(), number()), 0..3)).prop_map(|(rank, chunk, len, inputs)| Expectation {
        rank,
        chunk,
        len,
        inputs,
        origin: Origin::UNKNOWN,
    })
}

/// Generates any tree.
pub(crate) fn tree() -> impl Strategy<Value = PlanTree> {
    (
        ".{0,12}",
        collective(),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        (number(), number(), number()),
        (any::<u64>(), any::<u64>()),
        btree_map(".{0,5}", any::<i64>(), 0..4),
        (vec(rank(), 0..4), vec(expectation(), 0..3)),
    )
        .prop_map(
            |(
                name,
                collective,
                (low_latency, reuse_resources, double_scratch),
                numbers,
                sizes,
                tags,
                (ranks, expectations),
            )| {
                PlanTree {
                    name,
                    collective,
                    protocol: if low_latency { Protocol::LL } else { Protocol::Simple },
                    reuse_resources,
                    threads_per_block: numbers.0,
                    double_scratch,
                    buffer_alignment: numbers.1,
                    min_message_size: sizes.0,
                    max_message_size: sizes.1,
                    ranks_per_node: numbers.2,
                    tags,
                    ranks,
                    expectations,
                    origins: origins(),
                }
            },
        )
}
