//! Cost of the CPU executor, each number with a baseline of the same run.
//!
//! * `roof`: an all-reduce compared with the copies that it needs at least, `memcpy` by as many threads. On n ranks
//!   with S bytes each, n·S bytes must be read and as many written.
//! * `interpreter`: a plan compared with a hand-written loop with the same effect, on one thread.
//! * `launch`: small messages; time per operation of the plan.
//! * `prepare`: from a plan in memory to a prepared plan, for the first time and for another size.
//!
//! The ratios are of the fastest of interleaved runs. All written data is read afterwards, inputs differ from run to
//! run.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use mscclpp_algorithms as algorithms;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cpu::{Executor, Options};
use mscclpp_exec::verify::Verifier;
use mscclpp_exec::{DataType, Message};

const RANKS: u32 = 8;

fn plan(name: &str, ranks: u32) -> Plan {
    let algorithm = algorithms::find(name).unwrap_or_else(|| panic!("{name}"));
    let spec = algorithm.spec(ranks, ranks);
    let trace = algorithm.record(spec, &algorithm.arguments([]).expect("defaults")).expect(name);
    Plan::new(&lower(&trace).expect(name))
}

fn operations(plan: &Plan) -> usize {
    plan.ranks().flat_map(|rank| rank.blocks()).map(|block| block.num_ops() as usize).sum()
}

fn time(mut f: impl FnMut()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

/// Returns the fastest of `rounds` runs of each contender, run in turn.
fn fastest<const N: usize>(rounds: usize, mut contenders: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..rounds {
        for (best, contender) in best.iter_mut().zip(&mut contenders) {
            *best = (*best).min(time(&mut **contender));
        }
    }
    best
}

fn run(plan: &Plan, bytes: usize, workers: usize) -> (mscclpp_exec::cpu::PreparedPlan, mscclpp_exec::cpu::Buffers) {
    let options = Options::default().workers(Some(workers));
    let count = (bytes / 4).next_multiple_of(plan.num_ranks() as usize) as u64;
    let run = Executor::with_options(plan.num_ranks(), options)
        .prepare(plan, Message::new(DataType::F32, count).any_size())
        .expect("a message of any size");
    let buffers = run.buffers().expect("memory");
    (run, buffers)
}

/// Copies with `threads` threads at once.
fn copy(to: &mut [u8], from: &[u8], threads: usize) {
    let part = to.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let mut parts = to.chunks_mut(part).zip(from.chunks(part));
        let own = parts.next();
        for (to, from) in parts {
            scope.spawn(move || to.copy_from_slice(from));
        }
        if let Some((to, from)) = own {
            to.copy_from_slice(from);
        }
    });
}

fn roof(_: &mut Criterion) {
    let bytes = 64 << 20;
    let mut from = vec![1_u8; bytes * RANKS as usize];
    let mut to = vec![2_u8; bytes * RANKS as usize];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for name in ["allreduce_all_pairs", "allreduce_switch", "allreduce_ring"] {
        let plan = plan(name, RANKS);
        for workers in [1, cores] {
            let (mut run, mut buffers) = run(&plan, bytes, workers);
            let verifier = Verifier::new(&run, 1);
            verifier.fill(&mut buffers);
            run.launch_buffers(&mut buffers).expect(name);
            assert!(verifier.check(&buffers).is_correct(), "{name}");
            let mut launch = || run.launch_buffers(&mut buffers).expect(name);
            let mut baseline = || {
                from[0] = from[0].wrapping_add(1);
                copy(&mut to, black_box(&from), workers);
                black_box(&to);
            };
            let [launch, baseline] = fastest(7, [&mut launch, &mut baseline]);
            let ratio = launch.as_secs_f64() / baseline.as_secs_f64();
            println!("roof/{name}: 64 MiB, {RANKS} ranks, {workers} workers: {ratio:.2} x memcpy ({launch:.1?})");
        }
    }
}

