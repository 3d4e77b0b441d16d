//! `mscclpp machine`, `mscclpp simulate`, `mscclpp bound` and `mscclpp find`.

use std::fs;

use crate::common::mscclpp;
use crate::common::plans::{stalling, text};

#[test]
fn simulation_reports_time_error_and_bound() {
    let run = mscclpp(["simulate", "allreduce_ring", "--machine", "8xh100", "--ranks", "4", "--size", "64M", "--json"]);
    let value = run.succeeds().json();
    assert_eq!((&value["ranks"], &value["bytes"]), (&4.into(), &(64 << 20).into()));
    let number = |key: &str| value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"));
    assert!(number("time_us") > number("bound_us") && number("error_percent") > 0.0);
    let shares: f64 = value["shares_us"].as_object().expect("shares").values().filter_map(|share| share.as_f64()).sum();
    assert!((shares / number("time_us") - 1.0).abs() < 1e-6);
    // Fewer than 8 measured times.
    let run = mscclpp(["simulate", "allreduce_ring", "--machine", "4xl40s", "--size", "1M", "--json"]);
    let value = run.succeeds().json();
    assert!(value["error_percent"].is_null() && value["extrapolated"] == true, "{value}");
}

#[test]
fn plan_file_and_machine_file_are_simulated() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    mscclpp(["plan", "export", "allreduce_ring", "--ranks", "2", "-o", &path("ring.json")]).succeeds();
    let machine = "name = \"own\"\ndescription = \"two\"\nranks = 2\nranks_per_node = 2\n[[link]]\nfrom = \"gpu0\"\nto = \"gpu1\"\n\
        gb_per_s = 10\nsource = \"test\"\n";
    fs::write(path("own.toml"), machine).expect("it is written");
    let run = mscclpp(["simulate", &path("ring.json"), "--machine", &path("own.toml"), "--size", "1000000", "--json"]);
    let time = run.succeeds().json()["time_us"].as_f64().expect("a time");
    // Half of the message twice over 10 GB/s.
    assert!((time - 100.0).abs() < 0.1, "{time}");
    let words = [
        "simulate",
        &path("ring.json"),
        "--machine",
        &path("own.toml"),
        "--size",
        "1000",
        "--html",
        &path("ring.html"),
    ];
    mscclpp(words).succeeds();
    let page = fs::read_to_string(path("ring.html")).expect("a page");
    // Links, the bound, and what chunks hold.
    for expected in ["gpu0 to gpu1, ", "class=\"bound\"", "data-name=\"output chunk 1 of rank 0\""] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(page.starts_with("<!doctype html>") && page.contains("class=\"op reduce critical\""), "{page}");
    fs::write(path("own.toml"), machine.replace("10\n", "-1\n")).expect("it is written");
    let run = mscclpp(["machine", "show", &path("own.toml")]).ends_with(2);
    assert!(
        run.stderr.contains(
            "own.toml: invalid machine description: link[0].gb_per_s: expected 0.000001 to 1000000, found -1"
        ),
        "{}",
        run.stderr
    );
}

#[test]
fn refused_plan_has_no_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stalls.json");
    fs::write(&path, text(&stalling())).expect("it is written");
    let path = path.to_str().expect("UTF-8");
    let run = mscclpp(["simulate", path, "--machine", "8xh100", "--size", "1K"]).ends_with(1);
    assert!(run.stderr.contains("is refused, so it has no time") && run.stderr.contains("M0201"), "{}", run.stderr);
}

#[test]
fn bound_has_a_certificate() {
    let run = mscclpp(["bound", "all_gather", "--machine", "8xh100", "--size", "1G", "--json"]);
    let value = run.succeeds().json();
    assert!((value["algbw_gbps"].as_f64().expect("a rate") - 514.285714).abs() < 1e-5, "{value}");
    let certificate = &value["certificate"];
    assert_eq!((&certificate["messages"], &certificate["direction"]), (&0.875.into(), &"leave".into()));
    let run = mscclpp(["bound", "reduce_scatter", "--machine", "8xh100", "--size", "1G"]).succeeds();
    assert!(run.stdout.contains("because 0.875 messages must enter over 450 GB/s"), "{}", run.stdout);
    let run = mscclpp(["bound", "all_reduce", "--machine", "8xh100", "--size", "0"]).succeeds();
    let bounds: Vec<&str> =
        run.stdout.lines().filter_map(|line| line.rsplit_once("at least ")).map(|(_, us)| us).collect();
    assert_eq!(bounds.iter().filter(|us| **us == bounds[0]).count(), 4, "{}", run.stdout);
    assert!(run.stdout.contains("because 1 message must leave"), "{}", run.stdout);
}

