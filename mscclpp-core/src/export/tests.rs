use super::*;
use crate::diag::Code;
use crate::origin::Origin;
use crate::plan::json::{ReadOptions, read};
use crate::plan::{BufferRef, Op, OpKind, Operand, Operands};
use crate::types::{BufferKind, ChannelKind, ReduceOp};

/// A plan of two ranks with the given operations in one block of rank 0.
fn plan(ops: Vec<Op>) -> PlanTree {
    let (mut plan, _) = read(include_str!("../../../mscclpp-plan/src/pair.json"), ReadOptions::default()).unwrap();
    plan.ranks[0].blocks.truncate(1);
    plan.ranks[0].blocks[0].ops = ops;
    plan
}

fn op(kind: OpKind, channel: Option<ChannelKind>) -> Op {
    Op { channel, reduce: kind.is_reduce().then_some(ReduceOp::Sum), ..Op::new(kind, Origin::UNKNOWN) }
}

fn local(index: u32) -> Operand {
    Operand::local(BufferKind::Input, index, 1)
}

fn remote(index: u32) -> Operand {
    Operand::new(BufferRef::Remote(index), 0, 1)
}

fn split(op: Op) -> Vec<Op> {
    let mut ops = vec![op];
    split::ops(&mut ops);
    ops
}

/// Kind, sources, destinations and ids of each piece.
fn shape(ops: &[Op]) -> Vec<(OpKind, usize, usize, usize)> {
    ops.iter().map(|op| (op.kind, op.srcs.len(), op.dsts.len(), op.ids.len())).collect()
}

const MEMORY: Option<ChannelKind> = Some(ChannelKind::Memory);
const PORT: Option<ChannelKind> = Some(ChannelKind::Port);

#[test]
fn long_lists_are_split_at_the_reference_limits() {
    use OpKind::*;
    let refs = |count: u32, one: fn(u32) -> Operand| (0..count).map(one).collect::<Operands>();
    let signal = Op { ids: (0..20).collect(), ..op(Signal, MEMORY) };
    assert_eq!(shape(&split(signal)), [(Signal, 0, 0, 8), (Signal, 0, 0, 8), (Signal, 0, 0, 4)]);
    let acquire = Op { ids: (0..17).collect(), ..op(SemaphoreAcquire, None) };
    assert_eq!(shape(&split(acquire)), [(SemaphoreAcquire, 0, 0, 16), (SemaphoreAcquire, 0, 0, 1)]);
    let put = Op { srcs: refs(15, local), dsts: refs(15, remote), ids: (0..15).collect(), ..op(PutWithSignal, PORT) };
    let pieces = split(put.clone());
    assert_eq!(shape(&pieces), [(PutWithSignal, 8, 8, 8), (PutWithSignal, 7, 7, 7)]);
    let joined: Operands = pieces.iter().flat_map(|piece| piece.dsts.clone()).collect();
    assert_eq!(joined, put.dsts);
    let forward = Op { srcs: refs(1, local), dsts: refs(9, remote), ids: (0..9).collect(), ..op(ReadPutPackets, PORT) };
    assert_eq!(shape(&split(forward)), [(ReadPutPackets, 1, 8, 8), (ReadPutPackets, 1, 1, 1)]);
    // Nine channels are too many, eight are not.
    let put = Op { srcs: refs(8, local), dsts: refs(8, remote), ..op(Put, MEMORY) };
    assert_eq!(split(put.clone()), [put]);
}

#[test]
fn reductions_go_on_from_their_own_result() {
    use OpKind::*;
    let result = Operand::local(BufferKind::Output, 0, 1);
    let reduce = Op { srcs: (0..21).map(local).collect(), dsts: [result].into_iter().collect(), ..op(Reduce, None) };
    let pieces = split(reduce.clone());
    assert_eq!(shape(&pieces), [(Reduce, 10, 1, 0), (Reduce, 10, 1, 0), (Reduce, 3, 1, 0)]);
    assert!(pieces[1..].iter().all(|piece| piece.srcs[0] == result));
    let order: Vec<Operand> = pieces.iter().flat_map(|piece| piece.srcs.to_vec()).filter(|at| *at != result).collect();
    assert_eq!(order, reduce.srcs.to_vec());
    // The result is one of the later sources: a piece would read it too late.
    let stuck = Op { dsts: [local(15)].into_iter().collect(), ..reduce };
    assert_eq!(split(stuck.clone()), [stuck]);

    let sent = Op {
        srcs: [local(0)].into_iter().chain((0..9).map(remote)).collect(),
        dsts: [result].into_iter().chain((0..17).map(remote)).collect(),
        ..op(ReadReduceSend, MEMORY)
    };
    let pieces = split(sent);
    let sent = [(ReadReduceSend, 2, 9, 0), (Nop, 0, 0, 0), (Put, 8, 8, 0), (Put, 1, 1, 0)];
    assert_eq!(shape(&pieces), [&[(ReadReduce, 9, 1, 0)][..], &sent].concat());
    assert!(pieces[3].srcs.iter().all(|at| *at == result) && pieces[3].reduce.is_none());
    let packets = Op {
        srcs: (0..3).map(local).collect(),
        dsts: [result, local(7)].into_iter().chain((0..9).map(remote)).collect(),
        ..op(ReduceCopySendPackets, MEMORY)
    };
    let pieces = [(ReduceCopySendPackets, 3, 10, 0), (Nop, 0, 0, 0), (PutPackets, 1, 1, 0)];
    assert_eq!(shape(&split(packets)), pieces);
}

