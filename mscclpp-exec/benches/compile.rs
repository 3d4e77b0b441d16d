//! Native compilation of the built-in algorithms: recording and lowering, and writing plan JSON.
//!
//! `cargo bench -p mscclpp-exec --bench compile`; `docs/measured.md` contains the results.
#![allow(missing_docs, reason = "a benchmark has no readers of documentation")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::BuiltinAlgorithm;
use mscclpp_core::check::check;
use mscclpp_core::plan::{
    Plan, json,
    raw::{OpKind, PlanTree},
};

/// Builds the plan of an algorithm with its best specification for a number of ranks; `None` if it does not support
/// that number.
fn build(algorithm: &BuiltinAlgorithm, ranks: u32, ranks_per_node: u32) -> Option<PlanTree> {
    let arguments = algorithm.arguments([]).expect("defaults");
    algorithm.compile_tree(algorithm.spec(ranks, ranks_per_node), &arguments).ok()
}

fn operations(plan: &PlanTree) -> u64 {
    let blocks = plan.ranks.iter().flat_map(|rank| &rank.blocks);
    let body = |op: &mscclpp_core::plan::raw::Op| op.body.as_ref().map_or(0, |body| body.ops.len());
    blocks
        .flat_map(|block| &block.ops)
        .map(|op| 1 + if op.kind == OpKind::Pipeline { body(op) } else { 0 })
        .sum::<usize>() as u64
}

/// Every algorithm at 8 ranks: the plan in memory, the checked plan, the plan's JSON text.
fn eight_ranks(c: &mut Criterion) {
    let mut group = c.benchmark_group("compile/8");
    for algorithm in algorithms::all() {
        let Some(ranks_per_node) = algorithm.ranks_per_node(8) else { continue };
        let Some(plan) = build(algorithm, 8, ranks_per_node) else { continue };
        group.throughput(Throughput::Elements(operations(&plan)));
        group.bench_function(BenchmarkId::new("plan", algorithm.name()), |b| {
            b.iter(|| build(algorithm, 8, ranks_per_node))
        });
        group.bench_function(BenchmarkId::new("check", algorithm.name()), |b| b.iter(|| check(&plan)));
        group.bench_function(BenchmarkId::new("image", algorithm.name()), |b| b.iter(|| Plan::new(&plan)));
        group.bench_function(BenchmarkId::new("json", algorithm.name()), |b| {
            b.iter(|| json::write(&plan, json::Style::Compact));
        });
    }
    group.finish();
}

/// Growth with the number of ranks.
fn growth(c: &mut Criterion) {
    let mut group = c.benchmark_group("compile/growth");
    group.sample_size(10);
    for (name, sizes, ranks_per_node) in [
        ("alltoall_direct", &[8, 32, 64][..], None),
        ("allreduce_all_pairs", &[8, 16, 32, 64, 128, 256, 512, 1024][..], None),
        ("allreduce_hierarchical_packets", &[8, 16, 32, 64, 128, 256, 512, 1024][..], Some(8)),
    ] {
        let algorithm = algorithms::find(name).expect("a shipped algorithm");
        for &ranks in sizes {
            let per_node = ranks_per_node.unwrap_or(ranks);
            let Some(plan) = build(algorithm, ranks, per_node) else { continue };
            group.throughput(Throughput::Elements(operations(&plan)));
            group.bench_function(BenchmarkId::new(name, ranks), |b| b.iter(|| build(algorithm, ranks, per_node)));
            group.bench_function(BenchmarkId::new(format!("{name}/check"), ranks), |b| b.iter(|| check(&plan)));
        }
    }
    group.finish();
}

criterion_group!(benches, eight_ranks, growth);
criterion_main!(benches);
