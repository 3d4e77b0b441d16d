//! `bench`, `tune` and `select`: on ranks of this process, of our launcher, and of others'.

mod common;

use std::net::TcpListener;
use std::process::{Command, Stdio};

use common::{BINARY, mscclpp};
use serde_json::Value;

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// The lines of a bench with `--json`, which must have every key and no wrong element.
#[track_caller]
fn rows(stdout: &str) -> Vec<Value> {
    let rows: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    for row in &rows {
        for key in ["time_us", "algbw_gbs", "busbw_gbs"] {
            assert!(row[key].is_number(), "{key} in {row}");
        }
        assert!(row["time_us"].as_f64() > Some(0.0), "{row}");
        assert!(row["plan"].is_string() && row["dtype"].is_string(), "{row}");
        assert_eq!(row["wrong"], 0, "{row}");
    }
    rows
}

#[test]
fn every_collective_is_measured_on_ranks_of_this_process() {
    for (name, kind) in [
        ("all_reduce", "allreduce"),
        ("all_gather", "allgather"),
        ("reduce_scatter", "reducescatter"),
        ("all_to_all", "alltoall"),
        ("broadcast", "broadcast"),
        ("reduce", "reduce"),
        ("send_recv", "sendrecv"),
    ] {
        for more in ["", " --private --in-place --dtype bf16"] {
            let line = format!("bench {name} --ranks 3 -b 1K -e 20K -f 4 -n 3 -w 1 -c 1 --json{more}");
            let rows = rows(&mscclpp(words(&line)).succeeds().stdout);
            assert_eq!(rows.len(), 3, "{name}");
            assert!(rows.iter().all(|row| row["collective"] == kind && row["ranks"] == 3));
            let buffers = if more.is_empty() { "registered" } else { "private" };
            assert!(rows.iter().all(|row| row["buffers"] == buffers));
            // Parts are equal and elements whole.
            let unit = if more.is_empty() { 4 } else { 2 };
            assert!(
                rows.iter().all(|row| row["bytes"].as_u64().is_some_and(|bytes| bytes >= 1024 && bytes % unit == 0))
            );
        }
    }
}

