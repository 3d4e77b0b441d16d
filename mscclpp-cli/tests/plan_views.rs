//! `mscclpp plan show`, `plan stats`, `plan graph`, `plan diff`, and `plan export --target mscclpp`.

use std::fs;

use crate::common::plans::{good, text};
use crate::common::{mscclpp, mscclpp_reading};
use mscclpp_core::plan::raw::OpKind;
use serde_json::json;

/// What `plan show` prints of the small plan: one line per operation, with ranks and buffers in words.
const SHOWN: &str = "\
plan swap
collective sendrecv
ranks 2
protocol Simple
threads_per_block 1024
buffer_alignment 16

rank 0 (input 1, output 1, scratch 0) {
  block 0:
    nop
    rlxsignal memory rank 1
    nop
    rlxwait memory rank 1
    nop
    put memory rank 1 output[0] <- input[0]
    nop
    signal memory rank 1
    wait memory rank 1
    nop
}
";

#[test]
fn show_is_readable() {
    let plan = text(&good());
    let run = mscclpp_reading(["plan", "show", "-"], &plan).succeeds();
    assert!(run.stdout.starts_with(SHOWN), "{}", run.stdout);
    assert!(run.stdout.contains("\nrank 1 ("), "{}", run.stdout);
    assert_eq!(mscclpp_reading(["plan", "show", "-", "--rank", "0"], &plan).succeeds().stdout, SHOWN);
    let run = mscclpp_reading(["plan", "show", "-", "--rank", "2"], &plan).ends_with(2);
    assert!(run.stderr.contains("expected a rank of plan `swap`, 0 to 1"), "{}", run.stderr);
    let commented = mscclpp_reading(["plan", "show", "-", "--comments"], &plan).succeeds().stdout;
    assert!(commented.contains("    wait memory rank 1  ; operation 8\n"), "{commented}");
    // What is shown is a plan file.
    for shown in [&run_of_show(&plan), &commented] {
        assert_eq!(run_of_show(shown), run_of_show(&plan));
        assert_eq!(mscclpp_reading(["plan", "export", "-"], shown).succeeds().stdout.trim_end(), plan.trim_end());
    }
}

/// What `plan show` prints of a plan.
fn run_of_show(plan: &str) -> String {
    mscclpp_reading(["plan", "show", "-"], plan).succeeds().stdout
}

#[test]
fn every_algorithm_is_shown_counted_and_equal_to_itself() {
    for algorithm in mscclpp(["plan", "list", "--json"]).succeeds().json().as_array().unwrap() {
        let name = algorithm["name"].as_str().unwrap();
        let shown = mscclpp(["plan", "show", name, "--ranks", "4"]).succeeds();
        assert!(shown.stdout.starts_with(&format!("plan {name}\n")), "{}", shown.stdout);
        let stats = mscclpp(["plan", "stats", name, "--ranks", "4", "--json"]).succeeds().json();
        assert_eq!(stats["ranks"].as_array().unwrap().len(), 4);
        let is_op = |line: &&str| OpKind::from_name(line.split_whitespace().next().unwrap_or_default()).is_some();
        assert_eq!(stats["total"]["ops"], shown.stdout.lines().filter(is_op).count(), "{name}");
        let again = run_of_show(&shown.stdout);
        assert_eq!(again, shown.stdout, "{name}");
        mscclpp(["plan", "diff", name, name, "--ranks", "4"]).succeeds();
    }
}

#[test]
fn stats_count_what_is_there() {
    let plan = text(&good());
    let run = mscclpp_reading(["plan", "stats", "-"], &plan).succeeds();
    let expected = "\
swap: sendrecv of 2 ranks; channels by kind; scratch and data in chunks, data in packets counts twice
checks: accepted

rank  blocks  ops  syncs  memory  port  switch  semaphores  scratch  sent  fetched  written  reduced
   0       1   10      9       1     0       0           0        0     1        0        0        0
   1       1   10      9       1     0       0           0        0     1        0        0        0
 all       2   20     18       2     0       0           0        0     2        0        0        0

operation  count
nop           10
put            2
signal         2
wait           2
rlxsignal      2
rlxwait        2
";
    assert_eq!(run.stdout, expected);
    let json = mscclpp_reading(["plan", "stats", "-", "--json"], &plan).succeeds().json();
    assert_eq!(json["total"]["sent"], json!({ "memory": { "plain": 2.0, "packets": 0.0 } }));
    assert_eq!(json["ranks"][1]["ops_by_kind"]["nop"], 5);
}

