//! One file per command.

mod analyze;
mod analyze_page;
mod bench;
mod bound;
mod check;
mod devices;
mod doctor;
mod executors;
mod explain;
mod find;
mod fuzz;
mod launch;
mod machine;
mod machine_measure;
mod plan_diff;
mod plan_export;
mod plan_found;
mod plan_graph;
mod plan_list;
mod plan_schema;
mod plan_show;
mod plan_stats;
mod run;
pub(crate) mod runner;
mod select;
mod shell;
mod simulate;
mod status;
mod timeline;
mod tune;

use std::process::ExitCode;

use crate::args::{Cli, Command, PlanCommand};
use crate::error::Result;

/// Runs a command and returns its exit code.
pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Plan(plan) => match plan.command {
            PlanCommand::List(args) => plan_list::list(&args),
            PlanCommand::Show(args) => plan_show::show(&args),
            PlanCommand::Stats(args) => plan_stats::stats(&args),
            PlanCommand::Graph(args) => plan_graph::graph(&args),
            PlanCommand::Export(args) => plan_export::export(&args),
            PlanCommand::Diff(args) => plan_diff::diff(&args),
            PlanCommand::Schema(args) => plan_schema::schema(&args),
        },
        Command::Launch(args) => launch::launch(&args),
        Command::Guard(args) => Err(launch::guard(&args)),
        Command::Bench(args) => bench::bench(&args),
        Command::Tune(args) => tune::tune(&args),
        Command::Select(args) => select::select(&args),
        Command::Machine(args) => machine::machine(&args),
        Command::Simulate(args) => simulate::simulate(&args),
        Command::Bound(args) => bound::bound(&args),
        Command::Find(args) => find::find(&args),
        Command::Timeline(args) => timeline::timeline(&args),
        Command::Status(args) => status::status(&args),
        Command::Analyze(args) => analyze::analyze(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}
