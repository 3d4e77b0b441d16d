//! Sums of all ranks with normalized rows: in one launch, and in two.

use std::cell::RefCell;
use std::process::Command;

use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_exec::__half::bf16;
use mscclpp_exec::cuda::{Executor, PrepareOptions, PreparedPlan, RowOperands, Stream};
use mscclpp_exec::{DataType, Error, Message, RowNorm, cpu};
use mscclpp_select::{Backend, OrderPolicy, Request};

use super::Verdict;
use crate::baselines::Baselines;
use crate::bench::Bench;
use crate::measure::{Outcome, microseconds};
use crate::norm_kernels::{RowKernel, Rows};

const RANKS: u32 = 8;
const THREADS: u32 = 512;

/// Algorithms, with their numbers of thread blocks of a rank.
const FUSED: [(&str, &[usize]); 2] =
    [("allreduce_norm_one_shot", &[1, 2, 4, 8, 16]), ("allreduce_norm_two_shot", &[1, 2, 4, 8])];

pub(super) fn b13(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let (hidden, tokens): (usize, &[usize]) = if bench.rehearsal { (64, &[2]) } else { (7168, &[1, 8, 32, 128]) };
    if bench.device.compiler().is_err() {
        bench.say("there is no compiler for kernels of plans");
        return Ok(None);
    }
    let (mut separate, mut by_hand) = (0.0_f64, 0.0_f64);
    for &rows in tokens {
        let (name, fused) = fused(bench, rows, hidden)?;
        let (first, second) = apart(bench, rows, hidden)?;
        let hand = hand_written(bench, rows, hidden)?;
        let apart = first + second;
        bench.say(format_args!(
            "{rows:>4} rows: {fused:>7.2} us in one launch ({name}); {apart:>7.2} us apart ({first:.2} + {second:.2}); {hand:>7.2} us by hand"
        ));
        (separate, by_hand) = (separate.max(fused / apart), by_hand.max(fused / hand));
    }
    Ok(Some(Verdict {
        row: "B13",
        measured: format!("{separate:.2} of the time apart, {by_hand:.2} of the kernel by hand, at most"),
        must: ("no more than apart".into(), separate <= 1.0),
        bold: ("at most 1.2 of the kernel by hand".into(), by_hand <= 1.2),
    }))
}

/// Measures the fastest plan that normalizes in its launch, after its bits were compared with those of the CPU executor.
fn fused(bench: &Bench<'_>, rows: usize, hidden: usize) -> Outcome<(String, f64)> {
    let mut best: Option<(String, f64)> = None;
    for (name, counts) in FUSED {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        for &blocks in if bench.rehearsal { &counts[..1] } else { counts } {
            let mut spec = algorithm.spec(RANKS, RANKS);
            spec.collective.in_place = false;
            let is_divided = name == "allreduce_norm_one_shot";
            if !is_divided {
                spec.collective.chunk_factor = blocks as u32;
            }
            let plan = algorithm.plan(spec, if is_divided { std::slice::from_ref(&blocks) } else { &[] })?;
            let message = Message::rows::<bf16>(rows, hidden);
            let world = Executor::new(bench.device, RANKS);
            let mut run = match world.prepare_with_options(&plan, message, PrepareOptions::default().specialize(true)) {
                Err(Error::NotCoResident { .. }) => continue,
                run => run?,
            };
            let mut memory = Rows::new(bench.device, RANKS, rows, hidden)?;
            let operands: Vec<RowOperands> = memory
                .residuals
                .iter()
                .map(|residual| operands(residual.as_slice(), memory.gamma.as_slice()))
                .collect();
            compare(bench, &plan, &mut run, &mut memory, &operands)?;
            let binding = run.bind(memory.slices())?;
            let run = RefCell::new(&mut run);
            // SAFETY: memory of the device, which lives until the last launch is complete.
            let launch = |stream: &Stream| unsafe { run.borrow_mut().launch_rows(&binding, &operands, stream) };
            let times = bench.times(launch, |stream| run.borrow().synchronize(stream))?;
            let took = microseconds(times.graph);
            if best.as_ref().is_none_or(|(_, best)| took < *best) {
                best = Some((format!("{name}, {blocks} blocks"), took));
            }
        }
    }
    best.ok_or_else(|| "no plan that normalizes rows fits".into())
}

fn operands(residual: mscclpp_exec::cuda::DeviceSlice, gamma: mscclpp_exec::cuda::DeviceSlice) -> RowOperands {
    let (residual, gamma) = (Some(residual), Some(gamma));
    RowOperands { eps: Some(1e-6), residual, residual_out: residual, gamma, ..RowOperands::default() }
}