#[test]
fn help_states_the_defaults_of_a_machine() {
    let run = mscclpp(["simulate", "--help"]).succeeds();
    for default in ["[default: all of the machine, or that of the plan file]", "[default: that of the machine]"] {
        assert!(run.stdout.contains(default), "{}", run.stdout);
    }
}

#[test]
fn mistakes_are_usage_errors() {
    let simulate = ["simulate", "allreduce_ring", "--size", "1M", "--machine"];
    let fails = |words: &[&str], expected: &str| {
        let run = mscclpp(simulate.iter().chain(words)).ends_with(2);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    };
    fails(&["8xh10"], "unknown machine `8xh10`; similar names exist");
    fails(&["8xh100", "--ranks", "9"], "at most 8 ranks, which machine `8xh100` has, found one for 9");
    fails(&["2x8xh100"], "use at most 8 ranks, or an algorithm for several nodes");
    fails(&["h200-virtual", "--tier", "fast"], "expected one of: hand-written, interpreted, specialized");
    fails(&["8xh100", "--tier", "fast"], "machine `8xh100` has no kernel tiers, found tier `fast`; omit the tier");
    let run = mscclpp(["bound", "all_reduce", "--machine", "8xh100", "--ranks", "1", "--size", "1"]).ends_with(2);
    assert!(run.stderr.contains("expected 2 to 8 ranks on machine `8xh100`, found 1"), "{}", run.stderr);
}

