//! `mscclpp check`: whether a plan is correct, and if not, why.

use std::process::ExitCode;

use mscclpp_core::check;
use mscclpp_core::diag::Diagnostics;
use serde_json::{Value, json};

use crate::args::CheckArgs;
use crate::diagnostics::values;
use crate::error::{Error, Result};
use crate::output::{print, print_json, warn};
use crate::progress::Progress;
use crate::{exit, source};

/// The most findings of one code that are printed for people.
const MOST: usize = 5;

/// Checks a plan and prints what was found. Findings are what was asked for, so they go to standard output.
///
/// # Errors
/// What loading brings, and failures of standard output.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let source = match source::load(&args.source) {
        Ok(source) => source,
        Err(error) => {
            // A plan that cannot be read has findings too, and scripts look for them in the same place.
            if args.json {
                let none = Diagnostics::default();
                print_json(&report(Err(&error), error.findings().unwrap_or(&none), &json!([])))?;
            }
            return Err(error);
        }
    };
    let mut findings = Diagnostics::default();
    let mut warnings = source.warnings;
    if args.strict {
        findings.extend(warnings.drain(..));
    }
    let plan = &source.plan;
    {
        let _working = Progress::spinner(&format!("checking {}", plan.name));
        findings.extend(check::check(plan));
    }
    if args.json {
        print_json(&report(Ok(&plan.name), &findings, &values(&warnings)))?;
    } else {
        warnings.iter().for_each(warn);
        print(text(&plan.name, &findings))?;
    }
    Ok(ExitCode::from(if findings.is_empty() { exit::DONE } else { exit::NO }))
}

/// `plan`: its name, or why it cannot be read.
fn report(plan: std::result::Result<&str, &Error>, findings: &Diagnostics, warnings: &Value) -> Value {
    json!({
        "plan": plan.ok(),
        "readable": plan.is_ok(),
        "accepted": plan.is_ok() && findings.is_empty(),
        "error": plan.err().map(ToString::to_string),
        "findings": values(findings.iter()),
        "warnings": warnings,
    })
}

fn text(plan: &str, findings: &Diagnostics) -> String {
    let each: String = findings.condensed(MOST).iter().map(|finding| format!("error: {finding}\n\n")).collect();
    match findings.len() {
        0 => format!("plan `{plan}` is accepted\n"),
        1 => format!("{each}plan `{plan}` is refused: 1 finding\n"),
        n => format!("{each}plan `{plan}` is refused: {n} findings\n"),
    }
}
