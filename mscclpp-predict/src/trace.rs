//! Predictions as traces.

use std::collections::BTreeMap;

use mscclpp_check::execution::{Dependency, Execution, Node, record_execution_with_memory};
use mscclpp_check::{original_site, representative};
use mscclpp_plan::diag::Site;
use mscclpp_plan::raw::{Op, PlanTree};
use mscclpp_plan::text::{BlockNames, Operation, RankNames};
use mscclpp_trace::{Arrow, Change, Class, Lane, LinkUse, Memory, Slice, Trace, Unit};

use crate::error::PredictError;
use crate::machine::Machine;
use crate::prediction::{Prediction, usage};

/// Returns the trace of a prediction for messages of the given number of bytes: the operations of all thread blocks and ports with
/// what they wait for, the critical path, the use of links, and what chunks hold. Of equal instances of a plan, and of a pipeline
/// that was simulated in part, it shows what was simulated.
///
/// # Cost
/// That of the prediction, twice.
///
/// # Errors
/// [`PredictError`].
pub fn trace(
    plan: &PlanTree,
    machine: &Machine,
    bytes: u64,
    tier: Option<&str>,
    found: &Prediction,
) -> Result<Trace, PredictError> {
    let plan = &*representative(plan);
    let (run, timeline) = (&*found.execution, &found.timeline);
    let mut lanes: BTreeMap<(u32, u32, bool), u32> = BTreeMap::new();
    // The opening of a barrier takes no time and is no operation of its own.
    let shown: Vec<usize> = (0..run.nodes.len()).filter(|node| !run.nodes[*node].opening).collect();
    shown.iter().map(|node| &run.nodes[*node]).for_each(|node| _ = lanes.insert(lane_of(node), 0));
    lanes.values_mut().zip(0..).for_each(|(lane, number)| *lane = number);
    let mut trace = Trace { title: plan.name.clone(), unit: Unit::Microseconds, ..Trace::default() };
    trace.lanes = lanes.keys().map(|&(rank, block, is_port)| lane(run, rank, block, is_port)).collect();
    let path = timeline.critical_path();
    let mut is_critical = vec![false; run.nodes.len()];
    path.iter().for_each(|node| is_critical[*node as usize] = true);
    let names: Vec<RankNames> = plan.ranks.iter().map(RankNames::new).collect();
    let mut slice_of: Vec<Option<u32>> = vec![None; run.nodes.len()];
    for &number in &shown {
        let (node, span) = (&run.nodes[number], &timeline.spans[number]);
        let class = if node.transfer { Class::Transfer } else { Class::of(node.kind) };
        let mut slice = Slice::new(lanes[&lane_of(node)], (span.start, span.end), class, node.kind.name());
        slice.critical = is_critical[number];
        details(plan, run, number, &names, &mut slice);
        slice_of[number] = Some(trace.slices.len() as u32);
        trace.slices.push(slice);
    }
    arrows(run, &is_critical, &slice_of, &mut trace);
    let (topology, usage) = usage(plan, machine, bytes, tier, run)?;
    trace.links = topology
        .edges
        .iter()
        .zip(usage)
        .map(|(edge, samples)| LinkUse {
            name: format!("{} to {}", topology.names[edge.from], topology.names[edge.to]),
            samples,
        })
        .collect();
    trace.memory = memory(plan, run, &slice_of)?;
    if run.num_instances > 1 {
        trace.notes.push(format!(
            "One of {} equal instances is shown, which do the same at the same time: numbers of thread blocks are those of the first one.",
            run.num_instances
        ));
    }
    Ok(trace)
}

/// Returns rank, thread block, and whether a port executes a node.
fn lane_of(node: &Node) -> (u32, u32, bool) {
    (node.rank, node.block, node.transfer)
}

fn lane(run: &Execution, rank: u32, block: u32, is_port: bool) -> Lane {
    let plan_block = block.saturating_mul(run.num_instances.max(1));
    let what = if is_port { "ports of " } else { "" };
    Lane::of_rank(rank, block.saturating_mul(2) + u32::from(is_port), format!("{what}thread block {plan_block}"))
}

/// Returns the operation of a node.
fn op<'p>(plan: &'p PlanTree, run: &Execution, node: &Node) -> Option<&'p Op> {
    let block = plan.ranks.get(node.rank as usize)?.blocks.get(run.plan_block(node) as usize)?;
    let op = block.ops.get(node.position.0 as usize)?;
    match node.position.1.checked_sub(1) {
        Some(inner) => op.body.as_ref()?.ops.get(inner as usize),
        None => Some(op),
    }
}

/// Adds the operation, the bytes that it writes, and its source.
fn details(plan: &PlanTree, run: &Execution, number: usize, names: &[RankNames], slice: &mut Slice) {
    let node = &run.nodes[number];
    if let Some(op) = op(plan, run, node) {
        let block = &plan.ranks[node.rank as usize].blocks[run.plan_block(node) as usize];
        let text = Operation { op, names: &BlockNames::new(&names[node.rank as usize], block) }.to_string();
        slice.details.insert("op".into(), text.into());
        if let Some(source) = plan.origins.get(op.origin) {
            let source = original_site(Site::Source(source.clone())).to_string();
            slice.details.insert("source".into(), source.into());
        }
    }
    let written: u64 = run.accesses(number).iter().filter(|access| access.write).map(|access| access.bytes).sum();
    if written > 0 {
        slice.details.insert("writes".into(), format!("{written} bytes").into());
    }
}

/// Adds the dependencies between thread blocks and ports. Those over the opening of a barrier lead from the last arrival.
fn arrows(run: &Execution, is_critical: &[bool], slice_of: &[Option<u32>], trace: &mut Trace) {
    for (number, to) in slice_of.iter().enumerate() {
        let Some(to) = *to else { continue };
        for &(from, why) in run.dependencies(number) {
            let what = match why {
                Dependency::Order => continue,
                Dependency::Signal => "signal",
                Dependency::Release => "release",
                Dependency::Packets => "packets",
                Dependency::Flush => "flush",
                Dependency::Barrier => "barrier",
                Dependency::Post => "port",
            };
            let arrivals: Vec<u32> = match run.nodes[from as usize].opening {
                true => run.dependencies(from as usize).iter().map(|(arrival, _)| *arrival).collect(),
                false => vec![from],
            };
            let ends = arrivals.into_iter().filter_map(|node| Some((slice_of[node as usize]?, node)));
            let last =
                ends.max_by(|(a, _), (b, _)| trace.slices[*a as usize].end.total_cmp(&trace.slices[*b as usize].end));
            if let Some((from, node)) = last {
                let critical = is_critical[node as usize] && is_critical[number];
                trace.arrows.push(Arrow { from, to, what, critical });
            }
        }
    }
}

/// Returns what chunks hold, by slice.
fn memory(plan: &PlanTree, run: &Execution, slice_of: &[Option<u32>]) -> Result<Option<Memory>, PredictError> {
    let (again, memory) = record_execution_with_memory(plan, run.chunk_bytes)?;
    // Recording is deterministic, so the nodes are those of the prediction.
    let memory = memory.filter(|_| again.nodes.len() == run.nodes.len());
    Ok(memory.map(|memory| {
        let of_slice = |change: Change| Some(Change { slice: slice_of[change.slice as usize]?, ..change });
        let changes = memory.changes.iter().filter_map(|change| of_slice(*change)).collect();
        Memory { changes, ..memory }
    }))
}
