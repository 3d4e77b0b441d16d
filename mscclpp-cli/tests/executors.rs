//! `mscclpp check --executor`.

use std::path::Path;

use crate::common::plans::{across_nodes, good, stalling, text};
use crate::common::{mscclpp, mscclpp_reading};
use serde_json::json;

#[test]
fn right_plan_has_one_line_per_executor() {
    let run = mscclpp(["check", "allreduce_ring", "--ranks", "4", "--executor", "all"]).succeeds();
    let expected = "plan `allreduce_ring` is accepted\n\
        executed as proved by processes: 4 launches validated\n\
        executed as proved by devices: 3 launches validated\n\
        executed as proved by kernel: 5 launches validated\n";
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), (expected, ""));
    // In place there is one buffer, and between nodes there are ports.
    let words = ["check", "allgather_ring_ports", "--in-place", "--ranks", "6", "--ranks-per-node", "2"];
    let run = mscclpp(words.into_iter().chain(["--executor", "processes"])).succeeds();
    let expected = "plan `allgather_ring_ports` is accepted\nexecuted as proved by processes: 12 launches validated\n";
    assert_eq!(run.stdout, expected);
    let run = mscclpp_reading(["check", "-", "--executor", "kernel"], &text(&good())).succeeds();
    assert_eq!(run.stdout, "plan `swap` is accepted\nexecuted as proved by kernel: 1 launch validated\n");
}

#[test]
fn json_tells_launches_and_those_that_do_not_apply() {
    let run = |words: &[&str], plan: &str| mscclpp_reading(["check", "-", "--json"].iter().chain(words), plan);
    let found = run(&["--executor", "devices"], &text(&good())).succeeds().json();
    assert_eq!((&found["accepted"], found["executors"].as_array().unwrap().len()), (&true.into(), 1));
    let executor = &found["executors"][0];
    assert_eq!((&executor["executor"], &executor["launches"]), (&"devices".into(), &1.into()));
    assert_eq!((&executor["valid"], &executor["invalid"]), (&true.into(), &json!(null)));
    let inapplicable = &executor["inapplicable"][0];
    assert_eq!(inapplicable["launch"], "ranks on devices 0 1, devices on nodes 0 1");
    assert!(inapplicable["why"].as_str().unwrap().contains("which is on node 1"), "{executor}");
    // Who does not ask is not told.
    assert_eq!(run(&[], &text(&good())).succeeds().json().get("executors"), None);
}

#[test]
fn refused_plan_is_not_validated() {
    let plan = text(&stalling());
    let run = mscclpp_reading(["check", "-", "--executor", "all"], &plan).ends_with(1);
    let lines: Vec<_> = run.stdout.lines().rev().take(4).collect();
    let expected = [
        "not validated for kernel: the checks have 1 finding",
        "not validated for devices: the checks have 1 finding",
        "not validated for processes: the checks have 1 finding",
        "plan `swap` is rejected: 1 finding",
    ];
    assert_eq!(lines, expected);
    // What is let pass is not proved either.
    let run = mscclpp_reading(["check", "-", "--executor", "devices", "--level", "off"], &plan).ends_with(1);
    let expected = "plan `swap` was parsed; no checks were run\nnot validated for devices: the checks have 1 finding\n";
    assert_eq!(run.stdout, expected);
    let json = mscclpp_reading(["check", "-", "--executor", "kernel", "--json"], &plan).ends_with(1).json();
    assert_eq!((&json["executors"][0]["valid"], &json["executors"][0]["launches"]), (&false.into(), &0.into()));
    assert_eq!(json["executors"][0]["findings"], 1);
    mscclpp_reading(["check", "-", "--executor", "devices"], &text(&across_nodes())).ends_with(1);
    mscclpp_reading(["check", "-", "--executor", "devices"], "{").ends_with(2);
}