/// Compares a launch with one on the CPU, byte for byte.
fn compare(
    bench: &Bench<'_>,
    plan: &Plan,
    run: &mut PreparedPlan,
    memory: &mut Rows,
    operands: &[RowOperands],
) -> Outcome<()> {
    let (stream, len) = (bench.device.stream()?, memory.rows * memory.hidden);
    let binding = run.bind(memory.slices())?;
    // SAFETY: memory of the device, which lives until the launch is complete.
    unsafe { run.launch_rows(&binding, operands, &stream)? };
    run.synchronize(&stream)?;
    let mut cpu = cpu::Executor::new(RANKS).prepare(plan, Message::rows::<bf16>(memory.rows, memory.hidden))?;
    let inputs: Vec<Vec<bf16>> = (0..RANKS).map(|rank| Rows::input(rank, len)).collect();
    let (mut outputs, mut residuals) =
        (vec![vec![bf16::ZERO; len]; RANKS as usize], vec![vec![bf16::ZERO; len]; RANKS as usize]);
    let gamma = Rows::gamma(memory.hidden);
    let norm = |residual| RowNorm::new(1e-6).gamma(&gamma).residual_in_place(residual);
    cpu.launch_rows(&inputs, &mut outputs, residuals.iter_mut().map(|residual| norm(&mut residual[..])))?;
    for rank in 0..RANKS as usize {
        if memory.outputs[rank].to_vec()? != outputs[rank] || memory.residuals[rank].to_vec()? != residuals[rank] {
            return Err(format!("{}: the rows of rank {rank} are wrong", plan.name()).into());
        }
    }
    Ok(memory.reset()?)
}

/// Measures an all-reduce, and the norm of its result: that of PyTorch, or without it a kernel.
fn apart(bench: &Bench<'_>, rows: usize, hidden: usize) -> Outcome<(f64, f64)> {
    let bytes = (2 * rows * hidden) as u64;
    let request = Request {
        backend: Backend::Cuda,
        order: OrderPolicy::Any,
        ..Request::new(CollectiveKind::AllReduce, RANKS, DataType::BF16, bytes)
    };
    let found = bench.fastest(&request, PrepareOptions::default().specialize(true))?;
    let first = microseconds(found.ok_or("no algorithm fits")?.1.graph);
    let memory = Rows::new(bench.device, RANKS, rows, hidden)?;
    let kernel = RowKernel::new(bench.device, "norm_rows", &memory, rows as u32, THREADS)?;
    let times = bench.times(|stream| kernel.launch(stream), |stream| stream.synchronize())?;
    let kernel = microseconds(times.graph);
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let mut command = Command::new(&python);
    command.args(["-c", include_str!("../row_norm.py"), &(RANKS as usize * rows).to_string(), &hidden.to_string()]);
    let theirs = match command.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().ok(),
        _ => None,
    };
    match theirs {
        Some(theirs) => {
            bench.say(format_args!("      norm alone: {theirs:.2} us by PyTorch, {kernel:.2} us by a kernel"))
        }
        None => bench.say(format_args!("      norm alone: {kernel:.2} us by a kernel; no time of PyTorch")),
    }
    Ok((first, theirs.map_or(kernel, |theirs| theirs.min(kernel))))
}

/// Measures the kernel that was written by hand, after its rows were compared with those of the contract.
fn hand_written(bench: &Bench<'_>, rows: usize, hidden: usize) -> Outcome<f64> {
    let mut best = f64::INFINITY;
    for blocks in [1, 2, 4, 8, 16] {
        if blocks > rows as u32 {
            break;
        }
        let mut memory = Rows::new(bench.device, RANKS, rows, hidden)?;
        let kernel = match RowKernel::new(bench.device, "reduce_and_norm", &memory, blocks, THREADS) {
            Err(Error::NotCoResident { .. }) => break,
            kernel => kernel?,
        };
        let stream = bench.device.stream()?;
        kernel.launch(&stream)?;
        stream.synchronize()?;
        check(&memory)?;
        memory.reset()?;
        let times = bench.times(|stream| kernel.launch(stream), |stream| stream.synchronize())?;
        best = best.min(microseconds(times.graph));
    }
    Ok(best)
}

/// Fails unless the rows of every rank are normalized, whatever the order of the squares.
fn check(memory: &Rows) -> Outcome<()> {
    let (len, hidden) = (memory.rows * memory.hidden, memory.hidden);
    let inputs: Vec<Vec<bf16>> = (0..RANKS).map(|rank| Rows::input(rank, len)).collect();
    let sum =
        |i: usize| inputs[1..].iter().fold(inputs[0][i], |sum, input| bf16::from_f32(sum.to_f32() + input[i].to_f32()));
    let (sums, gamma): (Vec<f64>, _) = ((0..len).map(|i| sum(i).to_f64()).collect(), Rows::gamma(hidden));
    for (rank, output) in memory.outputs.iter().enumerate() {
        for (row, found) in output.to_vec()?.chunks(hidden).enumerate() {
            let sums = &sums[row * hidden..(row + 1) * hidden];
            let mean = sums.iter().map(|sum| sum * sum).sum::<f64>() / hidden as f64;
            let expected = |i: usize| sums[i] / (mean + 1e-6).sqrt() * gamma[i].to_f64();
            let is_wrong = |i: &usize| (found[*i].to_f64() - expected(*i)).abs() > 0.01 * expected(*i).abs() + 1e-3;
            if let Some(i) = (0..hidden).find(is_wrong) {
                let found = found[i];
                return Err(format!("rank {rank}, row {row}, element {i}: {found}, expected {}", expected(i)).into());
            }
        }
    }
    Ok(())
}