#[test]
fn an_algorithm_can_be_asked_for() {
    let run =
        mscclpp(words("bench all_reduce --ranks 2 -e 1K -n 2 --plan allreduce_ring --blocks 2 --json")).succeeds();
    assert_eq!(rows(&run.stdout)[0]["plan"], "allreduce_ring");
    let run = mscclpp(words("bench all_reduce --ranks 2 -e 1K -n 2 --plan allgather_ring")).ends_with(2);
    assert!(run.stderr.contains("there is no such allreduce in the registry"), "{}", run.stderr);
    let run = mscclpp(words("bench all_reduce --ranks 2 -e 1K -n 2 --plan allreduce_switch")).ends_with(2);
    assert!(run.stderr.contains("it works in place only"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_measured_is_refused_at_once() {
    for line in [
        "bench all_things --ranks 2",
        "bench all_reduce --ranks 2 -b 2K -e 1K",
        "bench all_reduce --ranks 2 -b 0 -e 1K",
        "bench broadcast --ranks 2 --root 2",
        "bench all_reduce --ranks 0",
        "bench all_reduce --blocks 2 --ranks 2",
        "tune --ranks 2 -b 2K -e 1K",
    ] {
        mscclpp(words(line)).ends_with(2);
    }
    let run = mscclpp(words("bench all_reduce --ranks 2 -b 1T -e 1T")).ends_with(3);
    assert!(run.stderr.contains("of memory"), "{}", run.stderr);
    let run = mscclpp(words("tune all_reduce --ranks 2 -e 4T")).ends_with(3);
    assert!(run.stderr.contains("of memory"), "{}", run.stderr);
}

#[test]
fn processes_of_a_launcher_measure_together() {
    let line = format!("launch -n 3 -- {BINARY} bench all_gather -b 1K -e 4K -n 5 --json");
    let run = mscclpp(words(&line)).succeeds();
    let text: String = run.stdout.lines().map(|line| line.trim_start_matches("[0] ").to_owned() + "\n").collect();
    let rows = rows(&text);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["ranks"], 3);
}

#[test]
fn processes_of_a_torchrun_like_launcher_measure_together() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let start = |rank: u32| {
        Command::new(BINARY)
            .args(words("bench reduce_scatter -b 1K -e 4K -n 5 --json"))
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", "2")
            .env("LOCAL_RANK", rank.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    };
    let outputs = [start(0), start(1)].map(|child| child.wait_with_output().expect("it ends"));
    for output in &outputs {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let [first, second] = outputs.map(|output| String::from_utf8(output.stdout).expect("UTF-8"));
    assert_eq!(rows(&first).len(), 2);
    // Only rank 0 talks.
    assert_eq!(second, "");
}

#[test]
fn without_a_launcher_the_way_out_is_named() {
    let run = Command::new(BINARY).args(words("bench all_reduce")).env_clear().output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("RANK") && stderr.contains("--ranks"), "{stderr}");
}

#[test]
fn a_table_is_written_and_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("two.toml");
    let file = path.to_str().expect("UTF-8");
    let line = format!("tune all_reduce send_recv --ranks 2 -b 1K -e 2K -n 2 -o {file}");
    let run = mscclpp(words(&line)).succeeds();
    assert_eq!(run.stdout.lines().count(), 2 * 2 * 2 + 1, "{}", run.stdout);
    assert!(run.stdout.ends_with(&format!("8 entries in {file}\n")), "{}", run.stdout);

    let line = format!("select all_reduce --bytes 1500 --ranks 2 --table {file} --json");
    let selected = mscclpp(words(&line)).succeeds().json();
    let chosen = selected["algorithms"].as_array().expect("a list").iter().find(|one| one["outcome"] == "chosen");
    let reason = chosen.expect("one is chosen")["reason"].as_str().expect("a text");
    assert!(reason.ends_with("the tuning table has it for 2 KiB"), "{reason}");
    let line = format!("select all_reduce --bytes 1M --ranks 2 --table {file} --json");
    assert!(!mscclpp(words(&line)).succeeds().stdout.contains("tuning table"));

    // A measurement follows the table that the environment names.
    let run = Command::new(BINARY)
        .args(words("bench all_reduce --ranks 2 -e 1K -n 2 --private --json"))
        .env("MSCCLPP_TUNING_TABLE", file)
        .output()
        .expect("the binary starts");
    let fastest = &rows(&String::from_utf8_lossy(&run.stdout))[0]["plan"];
    let text = std::fs::read_to_string(&path).expect("the table");
    assert!(text.contains(&format!("algorithm = {fastest}")), "{fastest} in {text}");

    std::fs::write(&path, text.replace("processors = ", "processors = 9")).expect("it can be written");
    let run = mscclpp(words(&format!("select all_reduce --table {file}"))).succeeds();
    assert!(run.stderr.contains("processors: the table was measured with 9"), "{}", run.stderr);
    std::fs::write(&path, "format = 1\nmachine = 3\n").expect("it can be written");
    let run = mscclpp(words(&format!("select all_reduce --table {file}"))).ends_with(2);
    assert!(run.stderr.contains(&format!("{file}:2:11: ")), "{}", run.stderr);
}

#[test]
fn a_selection_is_explained() {
    let run = mscclpp(words("select all_gather --bytes 1M --ranks 8 --ranks-per-node 4 --in-place")).succeeds();
    assert!(run.stdout.contains("allgather_hierarchical          chosen: "), "{}", run.stdout);
    let run = mscclpp(words("select all_gather --ranks 8 --ranks-per-node 3")).ends_with(1);
    assert!(run.stdout.contains("no algorithm serves the request"), "{}", run.stdout);
}