#[test]
fn memory_puts_have_one_source_buffer() {
    let scratch = Operand::local(BufferKind::Scratch, 0, 1);
    let srcs: Operands = [local(0), local(1), scratch, local(2)].into_iter().collect();
    let put = Op { srcs, dsts: (0..4).map(remote).collect(), ..op(OpKind::Put, MEMORY) };
    assert_eq!(split(put.clone()).iter().map(|piece| piece.srcs.len()).collect::<Vec<_>>(), [2, 1, 1]);
    let port = Op { ids: (0..4).collect(), channel: PORT, ..put };
    assert_eq!(split(port.clone()), [port]);
}

/// Messages of the findings for a block with these operations.
fn messages(plan: &PlanTree) -> Vec<String> {
    for_reference(plan).map_or_else(|found| found.iter().map(|one| one.message.clone()).collect(), |_| Vec::new())
}

#[test]
fn what_cannot_be_split_is_refused_with_count_and_limit() {
    let nops = |count| plan(vec![op(OpKind::Nop, None); count]);
    assert_eq!(messages(&nops(64)), [""; 0]);
    let found = for_reference(&nops(65)).unwrap_err().to_string();
    assert!(
        found.starts_with(
            "error: thread block 0 of rank 0 has 65 operations, the limit of the reference executor is 64\n"
        ),
        "{found}"
    );
    assert!(found.contains("--> rank 0 / thread block 0"), "{found}");
    let mut wide = nops(1);
    wide.ranks[0].blocks[0].channels[0].1 = (0..17).collect();
    assert_eq!(
        messages(&wide),
        ["thread block 0 of rank 0 has 17 memory channels, the limit of the reference executor is 16"]
    );
    let barrier = Op { ids: [16].into_iter().collect(), num_blocks: 2, ..op(OpKind::Barrier, None) };
    let message =
        "`barrier` (rank 0, thread block 0) has 17 barriers on its rank, the limit of the reference executor is 16";
    assert_eq!(messages(&plan(vec![barrier])), [message]);
    let mut threads = nops(1);
    threads.threads_per_block = 1025;
    assert_eq!(messages(&threads), ["1025 threads in a thread block, the limit of the reference executor is 1024"]);
}

#[test]
fn what_the_reference_does_wrongly_is_refused() {
    let max = Op {
        reduce: Some(ReduceOp::Max),
        srcs: [local(0), local(1)].into_iter().collect(),
        dsts: [local(0)].into_iter().collect(),
        ..op(OpKind::Reduce, None)
    };
    assert_eq!(
        messages(&plan(vec![max.clone()])),
        ["`re` (rank 0, thread block 0) reduces with max, but the reference executor always adds"]
    );
    let found = for_reference(&plan(vec![max])).unwrap_err();
    assert!(found.iter().all(|one| one.code == Code::NotInReference), "{found}");
    let get = Op {
        srcs: [Operand { index: 1, ..remote(0) }].into_iter().collect(),
        dsts: [local(0)].into_iter().collect(),
        ids: [0].into_iter().collect(),
        ..op(OpKind::Get, MEMORY)
    };
    assert_eq!(messages(&plan(vec![get])).len(), 1);
    assert_eq!(messages(&plan(vec![op(OpKind::SwitchReduce, Some(ChannelKind::Switch))])).len(), 1);
    let mut halves = plan(Vec::new());
    halves.double_scratch = true;
    halves.ranks[1].scratch_chunks += 1;
    assert_eq!(messages(&halves).len(), 1);
    let mut empty = plan(Vec::new());
    empty.ranks[1].output_chunks = 0;
    assert_eq!(messages(&empty), ["rank 1 has no output chunks, but the reference executor divides by their number"]);
}

#[test]
fn message_sizes_keep_offsets_in_32_bits() {
    let put = |index| {
        let srcs = [Operand::local(BufferKind::Input, index, 1)].into_iter().collect();
        plan(vec![Op { srcs, dsts: [remote(0)].into_iter().collect(), ..op(OpKind::Put, MEMORY) }])
    };
    let mut open = put(7);
    open.max_message_size = u64::MAX;
    // Eight chunks reach 32 bits at chunks of 2^29 - 1 bytes; the input has two.
    let largest = (u64::from(u32::MAX) / 8) * 2;
    assert_eq!(for_reference(&open).unwrap().max_message_size, largest);
    let mut stated = put(7);
    stated.max_message_size = largest;
    assert_eq!(for_reference(&stated).unwrap().max_message_size, largest);
    stated.max_message_size = largest + 1;
    let found = for_reference(&stated).unwrap_err();
    assert!(found.iter().all(|one| one.code == Code::OverLimit), "{found}");
    assert!(found.to_string().contains(&format!("set the maximum of `message_size` to {largest} bytes")), "{found}");
}

#[test]
fn nothing_of_ours_is_left() {
    let mut ours = plan(Vec::new());
    ours.tags.insert("nvls".into(), 1);
    ours.ranks_per_node = 1;
    ours.collective.kind = CollectiveKind::Broadcast;
    ours.collective.root = 1;
    ours.collective.chunk_factor = 9;
    let text = json::write(&for_reference(&ours).unwrap(), json::Style::Compact);
    assert!(text.contains(r#""collective":"custom""#), "{text}");
    for key in ["tags", "ranks_per_node", "root", "chunk_factor"] {
        assert!(!text.contains(&format!("\"{key}\"")), "{key}: {text}");
    }
}
