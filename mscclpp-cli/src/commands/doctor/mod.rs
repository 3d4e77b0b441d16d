//! `mscclpp doctor`: checks the resources that this machine offers to ranks.

mod drivers;
mod finding;
mod group;
mod limits;
mod locality;
mod memory;
mod nccl;
mod network;
mod processors;
mod system;
mod ucx;

use std::process::ExitCode;

use serde_json::json;

use crate::args::DoctorArgs;
use crate::error::Result;
use crate::exit;
use crate::output::{print, print_json};
use crate::table::Columns;
use crate::variables;
use finding::{Finding, State};

/// Runs all checks and prints the results. The exit code is a failure if a required resource is missing.
///
/// # Errors
/// Failures of standard output, and those of a group.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode> {
    if args.variables {
        print(variables::table())?;
        return Ok(ExitCode::from(exit::SUCCESS));
    }
    if args.group {
        return group::group(args.time, args.json);
    }
    let findings: Vec<_> = match args.nccl {
        true => nccl::findings(),
        false => [
            system::findings(),
            processors::findings(),
            memory::findings(),
            limits::findings(),
            network::findings(),
            vec![locality::finding(), ucx::finding()],
            drivers::findings(),
        ]
        .concat(),
    };
    if args.json {
        print_json(&findings.iter().map(value).collect())?;
    } else {
        print(text(&findings))?;
    }
    let missing = findings.iter().any(|finding| finding.state == State::Missing);
    Ok(ExitCode::from(if missing { exit::FAILURE } else { exit::SUCCESS }))
}

fn value(finding: &Finding) -> serde_json::Value {
    json!({ "name": finding.name, "state": finding.state.name(), "found": finding.found, "help": finding.help })
}

fn text(findings: &[Finding]) -> String {
    let mut table = Columns::new(&["what", "state", "found"]);
    for finding in findings {
        table.row([finding.name.to_owned(), finding.state.name().to_owned(), finding.found.clone()]);
    }
    let mut text = table.text() + "\n";
    for finding in findings.iter().filter(|finding| finding.state != State::Good) {
        if let Some(help) = &finding.help {
            text += &format!("\n{}: {help}\n", finding.name);
        }
    }
    text
}
