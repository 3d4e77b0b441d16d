//! `mscclpp simulate`: the predicted time of a plan on a machine.

use std::process::ExitCode;

use mscclpp_core::plan::raw::PlanTree;
use mscclpp_predict::{Bound, Cause, Machine, PredictError, Prediction, bound as lower_bound, page, predict};
use serde_json::{Value, json};

use super::bound::us;
use super::machine::{accuracy, load};
use crate::args::SimulateArgs;
use crate::error::{Error, Result};
use crate::output::{print, print_json, write_file};
use crate::size::human;
use crate::table::Columns;
use crate::{exit, source};

/// Number of operations of the critical path that are shown.
const SHOWN: usize = 10;

/// Predicts the time of a plan.
///
/// # Errors
/// Those of loading the plan and the machine; failures of the output; [`Error::Usage`] for ranks, links or tiers that the machine does not have.
pub(crate) fn simulate(args: &SimulateArgs) -> Result<ExitCode> {
    let machine = load(&args.machine)?;
    let plan = source::load_for(&args.source, &machine)?.warned();
    let found = predict(&plan, &machine, args.size, args.tier.as_deref()).map_err(|error| match error {
        PredictError::Plan(findings) => Error::Findings { what: format!("plan `{}` has no time", plan.name), findings },
        other => Error::Usage(other.to_string()),
    })?;
    // A custom collective has no bound.
    let bound = lower_bound(plan.collective.kind, &machine, plan.ranks.len() as u32, args.size).ok();
    if let Some(path) = &args.html {
        let lines = summary(args, &machine, &plan, &found, bound.as_ref());
        write_file(path, page(&plan, &found, &lines).as_bytes())?;
    }
    if args.json {
        print_json(&value(args, &machine, &plan, &found, bound.as_ref()))?;
    } else {
        print(text(args, &machine, &plan, &found, bound.as_ref()))?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
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
    let path = found.timeline.critical_path().into_iter().map(|number| {
        let (node, span) = (&found.execution.nodes[number as usize], &found.timeline.spans[number as usize]);
        let name =
            if node.transfer { format!("transfer of {}", node.kind.name()) } else { node.kind.name().to_owned() };
        let ready =
            span.after.map_or(found.timeline.launch_us, |(before, _)| found.timeline.spans[before as usize].end);
        (node.rank, node.block, name, ready, span.end - ready)
    });
    let mut path: Vec<_> = path.enumerate().collect();
    path.sort_by(|(_, a), (_, b)| b.4.total_cmp(&a.4));
    path.truncate(SHOWN);
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
        "algbw_gb_per_s": args.size as f64 / found.time_us / 1000.0,
        "error_percent": stated.map(|accuracy| accuracy.mean_percent),
        "worst_error_percent": stated.map(|accuracy| accuracy.worst_percent),
        "extrapolated": stated.is_none(),
        "bound_us": bound.map(|bound| bound.time_us),
        "steady_state": found.steady_state,
        "instances": found.execution.instances,
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
            "time: {}, algorithm bandwidth {:.3} GB/s",
            us(found.time_us),
            args.size as f64 / found.time_us / 1000.0
        ),
        format!("error: {}", accuracy(machine)),
    ];
    if let Some(bound) = bound {
        lines.push(format!(
            "bound: {}, of which the time is {:.2} times",
            us(bound.time_us),
            found.time_us / bound.time_us
        ));
    }
    let shares =
        found.shares.iter().map(|share| format!("{} {:.0} %", cause(share.cause), 100.0 * share.us / found.time_us));
    lines.push(format!("spent on: {}", shares.collect::<Vec<_>>().join(", ")));
    if found.steady_state {
        lines.push("the pipeline was simulated until its rate was steady; its first part follows".to_owned());
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
