//! A notation for operations, so that tests of lowering and checks read as tables.
//!
//! Operations are separated by `;`. One operation is its plan name with what it carries, then sources `>` destinations:
//! `put.m#0 i0+2 > r1:3+2` is a memory put through channel 0 from input chunks 0 and 1 to chunks 3 and 4 of remote
//! buffer 1. References: `i`, `o`, `s` local, `rN:` remote buffer N, `wN:` window of switch channel N. Suffixes of the
//! name, in this order: `.m`, `.p`, `.w` channel kind, `#1,2` ids, `=2` blocks of a barrier, `@before`, `@after`, `@both`
//! sync, `/0:2` slice 0 of 2, `~max` a reduction other than the sum. A pipeline is `loop 1024x4 { … }`.

use mscclpp_plan::collective::{Collective, CollectiveKind};
use mscclpp_plan::origin::Origin;
use mscclpp_plan::raw::{
    BlockTable, BufferRef, ChannelTable, LoopBody, Op, OpKind, Operand, PlanTree, RankPlan, RemoteBuffer, Slice,
    ThreadBlock,
};
use mscclpp_plan::types::{BlockSync, BufferKind, ChannelKind, Protocol, ReduceOp};

/// The operations of a text.
pub(crate) fn ops(text: &str) -> Vec<Op> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("loop ") {
            let (header, after) = after.split_once('{').expect("a loop has a body");
            let (body, after) = after.split_once('}').expect("a loop's body ends");
            let (unit, chunks) = header.trim().split_once('x').expect("a loop has unit x chunks");
            let mut op = Op::new(OpKind::Pipeline, Origin::UNKNOWN);
            op.body = Some(Box::new(LoopBody { unit: number(unit), num_chunks: number(chunks), ops: ops(body) }));
            out.push(op);
            rest = after.trim_start().trim_start_matches(';').trim_start();
        } else {
            let (text, after) = rest.split_once(';').unwrap_or((rest, ""));
            out.push(op(text.trim()));
            rest = after.trim_start();
        }
    }
    out
}

/// The text of operations: what [`ops`] reads.
pub(crate) fn text(ops: &[Op]) -> String {
    ops.iter().map(op_text).collect::<Vec<_>>().join("; ")
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.trim().parse().expect("a number")
}

fn op(text: &str) -> Op {
    let (head, references) = text.split_once(' ').unwrap_or((text, ""));
    let (head, reduce) = head.split_once('~').map_or((head, None), |(head, name)| (head, ReduceOp::from_name(name)));
    let (head, slice) = head.split_once('/').map_or((head, None), |(head, slice)| (head, Some(slice)));
    let (head, sync) = head.split_once('@').unwrap_or((head, "none"));
    let (head, blocks) = head.split_once('=').unwrap_or((head, "0"));
    let (head, ids) = head.split_once('#').unwrap_or((head, ""));
    let (name, channel) = head.split_once('.').unwrap_or((head, ""));
    let mut op = Op::new(OpKind::from_name(name).expect("a plan name"), Origin::UNKNOWN);
    op.channel = match channel {
        "m" => Some(ChannelKind::Memory),
        "p" => Some(ChannelKind::Port),
        "w" => Some(ChannelKind::Switch),
        _ => None,
    };
    op.reduce = reduce.or_else(|| op.kind.is_reduce().then_some(ReduceOp::Sum));
    op.sync = match sync {
        "before" => BlockSync::Before,
        "after" => BlockSync::After,
        "both" => BlockSync::Both,
        _ => BlockSync::None,
    };
    op.slice = slice.map(|slice| {
        let (index, of) = slice.split_once(':').expect("a slice is index:of");
        Slice { index: number(index), count: number(of) }
    });
    op.num_blocks = number(blocks);
    op.ids = ids.split(',').filter(|id| !id.is_empty()).map(number).collect();
    let (srcs, dsts) = references.split_once('>').unwrap_or((references, ""));
    op.srcs = srcs.split_whitespace().map(reference).collect();
    op.dsts = dsts.split_whitespace().map(reference).collect();
    op
}

fn reference(text: &str) -> Operand {
    let (range, size) = text.split_once('+').unwrap_or((text, "1"));
    let (place, index) = match range.split_once(':') {
        Some((place, index)) if place.starts_with('r') => (BufferRef::Remote(number(&place[1..])), index),
        Some((place, index)) => (BufferRef::Switch(number(&place[1..])), index),
        None => (BufferRef::Local(BufferKind::from_letter(&range[..1]).expect("a buffer letter")), &range[1..]),
    };
    Operand::new(place, number(index), number(size))
}