#[test]
fn mistakes_in_machine_files_name_the_file_and_the_field() {
    let show = |path: &str| mscclpp(["machine", "show", path]);
    let run = show("./no/such.toml").ends_with(2);
    assert!(run.stderr.contains("./no/such.toml") && !run.stderr.contains("machine list"), "{}", run.stderr);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("own.toml");
    let path = path.to_str().expect("UTF-8");
    let machine = "name = \"own\"\ndescription = \"two\"\nbase = \"8xh100\"\nranks = 8\nranks_per_node = 8\n";
    for (more, expected) in [
        (
            "[blocks]\nallreduce_rng = 2\n",
            "own.toml: blocks: expected `default` or a built-in algorithm, found `allreduce_rng`",
        ),
        (
            "[constant]\nops_us = { value = 1, source = \"s\" }\n",
            "own.toml: invalid machine description: constant.ops_us",
        ),
        ("[[link]]\nfrom = \"gpu\"\nto = \"a\"\ngb_per_s = 1\nsource = \"\"\n", "link[0].source: expected where"),
    ] {
        fs::write(path, format!("{machine}{more}")).expect("it is written");
        let run = show(path).ends_with(2);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
    fs::write(path, machine.replace("8xh100", "8xh10")).expect("it is written");
    let run = show(path).ends_with(2);
    assert!(run.stderr.contains("unknown machine `8xh10`"), "{}", run.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn machine_file_that_is_no_regular_file_is_an_error() {
    // Neither reads without an end, nor waits for a writer.
    for path in ["/dev/zero", "/dev/../dev/full"] {
        mscclpp(["machine", "show", path]).ends_with(2);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pipe.toml");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("it starts").success());
    mscclpp(["machine", "show", path.to_str().expect("UTF-8")]).ends_with(2);
    fs::remove_file(&path).expect("it is removed");
    fs::write(&path, " ".repeat((1 << 20) + 1)).expect("it is written");
    let run = mscclpp(["machine", "show", path.to_str().expect("UTF-8")]).ends_with(2);
    assert!(run.stderr.contains("at most 1 MiB"), "{}", run.stderr);
}

#[test]
fn found_plan_is_written_with_its_function_and_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    // Two islands with one slow link between them.
    let links = [("gpu0-1", "left", 400), ("gpu2-3", "right", 400), ("left", "right", 20)];
    let links = links.map(|(from, to, rate)| {
        format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\ngb_per_s = {rate}\nsource = \"test\"\n")
    });
    let machine =
        format!("name = \"own\"\ndescription = \"islands\"\nranks = 4\nranks_per_node = 4\n{}", links.concat());
    fs::write(path("own.toml"), machine).expect("it is written");
    let find = ["find", "all_reduce", "--machine", &path("own.toml"), "--size", "1G", "-o", &path("found"), "--json"];
    let value = mscclpp(find).succeeds().json();
    let best = &value["plans"][0];
    assert_eq!((&best["plan"], &value["refused"]), (&"allreduce_trees".into(), &0.into()), "{value}");
    // The message leaves an island and enters it once, over 20 in each direction.
    let bound = f64::from(1 << 30) / 20e3;
    assert!((value["bound_us"].as_f64().expect("a bound") / bound - 1.0).abs() < 1e-9, "{value}");
    assert!(best["times_bound"].as_f64().expect("a number") < 1.05, "{value}");
    let plan = path("found/allreduce_trees.json");
    mscclpp(["check", &plan]).succeeds();
    mscclpp(["run", &plan, "--size", "1M"]).succeeds();
    let function = fs::read_to_string(path("found/allreduce_trees.rs")).expect("a function");
    assert!(function.contains("#[collective(AllReduce, ranks = 4") && function.contains("Lower bound: "), "{function}");
}

#[test]
fn found_table_serves_selections() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let find = ["find", "all_gather", "--machine", "4xl40s", "--sizes", "1K:4K", "-o", path, "--json"];
    let value = mscclpp(find).succeeds().json();
    // Three sizes, in place and not.
    assert_eq!(value["entries"].as_array().map(Vec::len), Some(6), "{value}");
    let table = format!("{path}/tuning.toml");
    assert_eq!(value["files"], serde_json::json!([table]), "{value}");
    let select = ["select", "all_gather", "--bytes", "2K", "--ranks", "4", "--backend", "cuda", "--table", &table];
    let run = mscclpp(select).succeeds();
    let entry = value["entries"].as_array().expect("entries").iter().find(|entry| entry["bytes"] == 2048);
    let algorithm = entry.expect("an entry")["algorithm"].as_str().expect("a name").to_owned();
    assert!(run.stdout.contains(&algorithm), "{algorithm}: {}", run.stdout);
}

#[test]
fn plan_that_loads_links_less_than_the_fastest_is_named() {
    let find = |machine| mscclpp(["find", "all_reduce", "--machine", machine, "--size", "256M"]).succeeds().stdout;
    let expected = "loads links less, 1.00 times the bound where allreduce_hierarchical_pipeline takes 1.56, but is predicted to take";
    let text = find("2x8xh100");
    assert!(text.contains(expected), "{text}");
    let text = find("8xh100");
    assert!(!text.contains("loads links less"), "{text}");
}

#[test]
fn mistakes_in_requests_for_plans_are_usage_errors() {
    let fails = |words: &[&str], expected: &str| {
        let run = mscclpp(["find", "all_reduce", "--machine", "8xh100"].iter().chain(words)).ends_with(2);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    };
    fails(&["--size", "1M", "--ranks", "9"], "expected 2 to 8 ranks on machine `8xh100`, found 9");
    fails(&["--sizes", "4K:1K"], "expected a first size of at most the last one, found 4096 and 1024");
    fails(&["--sizes", "4K"], "expected two sizes such as 1K:1G");
    fails(&["--sizes", "1:2"], "expected a power of two from 1K to 256M between them");
    fails(&[], "--size <SIZE>");
}

#[test]
fn measured_description_predicts_and_selects() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("here.toml").to_str().expect("UTF-8").to_owned();
    let words = ["machine", "measure", "--ranks", "2", "--sizes", "1K:4K", "--name", "here-2", "-o", &path, "--json"];
    let value = mscclpp(words).succeeds().json();
    let points = value["points"].as_array().expect("points");
    assert!(points.len() >= 40 && points.iter().all(|point| point["time_us"].as_f64() > Some(0.0)), "{value}");
    assert!(
        points.iter().any(|point| point["held_out"] == true) && value["mean_percent"].as_f64() > Some(0.0),
        "{value}"
    );
    let shown = mscclpp(["machine", "show", &path]).succeeds();
    assert!(shown.stdout.contains("here-2") && shown.stdout.contains("accuracy: mean error"), "{}", shown.stdout);
    let run = mscclpp(["select", "all_reduce", "--bytes", "4K", "--machine", &path]).succeeds();
    assert!(run.stdout.contains("predicted to be the fastest: "), "{}", run.stdout);
    let run = mscclpp(["machine", "measure", "--name", "a b"]).ends_with(2);
    assert!(run.stderr.contains("expected 1 to 32 letters"), "{}", run.stderr);
}