/// Has the effect of `allreduce_switch` without a plan: each chunk is summed over all ranks and stored in all.
fn by_hand(ranks: &mut [Vec<f32>], acc: &mut [f32]) {
    let chunk = ranks[0].len() / ranks.len();
    for own in 0..ranks.len() {
        for start in (own * chunk..(own + 1) * chunk).step_by(acc.len()) {
            let range = start..(start + acc.len()).min((own + 1) * chunk);
            let acc = &mut acc[..range.len()];
            acc.copy_from_slice(&ranks[0][range.clone()]);
            for rank in &ranks[1..] {
                acc.iter_mut().zip(&rank[range.clone()]).for_each(|(acc, value)| *acc += value);
            }
            ranks.iter_mut().for_each(|rank| rank[range.clone()].copy_from_slice(acc));
        }
    }
}

fn interpreter(_: &mut Criterion) {
    for ranks in [2, RANKS] {
        let plan = plan("allreduce_switch", ranks);
        for bytes in [1 << 10, 64 << 10, 1 << 20, 16 << 20] {
            let (mut run, mut buffers) = run(&plan, bytes, 1);
            let mut own = vec![vec![1.0_f32; bytes / 4]; ranks as usize];
            let mut acc = [0.0; 128];
            let rounds = ((256 << 20) / bytes / ranks as usize).clamp(20, 20_000);
            let mut launch = || run.launch_buffers(&mut buffers).expect("it runs");
            // Values grow without bound; additions of infinities take as long.
            let mut hand = || by_hand(black_box(&mut own), &mut acc);
            let [launch, hand] = fastest(rounds, [&mut launch, &mut hand]);
            let ratio = launch.as_secs_f64() / hand.as_secs_f64();
            println!("interpreter/{bytes} bytes, {ranks} ranks: {ratio:.2} x by hand ({launch:.2?} and {hand:.2?})");
        }
    }
}

fn launch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("launch/1 KiB");
    for (name, ranks) in [
        ("allreduce_all_pairs", 2),
        ("allreduce_packets", 2),
        ("allreduce_packets", RANKS),
        ("allreduce_ring", RANKS),
        ("allreduce_switch", RANKS),
        ("alltoall_direct", RANKS),
    ] {
        let plan = plan(name, ranks);
        let (mut run, mut buffers) = run(&plan, 1024, 1);
        let [fastest] = fastest(2000, [&mut || run.launch_buffers(&mut buffers).expect(name)]);
        let each = fastest.as_nanos() as f64 / operations(&plan) as f64;
        println!("launch/{name}, {ranks} ranks: {fastest:.2?}, {each:.1} ns per operation");
        group.bench_function(format!("{name}/{ranks} ranks"), |bencher| {
            bencher.iter(|| run.launch_buffers(&mut buffers).expect(name));
        });
    }
}

fn prepare(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("prepare");
    for (name, ranks) in [("allreduce_packets", 8), ("allreduce_all_pairs", 8), ("alltoall_direct", 64)] {
        let plan = plan(name, ranks);
        println!("prepare/{name}, {ranks} ranks: {} operations", operations(&plan));
        let message = |k: u64| Message::new(DataType::F32, u64::from(ranks) * (64 + k)).any_size();
        group.bench_function(format!("{name}/{ranks} ranks/first"), |bencher| {
            bencher.iter(|| Executor::new(ranks).prepare(black_box(&plan), message(0)).expect(name));
        });
        let world = Executor::new(ranks);
        world.prepare(&plan, message(64)).expect(name);
        let mut k = 0;
        group.bench_function(format!("{name}/{ranks} ranks/another size"), |bencher| {
            bencher.iter(|| {
                k = (k + 1) % 64;
                world.prepare(black_box(&plan), message(k)).expect(name)
            });
        });
    }
}

criterion_group!(benches, roof, interpreter, launch, prepare);
criterion_main!(benches);