#[test]
fn stats_say_in_which_order_a_plan_reduces() {
    let order = |name: &str| {
        let text = mscclpp(["plan", "stats", name, "--ranks", "4"]).succeeds().stdout;
        let lines: Vec<_> = text.lines().skip(2).take(3).map(|line| line.trim().to_owned()).collect();
        let json =
            mscclpp(["plan", "stats", name, "--ranks", "4", "--json"]).succeeds().json()["reduction_order"].clone();
        assert!(lines[0].contains(json["fingerprint"].as_str().unwrap()), "{text}");
        (lines, json)
    };
    // Rank 1 begins with its own.
    let (text, json) = order("allreduce_one_shot");
    assert!(text[0].ends_with(", 2 orders"), "{text:?}");
    assert_eq!(text[1], "same bits on all ranks: no, rank 1 reduces in another order");
    assert_eq!(text[2], "same bits for all message sizes: yes");
    assert_eq!((&json["differing_ranks"], &json["same_on_all_ranks"]), (&json!([1]), &json!(false)));
    assert_eq!(json["rank_order"], false);
    for name in ["allreduce_switch_packets", "allreduce_one_shot_packets", "allreduce_rank_order"] {
        let (text, json) = order(name);
        assert!(text[0].ends_with(", 1 order, that of ranks"), "{text:?}");
        assert_eq!((&json["rank_order"], &json["same_for_all_sizes"]), (&json!(true), &json!(true)));
    }
    // Every chunk is reduced once, and begins its way around the ring on another rank.
    for name in ["allreduce_ring", "reducescatter_ring"] {
        let (text, json) = order(name);
        assert_eq!(text[1], "same bits on all ranks: yes", "{name}");
        assert_eq!(text[2], "same bits for all message sizes: no, the order changes from chunk to chunk", "{name}");
        assert_eq!((&json["orders"], &json["by_switch"]), (&json!(4), &json!(false)));
    }
    let (text, json) = order("allreduce_switch");
    assert!(text[0].ends_with(", 1 order; the order within switches is unspecified"), "{text:?}");
    assert_eq!(json["same_for_all_sizes"], true);
    let none = mscclpp(["plan", "stats", "allgather_ring", "--ranks", "4", "--json"]).succeeds().json();
    assert!(none["reduction_order"].is_null());
}

#[test]
fn diff_compares_the_meaning() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.json");
    let path = path.to_str().unwrap();
    let plan = text(&good());
    fs::write(path, &plan).unwrap();
    // White space and the order of keys are no difference.
    let value: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let run = mscclpp_reading(["plan", "diff", path, "-"], &value.to_string()).succeeds();
    assert_eq!(run.stdout, "the plans are equivalent\n");
    assert_eq!(
        mscclpp(["plan", "diff", path, path, "--json"]).succeeds().json(),
        json!({ "equal": true, "differences": [] })
    );

    let other = plan.replace("\"swap\"", "\"swop\"");
    let run = mscclpp_reading(["plan", "diff", path, "-"], &other).ends_with(1);
    assert_eq!(run.stdout, "name: swap | swop\n1 difference\n");
    let json = mscclpp_reading(["plan", "diff", path, "-", "--json"], &other).ends_with(1).json();
    let difference = json!({ "rank": null, "threadblock": null, "op": null, "what": "name", "a": "swap", "b": "swop" });
    assert_eq!(json, json!({ "equal": false, "differences": [difference] }));

    mscclpp_reading(["plan", "diff", path, "-"], "{").ends_with(2);
    mscclpp(["plan", "diff", path, "no/such.json"]).ends_with(2);
    let run = mscclpp(["plan", "diff", "-", "-"]).ends_with(2);
    assert!(run.stderr.contains("standard input"), "{}", run.stderr);
}

#[test]
fn diff_builds_names_with_the_arguments_and_takes_files_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring.json");
    let path = path.to_str().unwrap();
    mscclpp(["plan", "export", "allreduce_ring", "--ranks", "3", "--instances", "2", "-o", path]).succeeds();
    mscclpp(["plan", "diff", "allreduce_ring", path, "--ranks", "3", "--instances", "2"]).succeeds();
    mscclpp(["plan", "diff", "allreduce_ring", path, "--ranks", "3"]).ends_with(1);
}

#[test]
fn a_plan_for_the_reference_executor_keeps_its_limits() {
    let ours = mscclpp(["plan", "export", "allreduce_ring", "--ranks", "4"]).succeeds();
    let theirs = mscclpp(["plan", "export", "allreduce_ring", "--ranks", "4", "--target", "mscclpp"]).succeeds();
    let keys = |text: &str| -> Vec<String> {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert!(keys(&theirs.stdout).iter().all(|key| keys(&ours.stdout).contains(key)));
    let run = mscclpp(["plan", "export", "allreduce_ring", "--ranks", "64", "--target", "mscclpp"]).ends_with(1);
    assert_eq!(run.stdout, "");
    assert!(
        run.stderr.contains("the limit of the reference executor is 64") && run.stderr.contains("was not exported"),
        "{}",
        run.stderr
    );
}

#[test]
fn graphs_are_drawings_on_standard_output_or_in_a_file() {
    let plan = text(&good());
    let run = mscclpp_reading(["plan", "graph", "-"], &plan).succeeds();
    assert!(run.stdout.starts_with("<svg xmlns=") && run.stdout.ends_with("</svg>\n"), "{}", run.stdout);
    assert!(
        run.stdout.contains("put from rank 0 to rank 1: 1 transfer of 1 chunk, input[0] to output[0]"),
        "{}",
        run.stdout
    );

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("graph.svg");
    let run = mscclpp(["plan", "graph", "allreduce_ring", "--ranks", "8", "--rank", "3", "-o", file.to_str().unwrap()]);
    assert_eq!(run.succeeds().stdout, "");
    let drawn = fs::read_to_string(&file).unwrap();
    assert!(drawn.contains("put from rank 2 to rank 3") && !drawn.contains("from rank 4 to rank 5"), "{drawn}");
    let run = mscclpp_reading(["plan", "graph", "-", "--rank", "2"], &plan).ends_with(2);
    assert!(run.stderr.contains("expected a rank of plan `swap`, 0 to 1"), "{}", run.stderr);
}
