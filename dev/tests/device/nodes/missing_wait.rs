//! A plan without a wait, over an engine that delivers late and out of order.

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_exec::cuda::Executor;
use mscclpp_exec::{DataType, Message};

use super::super::processes::{Job, Work};

/// An all-gather in which rank 0 does not wait for the data of rank 1.
pub(super) fn missing_wait(world: &Executor, rank: u32) -> Result<(), Failed> {
    let algorithm = algorithms::find("allgather_ring_ports").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(2, 1), &algorithm.arguments([])?)?;
    let ops = &mut tree.ranks[0].blocks[0].ops;
    let at = ops.iter().rposition(|op| op.kind == OpKind::Wait).ok_or("no wait")?;
    ops.remove(at);
    Ok(Work::new(Plan::new(&tree), Message::new(DataType::F32, 1000).any_size(), 3)?.run(world, rank)?)
}

/// Seeds 0 to 4, or as many as `MSCCLPP_SOAK` says.
pub(super) fn missing_wait_is_found_with_every_seed() -> Result<(), Failed> {
    let seeds = std::env::var("MSCCLPP_SOAK").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(5);
    let mut missed = Vec::new();
    for seed in 0..seeds {
        let ended = Job::start("hostile_missing_wait", "simulator", seed, 2, 1)?.wait()?;
        let is_found = |(succeeded, text): &(bool, String)| {
            !succeeded && (text.contains("arrived after the operations of rank 0") || text.contains("expected 0x"))
        };
        if !ended.iter().any(is_found) {
            missed.push((seed, ended));
        }
    }
    println!("found with {} of {seeds} seeds", seeds as usize - missed.len());
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {missed:?}").into()) }
}
