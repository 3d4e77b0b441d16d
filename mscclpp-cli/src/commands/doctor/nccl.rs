//! Reports what a program that loads mscclpp's `libnccl.so.2` would get.

use mscclpp_nccl::Report;

use super::drivers;
use super::finding::{Finding, State};

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = of(&Report::new());
    let mut devices = drivers::cuda();
    if devices.state != State::Good {
        devices.help =
            Some("no communicator can be created without a CUDA device; `mscclpp doctor` says more".to_owned());
    }
    findings.push(devices);
    findings
}

fn of(report: &Report) -> Vec<Finding> {
    let version = match &report.version {
        Ok(version) => Finding::good("NCCL version", version),
        Err(reason) => {
            Finding::bad("NCCL version", State::Missing, reason, "set MSCCLPP_NCCL_VERSION to a version, or unset it")
        }
    };
    let forwarding = match &report.library {
        None => {
            let help = "optional: MSCCLPP_NCCL_LIB_PATH names a NCCL for what this library does not serve";
            Finding::bad("forwarding", State::Absent, "MSCCLPP_NCCL_LIB_PATH is not set", help)
        }
        Some(Ok(library)) => Finding::good("forwarding", format!("to {library}")),
        Some(Err(reason)) => {
            let help = "no communicator can be created until the variable names a library or is unset";
            Finding::bad("forwarding", State::Missing, reason, help)
        }
    };
    let listed = if report.forced.is_empty() { "none" } else { &report.forced };
    let forced = match report.warnings.is_empty() {
        true => Finding::good("forwarded calls", listed),
        false => Finding::bad("forwarded calls", State::Small, listed, report.warnings.join("; ")),
    };
    let mut findings = vec![version, forwarding, forced];
    findings.extend(report.profiler.as_ref().map(|profiler| match profiler {
        Ok(plugin) => Finding::good("profiler plugin", plugin),
        Err(reason) => {
            let help = "calls are made without it; name a plugin of interface 6 or 7 with NCCL_PROFILER_PLUGIN, or set it to none";
            Finding::bad("profiler plugin", State::Small, reason, help)
        }
    }));
    findings.extend(plans(report));
    let forwarded = match report.forwarded.len() {
        0 => String::new(),
        count => format!(", {count} forwarded: {}", report.forwarded.join(", ")),
    };
    findings.push(Finding::good("functions", format!("{} of this library{forwarded}", report.num_ours)));
    findings.push(Finding::good(
        "functions that return an error",
        format!("{}: {}", report.loud.len(), report.loud.join(", ")),
    ));
    findings
}

fn plans(report: &Report) -> Vec<Finding> {
    const NAME: &str = "plan";
    if report.plans.is_empty() {
        return vec![Finding::good("plans", "the built-in ones")];
    }
    let finding = |(path, verdict): &(std::path::PathBuf, Result<String, String>)| match verdict {
        Ok(plan) => Finding::good(NAME, format!("{}: {plan}", path.display())),
        Err(reason) => {
            let (state, help) = match report.is_strict {
                true => (
                    State::Missing,
                    "no communicator can be created with MSCCLPP_PLANS_STRICT=1 until it is fixed or removed",
                ),
                false => (State::Small, "it is left out: fix it, which `mscclpp check` helps with, or remove it"),
            };
            Finding::bad(NAME, state, format!("{}: {reason}", path.display()), help)
        }
    };
    report.plans.iter().map(finding).collect()
}
