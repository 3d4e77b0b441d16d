//! `mscclpp simulate`: the predicted time of a plan on a machine.

use std::process::ExitCode;

use mscclpp_core::check::check;
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_predict::{Bound, Cause, Machine, PredictError, Prediction, lower_bound_of_root, predict, trace};
use serde_json::{Value, json};

use super::bound::us;
use super::machine::{accuracy, load};
use crate::args::SimulateArgs;
use crate::error::{Error, Result};
use crate::exchange::{Messages, chakra, goal};
use crate::output::{print, print_json, write_file};
use crate::report::three_digits;
use crate::size::human;
use crate::table::Columns;
use crate::{exit, source};

/// Number of operations of the critical path that are shown.
const MAX_SHOWN_OPS: usize = 10;

/// Predicts the time of a plan. A plan file is checked first; the tests of this project check the built-in algorithms.
///
/// # Errors
/// Those of loading the plan and the machine; [`Error::Findings`] for a plan that the checks refuse; failures of the output;
/// [`Error::Usage`] for ranks, links or tiers that the machine does not have, and for two outputs in one file.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<ExitCode> {
    check_outputs(args)?;
    let machine = load(&args.machine)?;
    let source = source::load_for(&args.source, &machine)?;
    let is_file = source.is_file;
    let plan = source.warned();
    let findings = if is_file { check(&plan) } else { Diagnostics::default() };
    if !findings.is_empty() {
        return Err(Error::Findings { what: format!("plan `{}` is refused, so it has no time", plan.name), findings });
    }
    let found = predict(&plan, &machine, args.size, args.tier.as_deref()).map_err(|error| match error {
        PredictError::Plan(findings) => Error::Findings { what: format!("plan `{}` has no time", plan.name), findings },
        other => Error::Usage(other.to_string()),
    })?;
    // A custom collective has no bound.
    let bound =
        lower_bound_of_root(plan.collective.kind, plan.collective.root, &machine, plan.ranks.len() as u32, args.size)
            .ok();
    if args.html.is_some() || args.trace.is_some() {
        let mut trace = trace(&plan, &machine, args.size, args.tier.as_deref(), &found)
            .map_err(|error| Error::Usage(error.to_string()))?;
        if let Some(path) = &args.trace {
            let text = serde_json::to_vec(&trace)
                .map_err(|error| Error::Write { path: path.to_owned(), source: error.into() })?;
            write_file(path, &text)?;
        }
        let mut lines = summary(args, &machine, &plan, &found, bound.as_ref()).into_iter();
        trace.title = lines.next().unwrap_or_default();
        trace.notes.splice(0..0, lines);
        // A part of a pipeline ends before the bound of the whole message.
        trace.bound = bound.as_ref().map(|bound| bound.time_us).filter(|_| !found.partial);
        if let Some(path) = &args.html {
            write_file(path, trace.page().as_bytes())?;
        }
    }
    write_messages(args, &found, plan.ranks.len())?;
    if args.json {
        print_json(&value(args, &machine, &plan, &found, bound.as_ref()))?;
    } else {
        print(text(args, &machine, &plan, &found, bound.as_ref()))?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

/// Returns an error if two outputs are written to one file.
fn check_outputs(args: &SimulateArgs) -> Result<()> {
    let paths: Vec<_> = [&args.html, &args.trace, &args.goal].into_iter().flatten().collect();
    match paths.iter().enumerate().find(|(i, path)| paths[..*i].contains(path)) {
        Some((_, path)) => {
            let path = path.display();
            Err(Error::Usage(format!("--html, --trace, --goal: expected different files, found {path} twice")))
        }
        None => Ok(()),
    }
}

/// Writes the messages of an execution for other simulators, in the formats that are asked for.
fn write_messages(args: &SimulateArgs, found: &Prediction, num_ranks: usize) -> Result<()> {
    if args.goal.is_none() && args.chakra.is_none() {
        return Ok(());
    }
    if found.partial {
        let reason =
            "expected a message of which the whole execution is simulated, found a long pipeline; use a smaller size";
        return Err(Error::Usage(format!("--goal, --chakra: {reason}")));
    }
    let messages = Messages::of(&found.execution, &found.timeline.spans, num_ranks);
    if let Some(path) = &args.goal {
        write_file(path, goal::text(&messages).as_bytes())?;
    }
    if let Some(prefix) = &args.chakra {
        for rank in 0..num_ranks {
            let mut path = prefix.clone().into_os_string();
            path.push(format!(".{rank}.et"));
            write_file(path.as_ref(), &chakra::file(&messages, rank))?;
        }
    }
    Ok(())
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Launch => "launch",
        Cause::Operations => "operations",
        Cause::Latency => "latency",
        Cause::Data => "data",
    }
}