fn op_text(op: &Op) -> String {
    if let Some(body) = &op.body {
        return format!("loop {}x{} {{ {} }}", body.unit, body.num_chunks, text(&body.ops));
    }
    let mut out = op.kind.name().to_owned();
    out += match op.channel {
        Some(ChannelKind::Memory) => ".m",
        Some(ChannelKind::Port) => ".p",
        Some(ChannelKind::Switch) => ".w",
        None => "",
    };
    if !op.ids.is_empty() {
        out += &format!("#{}", op.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    }
    if op.num_blocks > 0 {
        out += &format!("={}", op.num_blocks);
    }
    out += match op.sync {
        BlockSync::None => "",
        BlockSync::Before => "@before",
        BlockSync::After => "@after",
        BlockSync::Both => "@both",
    };
    if let Some(slice) = op.slice {
        out += &format!("/{}:{}", slice.index, slice.count);
    }
    if let Some(reduce) = op.reduce.filter(|reduce| *reduce != ReduceOp::Sum) {
        out += &format!("~{reduce}");
    }
    for range in &op.srcs {
        out += &format!(" {}", reference_text(range));
    }
    if !op.dsts.is_empty() {
        out += " >";
    }
    for range in &op.dsts {
        out += &format!(" {}", reference_text(range));
    }
    out
}

fn reference_text(range: &Operand) -> String {
    let place = match range.buffer {
        BufferRef::Local(buffer) => buffer.letter().to_owned(),
        BufferRef::Remote(number) => format!("r{number}:"),
        BufferRef::Switch(number) => format!("w{number}:"),
    };
    let size = if range.size == 1 { String::new() } else { format!("+{}", range.size) };
    format!("{place}{}{size}", range.index)
}

/// The tables of a rank of `count`: 8 chunks of input, output and scratch, four memory and four port channels to the next rank, four
/// switch channels over all ranks' scratch, four semaphores, and the next rank's scratch, input and output as remote buffers 0, 1 and 2.
pub(crate) fn tables(rank: u32, count: u32) -> RankPlan {
    let next = (rank + 1) % count;
    let remote = |buffer| RemoteBuffer { rank: next, buffer, memory: true, port: true };
    let group = ChannelTable::Switch { buffer: BufferKind::Scratch, groups: vec![(0..count).collect()] };
    let mut channels = vec![ChannelTable::Memory(vec![next; 4]), ChannelTable::Port(vec![next; 4])];
    channels.extend(std::iter::repeat_n(group, 4));
    RankPlan {
        input_chunks: 8,
        output_chunks: 8,
        scratch_chunks: 8,
        blocks: Vec::new(),
        channels,
        remote_buffers: vec![remote(BufferKind::Scratch), remote(BufferKind::Input), remote(BufferKind::Output)],
        semaphores: vec![0; 4],
    }
}

/// The plan of a `test` collective with protocol `LL` whose blocks hold exactly these operations, with [`tables`] and identity block
/// tables.
pub(crate) fn plan(ranks: &[&[&str]]) -> PlanTree {
    let four = || (0..4).collect::<BlockTable>();
    let count = ranks.len() as u32;
    let block = |text: &&str| ThreadBlock {
        ops: ops(text),
        channels: ChannelKind::ALL.iter().map(|kind| (*kind, four())).collect(),
        remote_buffers: [ChannelKind::Memory, ChannelKind::Port]
            .map(|kind| (kind, (0..3).collect()))
            .into_iter()
            .collect(),
    };
    let rank = |(rank, blocks): (u32, &&[&str])| RankPlan {
        blocks: blocks.iter().map(block).collect(),
        ..tables(rank, count)
    };
    PlanTree {
        name: "test".into(),
        collective: Collective::new(CollectiveKind::Test { input: 8, output: 8 }),
        protocol: Protocol::LL,
        reuse_resources: false,
        threads_per_block: 1024,
        double_scratch: false,
        buffer_alignment: 16,
        min_message_size: 0,
        max_message_size: u64::MAX,
        ranks_per_node: count,
        tags: Default::default(),
        ranks: (0..).zip(ranks).map(rank).collect(),
        expectations: Vec::new(),
        origins: Default::default(),
    }
}

#[test]
fn text_is_what_it_reads() {
    let all = "put.m#0 i0+2 > r1:3+2; signal.p#0,1@both; re~max i0 s1 > o2; barrier#1=2; glres.w w0:1 > w0:1; \
               copy/1:4 i0 > s0; loop 1024x4 { nop; get.m#2 r0:1 > i1 }; sem_acquire#1@after";
    assert_eq!(text(&ops(all)), all);
}
