//! `mscclpp plan list`: lists the named algorithms.

use std::process::ExitCode;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm, OrderScope};
use mscclpp_core::collective::CollectiveKind;
use serde_json::{Value, json};

use super::plan_found;
use crate::args::ListArgs;
use crate::error::Result;
use crate::output::{print, print_json};
use crate::table::Columns;
use crate::{artifacts, exit};

/// Lists the algorithms by collective, or the plans of files.
///
/// # Errors
/// What reading the files brings; failures of standard output.
pub(crate) fn list(args: &ListArgs) -> Result<ExitCode> {
    if let Some(artifacts) = artifacts::provided() {
        return plan_found::list(artifacts, args.json);
    }
    if !args.files.is_empty() {
        return plan_found::list(&plan_found::of_files(&args.files)?, args.json);
    }
    let mut all: Vec<_> = algorithms::all().iter().collect();
    all.sort_by_key(|algorithm| (algorithm.kind().name(), algorithm.name()));
    if args.json {
        print_json(&all.into_iter().map(value).collect())?;
    } else if args.cost {
        print(costs(&all))?;
    } else {
        print(text(&all))?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

fn value(algorithm: &BuiltinAlgorithm) -> Value {
    let placement = algorithm.buffer_mode();
    let params: Vec<_> = algorithm
        .params()
        .iter()
        .map(|param| json!({ "name": param.name, "default": param.values.first(), "values": param.values }))
        .collect();
    json!({
        "name": algorithm.name(),
        "collective": algorithm.kind().name(),
        "in_place": placement != BufferMode::OutOfPlace,
        "out_of_place": placement != BufferMode::InPlace,
        "runs_on": algorithm.requirement(),
        "params": params,
        "order": order(algorithm),
        "cost": algorithm.cost(),
    })
}

fn text(all: &[&BuiltinAlgorithm]) -> String {
    let mut table = Columns::new(&["name", "collective", "in place", "runs on", "params"]);
    for algorithm in all {
        let params = algorithm.params().iter().map(|param| {
            let values: Vec<_> = param.values.iter().map(ToString::to_string).collect();
            format!("{}={}", param.name, values.join("|"))
        });
        table.row([
            algorithm.name().to_owned(),
            algorithm.kind().name().to_owned(),
            match algorithm.buffer_mode() {
                BufferMode::InPlace => "only",
                BufferMode::OutOfPlace => "no",
                BufferMode::Any => "on request",
            }
            .to_owned(),
            algorithm.requirement(),
            params.collect::<Vec<_>>().join(" "),
        ]);
    }
    format!("{}\n\n`mscclpp plan list --cost` shows the cost of each.\n", table.text())
}

fn costs(all: &[&BuiltinAlgorithm]) -> String {
    let mut table = Columns::new(&["name", "order", "cost"]);
    for algorithm in all {
        let order = order(algorithm).unwrap_or("-");
        table.row([algorithm.name().to_owned(), order.to_owned(), algorithm.cost().to_owned()]);
    }
    format!("{}\n", table.text())
}

/// Returns what the order of reduction of an algorithm depends on, if it reduces.
fn order(algorithm: &BuiltinAlgorithm) -> Option<&'static str> {
    let reduces =
        matches!(algorithm.kind(), CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce);
    reduces.then(|| match algorithm.order_varies_across() {
        None => "ranks",
        Some(OrderScope::Elements) => "element",
        Some(OrderScope::Launches) => "switch",
        Some(OrderScope::Ranks) => "rank",
        Some(OrderScope::Nodes) => "node",
        Some(OrderScope::FirstTwo) => "ranks, each operation rounds",
    })
}
