//! What serves calls, as a client in C chooses it by `mscclpp.h`, or its environment.

use std::fs;
use std::path::Path;

use mscclpp_algorithms::find;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::{Format, LoadPlan, Plan};
use mscclpp_exec::DataType;
use mscclpp_select::tuning::{CandidateTime, MachineInfo, TuningEntry, TuningTable};
use mscclpp_select::{Backend, Request};

use crate::clients::{Test, all_ok, run, text};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("call_runs_what_each_source_of_a_plan_states", each_source),
        ("kernels_of_a_client_serve_its_calls", kernels),
        ("registrations_that_cannot_take_effect_are_codes", refused),
        ("selector_of_a_client_decides_each_call", || all_ok(&run("selection", 2, &["unknown"], &[])?)),
        ("selectors_that_differ_are_an_error_of_both_ranks", || all_ok(&run("selection", 2, &["different"], &[])?)),
        ("selectors_that_differ_between_nodes_are_an_error_of_both_ranks", || {
            all_ok(&run("selection", 2, &["nodes"], &[("MSCCLPP_TIMEOUT", "60")])?)
        }),
        ("error_of_a_selector_is_one_of_both_ranks", || all_ok(&run("selection", 2, &["error"], &[])?)),
        ("bits_of_rank_order_do_not_depend_on_the_division_into_calls", ordered),
    ]
}

fn ordered() -> Result<(), String> {
    let day = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400);
    println!("seed {day} of divisions into calls");
    all_ok(&run("selection", 3, &["ordered", &day.to_string()], &[])?)
}

/// Returns the plan of an algorithm for two ranks.
fn plan(algorithm: &str, in_place: bool) -> Result<Plan, String> {
    let algorithm = find(algorithm).ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(2, 2);
    spec.collective.in_place = in_place;
    algorithm.plan(spec, &[]).map_err(|error| error.to_string())
}

fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Result<String, String> {
    let path = folder.join(name);
    fs::write(&path, bytes).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}

fn each_source() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let plan = plan("allreduce_all_pairs", true)?;
    let plans = folder.path().join("plans");
    fs::create_dir(&plans).map_err(|error| error.to_string())?;
    let of_folder = Plan::load(&named(&plan, "of_folder")).map_err(|findings| findings.to_string())?;
    write(&plans, "mine.json", of_folder.to_bytes(Format::Json))?;
    let table = write(folder.path(), "table.toml", table())?;
    for format in Format::ALL {
        let path = write(folder.path(), &format!("plan.{}", format.extension()), plan.to_bytes(format))?;
        for source in ["file", "memory"] {
            serves(source, &path, &[], "mine")?;
        }
    }
    let plans = plans.display().to_string();
    serves("folder", "", &[("MSCCLPP_PLANS", &plans)], "of_folder")?;
    serves("table", "", &[("MSCCLPP_TUNING_TABLE", &table)], "allreduce_ring")?;
    serves("selector", "", &[], "allreduce_ring")?;
    // What is registered precedes the folder, and the selector precedes both.
    let path = folder.path().join("plan.json").display().to_string();
    serves("memory", &path, &[("MSCCLPP_PLANS", &plans)], "mine")?;
    serves("selector", "", &[("MSCCLPP_PLANS", &plans)], "allreduce_ring")
}

fn kernels() -> Result<(), String> {
    let outputs = run("selection", 2, &["served", "kernels", ""], &[("NCCL_DEBUG", "INFO")])?;
    all_ok(&outputs)?;
    for output in &outputs {
        let text = text(output);
        // They serve the calls of their collective alone.
        for line in ["in place: mine", "out of place: mine", "kernels `mine` for allreduce, registered"] {
            if !text.contains(line) || text.contains("gather: mine") {
                return Err(format!("expected `{line}`, found:\n{text}"));
            }
        }
    }
    Ok(())
}

/// Returns the text of a plan with another name.
fn named(plan: &Plan, name: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(&plan.to_bytes(Format::Text)).into_owned();
    text.replacen(&format!("plan {}", plan.name()), &format!("plan {name}"), 1).into_bytes()
}

/// Returns a tuning table for the client's call in place.
fn table() -> String {
    let request = Request::new(CollectiveKind::AllReduce, 2, DataType::I32, 4096);
    let request = Request { backend: Backend::Cuda, in_place: true, ..request };
    let fastest = CandidateTime { algorithm: "allreduce_ring".into(), blocks: None, threads: None, time_us: 1.0 };
    let mut table = TuningTable::new(MachineInfo::current());
    table.entries.push(TuningEntry::new(&request, fastest, Vec::new()));
    table.text()
}

/// Checks that an algorithm serves the all-reduce in place of a client, and neither of its other calls.
fn serves(source: &str, path: &str, variables: &[(&str, &str)], expected: &str) -> Result<(), String> {
    let outputs = run("selection", 2, &["served", source, path], &[variables, &[("NCCL_DEBUG", "INFO")]].concat())?;
    all_ok(&outputs)?;
    for output in outputs {
        let text = text(&output);
        let of = |call: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{call}: "))).unwrap_or_default();
        let others = [of("out of place"), of("gather")];
        if of("in place") != expected || others.contains(&expected) || others.contains(&"") {
            return Err(format!("{source} {path}: expected `{expected}` for the call in place, found:\n{text}"));
        }
        let reason = match source {
            "selector" => "choice of the selector",
            "table" => "tuning table entry",
            _ => "a plan of the user serves it",
        };
        if !text.lines().any(|line| line.contains(&format!("`{expected}`")) && line.contains(reason)) {
            return Err(format!("{source}: expected a line with `{expected}` and `{reason}`, found:\n{text}"));
        }
    }
    Ok(())
}

fn refused() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let ring = plan("allreduce_ring", true)?;
    let valid = write(folder.path(), "mine.json", ring.to_bytes(Format::Json))?;
    let text = String::from_utf8_lossy(&ring.to_bytes(Format::Text)).into_owned();
    let wrong = write(folder.path(), "wrong.plan", text.replacen("    wait memory rank 1\n", "", 1))?;
    let scatter = plan("reducescatter_ring", true)?;
    let no_effect = write(folder.path(), "scatter.plan", scatter.to_bytes(Format::Text))?;
    all_ok(&run("selection", 1, &["refused", &valid, &wrong, &no_effect], &[])?)
}
