//! `mscclpp machine`, `mscclpp simulate` and `mscclpp bound`.

use std::fs;

use crate::common::mscclpp;

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
    assert!(page.starts_with("<!doctype html>") && page.contains("class=\"reduce critical\""), "{page}");
    fs::write(path("own.toml"), machine.replace("10\n", "-1\n")).expect("it is written");
    let run = mscclpp(["machine", "show", &path("own.toml")]).ends_with(2);
    assert!(run.stderr.contains("link.gb_per_s: expected a positive number, found -1"), "{}", run.stderr);
}

#[test]
fn bound_has_a_certificate() {
    let run = mscclpp(["bound", "all_gather", "--machine", "8xh100", "--size", "1G", "--json"]);
    let value = run.succeeds().json();
    assert!((value["algbw_gb_per_s"].as_f64().expect("a rate") - 514.285714).abs() < 1e-5, "{value}");
    assert_eq!(value["certificate"]["messages"], 0.875);
}

#[test]
fn mistakes_are_usage_errors() {
    let simulate = ["simulate", "allreduce_ring", "--size", "1M", "--machine"];
    let run = mscclpp(simulate.iter().chain(&["8xh10"])).ends_with(2);
    assert!(run.stderr.contains("unknown machine `8xh10`"), "{}", run.stderr);
    mscclpp(simulate.iter().chain(&["8xh100", "--ranks", "9"])).ends_with(2);
    let run = mscclpp(simulate.iter().chain(&["h200-virtual", "--tier", "fast"])).ends_with(2);
    assert!(run.stderr.contains("expected one of: hand-written, interpreted, specialized"), "{}", run.stderr);
    mscclpp(["bound", "all_reduce", "--machine", "8xh100", "--ranks", "1", "--size", "1"]).ends_with(2);
    mscclpp(["machine", "show", "./no/such.toml"]).ends_with(2);
}
