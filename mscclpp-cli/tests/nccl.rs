//! `mscclpp doctor --nccl`: what programs that call NCCL would get.

use std::process::Command;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Format;
use mscclpp_exec::DataType;
use mscclpp_select::{Registry, Request};
use serde_json::Value;

use crate::common::BINARY;

/// Runs the command with variables; returns its findings and its exit code.
fn doctor(variables: &[(&str, &str)]) -> (Vec<Value>, Option<i32>) {
    let mut command = Command::new(BINARY);
    for variable in
        ["MSCCLPP_NCCL_LIB_PATH", "MSCCLPP_PLANS", "MSCCLPP_NCCL_VERSION", "MSCCLPP_CACHE_DIR", "NCCL_PROFILER_PLUGIN"]
    {
        command.env_remove(variable);
    }
    let run = command.args(["doctor", "--nccl", "--json"]).envs(variables.iter().copied()).output().unwrap();
    let findings: Value = serde_json::from_slice(&run.stdout).unwrap();
    (findings.as_array().unwrap().clone(), run.status.code())
}

/// Returns state and text of a finding.
fn finding<'a>(findings: &'a [Value], name: &str) -> (&'a str, &'a str) {
    let found = findings.iter().find(|found| found["name"] == name).unwrap_or_else(|| panic!("{name}: {findings:?}"));
    (found["state"].as_str().unwrap(), found["found"].as_str().unwrap())
}

#[test]
fn environment_without_variables_has_no_forwarding() {
    let (findings, code) = doctor(&[]);
    assert_eq!(code, Some(0));
    assert_eq!(finding(&findings, "NCCL version"), ("ok", "2.30.7"));
    assert_eq!(finding(&findings, "forwarding").0, "absent");
    assert_eq!(finding(&findings, "plans"), ("ok", "the built-in ones"));
    assert_eq!(finding(&findings, "forwarded calls"), ("ok", "none"));
    assert!(finding(&findings, "functions").1.ends_with(" of this library"));
    let (_, loud) = finding(&findings, "functions that return an error");
    // One that another NCCL would serve, and one that none would.
    assert!(loud.contains("ncclSetEncryption") && loud.contains("ncclTeamCft"), "{loud}");
}

#[test]
fn library_that_cannot_be_loaded_is_missing() {
    let variables = [("MSCCLPP_NCCL_LIB_PATH", "/nonexistent/libnccl.so.2"), ("MSCCLPP_NCCL_VERSION", "2.28")];
    let (findings, code) = doctor(&variables);
    assert_eq!(code, Some(1));
    let (state, found) = finding(&findings, "forwarding");
    assert!(state == "missing" && found.contains("/nonexistent/libnccl.so.2: No such file"), "{found}");
    let (state, found) = finding(&findings, "NCCL version");
    assert!(state == "missing" && found.contains("MSCCLPP_NCCL_VERSION=2.28: expected a version"), "{found}");
}

#[test]
fn profiler_plugin_that_cannot_be_loaded_is_no_obstacle() {
    let (findings, code) = doctor(&[("NCCL_PROFILER_PLUGIN", "nonexistent")]);
    let (state, found) = finding(&findings, "profiler plugin");
    assert!(state == "small" && found.contains("libnccl-profiler-nonexistent.so"), "{found}");
    assert_eq!(code, Some(0));
}

#[test]
fn invalid_items_of_the_list_are_named() {
    let (findings, _) = doctor(&[("MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION", "gossip")]);
    let found = findings.iter().find(|found| found["name"] == "forwarded calls").unwrap();
    assert!(found["help"].as_str().unwrap().contains("`gossip` is no operation"), "{found}");
}

#[test]
fn plans_have_a_verdict_each() {
    let request = Request::new(CollectiveKind::AllGather, 4, DataType::F32, 1 << 20);
    let registry = Registry::builtin();
    let plan = registry.plan(&request, &registry.select(&request).unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("right.json"), plan.to_bytes(Format::Json)).unwrap();
    std::fs::write(directory.path().join("wrong.json"), "[]").unwrap();
    let path = directory.path().to_str().unwrap();
    for (strict, state, expected) in [("0", "small", 0), ("1", "missing", 1)] {
        let (findings, code) = doctor(&[("MSCCLPP_PLANS", path), ("MSCCLPP_PLANS_STRICT", strict)]);
        let plans: Vec<_> = findings.iter().filter(|found| found["name"] == "plan").collect();
        let of = |at: usize, key: &str| plans[at][key].as_str().unwrap();
        assert!(
            of(0, "state") == "ok" && of(0, "found").contains("right.json: `") && of(0, "found").ends_with("allgather")
        );
        assert!(of(1, "state") == state && of(1, "found").contains("wrong.json"), "{}", plans[1]);
        assert_eq!((plans.len(), code), (2, Some(expected)));
    }
}