/// Returns the operations of the critical path that take longest: rank, thread block, operation, start, and duration.
fn longest(found: &Prediction) -> Vec<(u32, u32, String, f64, f64)> {
    let (run, timeline) = (&found.execution, &found.timeline);
    // The opening of a barrier takes no time and is no operation of its own.
    let path =
        timeline.critical_path().into_iter().filter(|number| !run.nodes[*number as usize].opening).map(|number| {
            let node = &run.nodes[number as usize];
            let name =
                if node.transfer { format!("transfer of {}", node.kind.name()) } else { node.kind.name().to_owned() };
            let ready = timeline.ready(number);
            (node.rank, run.plan_block(node), name, ready, timeline.spans[number as usize].end - ready)
        });
    let mut path: Vec<_> = path.enumerate().collect();
    path.sort_by(|(_, a), (_, b)| b.4.total_cmp(&a.4));
    path.truncate(MAX_SHOWN_OPS);
    path.sort_by_key(|(position, _)| *position);
    path.into_iter().map(|(_, operation)| operation).collect()
}

fn value(args: &SimulateArgs, machine: &Machine, plan: &PlanTree, found: &Prediction, bound: Option<&Bound>) -> Value {
    let stated = machine.stated_accuracy();
    json!({
        "plan": plan.name,
        "collective": plan.collective.kind.name(),
        "machine": machine.name,
        "ranks": plan.ranks.len(),
        "bytes": args.size,
        "tier": args.tier,
        "time_us": found.time_us,
        "algbw_gbps": Some(args.size as f64 / found.time_us / 1000.0).filter(|rate| rate.is_finite()),
        "error_percent": stated.map(|accuracy| accuracy.mean_percent),
        "worst_error_percent": stated.map(|accuracy| accuracy.worst_percent),
        "extrapolated": stated.is_none(),
        "bound_us": bound.map(|bound| bound.time_us),
        "partial": found.partial,
        "steady_state": found.steady_state,
        "instances": found.execution.num_instances,
        "shares_us": found.shares.iter().map(|share| (cause(share.cause).to_owned(), json!(share.us))).collect::<serde_json::Map<_, _>>(),
        "critical_path": longest(found).into_iter().map(|(rank, block, operation, start, duration)| json!({
            "rank": rank, "block": block, "operation": operation, "start_us": start, "duration_us": duration,
        })).collect::<Vec<_>>(),
    })
}

/// Describes a prediction in lines.
fn summary(
    args: &SimulateArgs,
    machine: &Machine,
    plan: &PlanTree,
    found: &Prediction,
    bound: Option<&Bound>,
) -> Vec<String> {
    let ranks = plan.ranks.len();
    let blocks = plan.ranks.iter().map(|rank| rank.blocks.len()).max().unwrap_or(0);
    let mut lines = vec![
        format!(
            "{}: {} of {} on {ranks} ranks of {}, {blocks} thread blocks each",
            plan.name,
            plan.collective.kind.name(),
            human(args.size),
            machine.name
        ),
        format!(
            "time: {}, algorithm bandwidth {} GB/s",
            us(found.time_us),
            three_digits(args.size as f64 / found.time_us.max(f64::MIN_POSITIVE) / 1000.0)
        ),
        format!("accuracy: {}", accuracy(machine)),
    ];
    if let Some(bound) = bound {
        let times = found.time_us / bound.time_us;
        let times = if times.is_finite() { format!(", of which the time is {times:.2} times") } else { String::new() };
        lines.push(format!("bound: {}{times}", us(bound.time_us)));
    }
    if found.time_us > 0.0 {
        let part = |us: f64| 100.0 * us / found.time_us;
        let shares = found.shares.iter().map(|share| format!("{} {:.0} %", cause(share.cause), part(share.us)));
        lines.push(format!("spent on: {}", shares.collect::<Vec<_>>().join(", ")));
    }
    if plan.is_counted() {
        lines.push("sizes are counts: times and bound are those of the largest counts".to_owned());
    }
    match (found.partial, found.steady_state) {
        (false, _) => {}
        (true, true) => {
            lines.push("the pipeline was simulated until its rate was steady; its first part follows".to_owned());
        }
        (true, false) => lines.push(
            "the rate of the pipeline did not become steady in its first part, which follows: the time is uncertain"
                .to_owned(),
        ),
    }
    lines
}

fn text(args: &SimulateArgs, machine: &Machine, plan: &PlanTree, found: &Prediction, bound: Option<&Bound>) -> String {
    let mut table = Columns::new(&["critical path", ">rank", ">block", ">from (us)", ">takes (us)"]);
    for (rank, block, operation, start, duration) in longest(found) {
        table.row([operation, rank.to_string(), block.to_string(), format!("{start:.2}"), format!("{duration:.2}")]);
    }
    format!("{}\n\n{}", summary(args, machine, plan, found, bound).join("\n"), table.text())
}
