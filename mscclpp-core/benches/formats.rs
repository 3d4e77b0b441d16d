//! What it costs to get at a plan: embedded, as an image from elsewhere, as a plan file of MSCCL++, and as text.
//!
//! The files are the reference plans of `MSCCLPP_CONFORMANCE`, if it is set, and all-pairs plans made here. The baseline of the
//! readers is what a general JSON library makes of the same text (`general`).
#![allow(clippy::disallowed_methods, reason = "it reads plan files")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::json::{ReadOptions, Style, read, write};
use mscclpp_core::plan::text::{parse, print};
use mscclpp_core::plan::{
    Plan,
    raw::{BufferRef, ChannelTable, Op, OpKind, Operand, PlanTree, RankPlan, RemoteBuffer, ThreadBlock},
};
use mscclpp_core::types::{BufferKind, ChannelKind, Protocol};

/// Every rank puts a chunk to every other in `rounds` rounds of handshake, put and handshake, one block per peer.
fn all_pairs(ranks: u32, rounds: u32) -> PlanTree {
    let sync = |kind| Op { channel: Some(ChannelKind::Memory), ids: [0].into_iter().collect(), ..op(kind) };
    let rank = |rank: u32| {
        let peers: Vec<u32> = (0..ranks).filter(|peer| *peer != rank).collect();
        let block = |(number, peer): (usize, &u32)| ThreadBlock {
            ops: (0..rounds)
                .flat_map(|_| {
                    [
                        sync(OpKind::RelaxedSignal),
                        sync(OpKind::RelaxedWait),
                        op(OpKind::Nop),
                        Op {
                            channel: Some(ChannelKind::Memory),
                            srcs: [Operand::local(BufferKind::Input, *peer, 1)].into_iter().collect(),
                            dsts: [Operand::new(BufferRef::Remote(0), rank, 1)].into_iter().collect(),
                            ..op(OpKind::Put)
                        },
                        op(OpKind::Nop),
                        sync(OpKind::Signal),
                        sync(OpKind::Wait),
                    ]
                })
                .collect(),
            channels: vec![(ChannelKind::Memory, vec![number as u32].into())].into(),
            remote_buffers: vec![(ChannelKind::Memory, vec![number as u32].into())].into(),
        };
        RankPlan {
            input_chunks: ranks,
            output_chunks: ranks,
            blocks: peers.iter().enumerate().map(block).collect(),
            remote_buffers: peers
                .iter()
                .map(|peer| RemoteBuffer { rank: *peer, buffer: BufferKind::Output, memory: true, port: false })
                .collect(),
            channels: vec![ChannelTable::Memory(peers)],
            ..RankPlan::default()
        }
    };
    PlanTree {
        name: format!("all_pairs_{ranks}"),
        collective: Collective::new(CollectiveKind::AllToAll),
        protocol: Protocol::Simple,
        reuse_resources: false,
        threads_per_block: 1024,
        double_scratch: false,
        buffer_alignment: 16,
        min_message_size: 0,
        max_message_size: u64::MAX,
        ranks_per_node: ranks,
        tags: Default::default(),
        ranks: (0..ranks).map(rank).collect(),
        expectations: Vec::new(),
        origins: Default::default(),
    }
}

fn op(kind: OpKind) -> Op {
    Op::new(kind, Origin::UNKNOWN)
}

/// Name and tree of each plan.
fn plans() -> Vec<(String, PlanTree)> {
    let mut plans: Vec<_> = [(8, 3), (64, 3)].into_iter().map(|(ranks, rounds)| all_pairs(ranks, rounds)).collect();
    if let Some(directory) = std::env::var_os("MSCCLPP_CONFORMANCE") {
        let slugs = [
            "single-allreduce-g8",
            "single-alltoall_ring_oop-g8",
            "default-allgather_multi_nodes-n1x8",
            "multi-allgather_tbg-n4x8-tbg1",
        ];
        for slug in slugs {
            let path = std::path::Path::new(&directory).join(format!("{slug}.json"));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            plans.push(read(&text, ReadOptions::default()).unwrap_or_else(|errors| panic!("{slug}: {errors}")).0);
        }
    }
    plans.into_iter().map(|tree| (format!("{}x{}", tree.name, tree.ranks.len()), tree)).collect()
}

/// Opens a plan and reads everything that a rank executes.
fn walk(plan: &Plan, rank: u32) -> u64 {
    let mut sum = 0;
    plan.check_header().expect("an image made here");
    let view = plan.rank(rank).expect("one of the plan's ranks");
    sum += view.peers(ChannelKind::Memory).chain(view.peers(ChannelKind::Port)).map(u64::from).sum::<u64>();
    sum += view.remote_buffers().map(|buffer| u64::from(buffer.rank)).sum::<u64>();
    for block in view.blocks() {
        let channels = block.channels(ChannelKind::Memory);
        for op in block.ops() {
            sum += op.kind() as u64 + u64::from(op.num_blocks());
            sum += op.ids().filter_map(|id| channels.get(id)).map(u64::from).sum::<u64>();
            sum += op.srcs().chain(op.dsts()).map(|at| u64::from(at.index + at.size)).sum::<u64>();
            sum += op.slice().map_or(0, |slice| u64::from(slice.index));
        }
    }
    sum
}

fn benches(c: &mut Criterion) {
    let plans = plans();
    let mut group = c.benchmark_group("image");
    for (name, tree) in &plans {
        let plan = Plan::new(tree);
        let rank = plan.num_ranks() / 2;
        let (image, origins): (&'static [u8], &'static [u8]) = (plan.image().to_vec().leak(), &[]);
        println!("{name}: {} bytes, {} operations on rank {rank}", image.len(), {
            plan.rank(rank).map_or(0, |view| view.blocks().map(|block| block.num_ops()).sum::<u32>())
        });
        group.bench_function(BenchmarkId::new("embedded_own_rank", name), |b| {
            b.iter(|| walk(&Plan::from_static(black_box(image), origins), rank));
        });
        group.bench_function(BenchmarkId::new("checked_from_bytes", name), |b| {
            b.iter(|| Plan::from_bytes(black_box(image).to_vec()));
        });
        group.bench_function(BenchmarkId::new("encode", name), |b| b.iter(|| Plan::new(black_box(tree))));
    }
    group.finish();

    let mut group = c.benchmark_group("json");
    for (name, tree) in &plans {
        let text = write(tree, Style::Compact);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(BenchmarkId::new("general", name), |b| {
            b.iter(|| serde_json::from_str::<serde_json::Value>(black_box(&text)));
        });
        group.bench_function(BenchmarkId::new("all_ranks", name), |b| {
            b.iter(|| read(black_box(&text), ReadOptions::default()));
        });
        group.bench_function(BenchmarkId::new("write", name), |b| b.iter(|| write(black_box(tree), Style::Compact)));
    }
    group.finish();

    let mut group = c.benchmark_group("text");
    for (name, tree) in &plans {
        let text = print(tree);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(BenchmarkId::new("parse", name), |b| b.iter(|| parse(black_box(&text))));
        group.bench_function(BenchmarkId::new("print", name), |b| b.iter(|| print(black_box(tree))));
    }
    group.finish();
}

criterion_group! {
    name = formats;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(800));
    targets = benches
}
criterion_main!(formats);