#[test]
fn several_plans_say_only_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    for (name, plan) in [("a.json", good()), ("b.json", stalling())] {
        std::fs::write(directory.path().join(name), text(&plan)).unwrap();
    }
    let words = ["check", directory.path().to_str().unwrap(), "--executor", "processes", "--level", "off"];
    let found = mscclpp(words).ends_with(1).stdout;
    assert!(found.ends_with("\n2 plans: 1 accepted, 1 failed\n"), "{found}");
    assert!(found.contains("b.json:\n\nnot validated for processes: the checks have 1 finding\n\n"), "{found}");
    assert!(!found.contains("executed as proved"), "{found}");
}

#[test]
fn unknown_executor_ends_with_2() {
    let run = mscclpp(["check", "allreduce_ring", "--executor", "gpu"]).ends_with(2);
    assert!(run.stderr.contains("invalid value 'gpu' for '--executor <EXECUTOR>'"), "{}", run.stderr);
    assert!(run.stderr.contains("[possible values: processes, devices, kernel, all]"), "{}", run.stderr);
    mscclpp(["check", "allreduce_ring", "--executor"]).ends_with(2);
}

/// A plan file of ours, and those of the reference system where their folder is named.
#[test]
fn plan_files_are_executed_as_proved() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("own.json");
    let words = ["plan", "export", "allgather_hierarchical", "--ranks", "4", "--ranks-per-node", "2"];
    std::fs::write(&own, mscclpp(words).succeeds().stdout).unwrap();
    let mut files = vec![own.to_str().unwrap().to_owned()];
    match std::env::var("MSCCLPP_CONFORMANCE") {
        Ok(folder) if !folder.is_empty() => {
            // Tests run in their crate's directory; people think of the workspace's.
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
            let names = ["default-allgather_multi_nodes-n2x2.json", "default-allgather_multi_nodes-n2x2-ip.json"];
            files.extend(names.map(|name| folder.join(name).to_str().unwrap().to_owned()));
        }
        _ => println!("without the reference plans: MSCCLPP_CONFORMANCE does not name their folder"),
    }
    for file in files {
        let run = mscclpp(["check", &file, "--executor", "all"]).succeeds();
        let lines: Vec<_> = run.stdout.lines().collect();
        assert_eq!(lines.len(), 4, "{}", run.stdout);
        for (line, executor) in lines[1..].iter().zip(["processes", "devices", "kernel"]) {
            assert!(line.starts_with(&format!("executed as proved by {executor}: ")), "{file}: {line}");
        }
    }
}

#[test]
fn plans_that_normalize_rows_run_and_are_validated() {
    for algorithm in mscclpp_algorithms::norms() {
        let name = algorithm.name();
        for dtype in ["f32", "bf16"] {
            let run =
                ["run", name, "--ranks", "3", "--size", "20K", "--dtype", dtype, "--hidden", "72", "--iters", "1"];
            let run = mscclpp(run).succeeds();
            assert!(run.stdout.contains("# Wrong elements    : 0 OK"), "{}", run.stdout);
        }
        let run = mscclpp(["check", name, "--ranks", "2", "--executor", "all"]).succeeds();
        assert_eq!(run.stdout.matches("executed as proved by").count(), 3, "{}", run.stdout);
    }
    let run = mscclpp(["run", "allreduce_ring", "--ranks", "2", "--hidden", "72"]).ends_with(2);
    assert!(run.stderr.contains("does not normalize rows"), "{}", run.stderr);
}

/// Plans whose sizes are counts are run by programs only.
#[test]
fn plans_with_counts_are_refused_where_none_are_passed() {
    let run = mscclpp(["run", "alltoallv_pull", "--ranks", "2", "--size", "1K"]).ends_with(2);
    assert_eq!(run.stdout, "");
    assert!(
        run.stderr.contains("plan `alltoallv_pull` takes counts, which this command does not pass"),
        "{}",
        run.stderr
    );
    let run = mscclpp(["check", "alltoallv_pull", "--ranks", "2", "--executor", "all", "--fuzz", "5"]).ends_with(3);
    assert!(run.stdout.contains("passed 5 schedules"), "{}", run.stdout);
    assert_eq!(run.stdout.matches("its sizes are counts").count(), 3, "{}", run.stdout);
}
