//! `bench`, `tune` and `select`: on ranks of this process, of our launcher, and of others'.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{BINARY, mscclpp};
use crate::port::Port;
use mscclpp_communicator::tune::TuningTable;
use rustix::process::{Pid, Signal, kill_process};
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
        assert!(row["dtype"].is_string(), "{row}");
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
        for more in ["", " --unregistered --in-place --dtype bf16"] {
            let line = format!("bench {name} --ranks 3 -b 1K -e 20K -f 4 -n 3 -w 1 -c 1 --json{more}");
            let rows = rows(&mscclpp(words(&line)).succeeds().stdout);
            assert_eq!(rows.len(), 3, "{name}");
            assert!(rows.iter().all(|row| row["collective"] == kind && row["ranks"] == 3));
            let buffers = if more.is_empty() { "registered" } else { "unregistered" };
            assert!(rows.iter().all(|row| row["buffers"] == buffers && row["plan"].is_string()));
            // Parts are equal and elements whole.
            let unit = if more.is_empty() { 4 } else { 2 };
            assert!(
                rows.iter().all(|row| row["bytes"].as_u64().is_some_and(|bytes| bytes >= 1024 && bytes % unit == 0))
            );
        }
    }
}

#[test]
fn calls_without_a_plan_are_measured() {
    for name in ["gather", "scatter", "all_to_all_v", "barrier"] {
        let line = format!("bench {name} --ranks 3 --root 2 -b 1K -e 20K -f 4 -n 3 -w 1 -c 1 --dtype f16 --json");
        let rows = rows(&mscclpp(words(&line)).succeeds().stdout);
        let bytes: Vec<_> = rows.iter().map(|row| row["bytes"].as_u64()).collect();
        let expected: &[_] = if name == "barrier" { &[Some(0)] } else { &[Some(1026), Some(4098), Some(16386)] };
        assert_eq!(bytes, expected, "{name}");
        assert!(rows.iter().all(|row| row["collective"] == name && row["plan"].is_null() && row["op"].is_null()));
        for (more, text) in [
            ("--plan allreduce_ring", "--plan: "),
            ("--in-place", "--in-place: "),
            ("--specialize --backend cuda", "--specialize: "),
            ("--virtual-ranks 2", "use --ranks"),
            ("--ranks 2 --root 2", "expected a rank of 0 to 1"),
        ] {
            let run = mscclpp(words(&format!("bench {name} {more}"))).ends_with(2);
            assert!(run.stderr.contains(text), "{name} {more}: {}", run.stderr);
        }
    }
}

#[test]
fn an_algorithm_can_be_asked_for() {
    let run =
        mscclpp(words("bench all_reduce --ranks 2 -e 1K -n 2 --plan allreduce_ring --blocks 2 --json")).succeeds();
    assert_eq!(rows(&run.stdout)[0]["plan"], "allreduce_ring");
    let run = mscclpp(words("bench all_reduce --ranks 2 -e 1K -n 2 --plan allgather_ring")).ends_with(2);
    assert!(run.stderr.contains("unknown algorithm `allgather_ring` for allreduce"), "{}", run.stderr);
    let run = mscclpp(words("bench all_reduce --ranks 2 -e 1K -n 2 --plan allreduce_rng")).ends_with(2);
    assert!(run.stderr.contains("similar names exist: `allreduce_ring`, "), "{}", run.stderr);
    let run = mscclpp(words("bench all_gather --ranks 2 -e 1K -n 2 --plan allgather_pairwise")).ends_with(2);
    assert!(run.stderr.contains("it supports only in-place requests"), "{}", run.stderr);
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
    let run = mscclpp(words("bench gathr --ranks 2")).ends_with(2);
    assert!(run.stderr.contains("send_recv, gather, scatter, all_to_all_v, barrier"), "{}", run.stderr);
    let run = mscclpp(words("bench all_reduce --ranks 2 -b 1T -e 1T")).ends_with(3);
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
    let port = Port::new();
    let start = |rank: u32| {
        Command::new(BINARY)
            .args(words("bench reduce_scatter -b 1K -e 4K -n 5 --json"))
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", "2")
            .env("LOCAL_RANK", rank.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.number.to_string())
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
    assert!(run.stdout.ends_with(&format!("8 entries for unregistered buffers in {file}\n")), "{}", run.stdout);

    let line = format!("select all_reduce --bytes 1500 --ranks 2 --table {file} --json");
    let selected = mscclpp(words(&line)).succeeds().json();
    let found = selected["algorithms"].as_array().expect("a list").iter().find(|one| one["outcome"] == "selected");
    let reason = found.expect("one is selected")["reason"].as_str().expect("a text");
    assert!(reason.ends_with("tuning table entry for 2 KiB"), "{reason}");
    let line = format!("select all_reduce --bytes 1M --ranks 2 --table {file} --json");
    assert!(!mscclpp(words(&line)).succeeds().stdout.contains("tuning table"));

    // A measurement follows the table that the environment names.
    let run = Command::new(BINARY)
        .args(words("bench all_reduce --ranks 2 -e 1K -n 2 --unregistered --json"))
        .env("MSCCLPP_TUNING_TABLE", file)
        .output()
        .expect("the binary starts");
    let fastest = &rows(&String::from_utf8_lossy(&run.stdout))[0]["plan"];
    let text = std::fs::read_to_string(&path).expect("the table");
    assert!(text.contains(&format!("algorithm = {fastest}")), "{fastest} in {text}");

    std::fs::write(&path, text.replace("processors = ", "processors = 9")).expect("it can be written");
    let run = mscclpp(words(&format!("select all_reduce --table {file}"))).succeeds();
    assert_eq!(run.stderr.matches("processors: the table was measured with 9").count(), 1, "{}", run.stderr);
    std::fs::write(&path, "format = 1\nmachine = 3\n").expect("it can be written");
    let run = mscclpp(words(&format!("select all_reduce --table {file}"))).ends_with(2);
    assert!(run.stderr.contains(&format!("{file}:2:11: ")), "{}", run.stderr);
}

#[test]
fn interrupted_measurement_leaves_the_table_of_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("part.toml");
    let line = format!("tune send_recv --ranks 2 -b 1K -e 256M -o {}", file.display());
    let mut tuning = Command::new(BINARY).args(words(&line)).stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut lines = BufReader::new(tuning.stdout.take().expect("a pipe")).lines();
    (0..2).for_each(|_| _ = lines.next().expect("a line").expect("text"));
    let pid = Pid::from_raw(tuning.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::TERM).expect("it runs");
    assert!(!tuning.wait().expect("it ends").success());
    let table = TuningTable::load(file).expect("a table");
    assert!((1..10).contains(&table.entries.len()), "{}", table.entries.len());
}

#[test]
fn a_table_is_written_where_its_name_leads_or_nothing_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("file.toml"), folder.path().join("link.toml"));
    std::fs::write(&file, "old").expect("it can be written");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let line = format!("tune send_recv --ranks 2 -b 1K -e 1K -n 1 -o {}", link.display());
    mscclpp(words(&line)).succeeds();
    assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert!(std::fs::read_to_string(&file).expect("it is there").contains("sendrecv"));

    let line = format!("tune send_recv --ranks 2 -b 1K -e 1K -n 1 -o {}/no/such.toml", folder.path().display());
    let run = mscclpp(words(&line)).ends_with(3);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("cannot write ") && run.stderr.contains("no/such.toml"), "{}", run.stderr);
}

#[test]
fn sizes_between_two_of_a_table_are_measured_as_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("two.toml");
    for (begin, end, sizes) in [("3K", "3K", &[4096][..]), ("1500", "1900", &[2048]), ("1", "1025", &[1024, 2048])] {
        let line = format!("tune send_recv --ranks 2 -b {begin} -e {end} -n 1 -o {}", file.display());
        let run = mscclpp(words(&line)).succeeds();
        assert_eq!(run.stdout.lines().count(), 2 * sizes.len() + 1, "{}", run.stdout);
        let text = std::fs::read_to_string(&file).expect("the table");
        for size in sizes {
            assert!(text.contains(&format!("\nbytes = {size}\n")), "{text}");
        }
    }
}

#[test]
fn what_cannot_be_told_is_lost_and_nothing_else() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let run = Command::new(BINARY)
        .args(words("bench all_reduce --ranks 2 -e 1K -n 1 --json"))
        .env("MSCCLPP_LOG_LEVEL", "info")
        .stderr(full)
        .output()
        .expect("the binary starts");
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(rows(&String::from_utf8_lossy(&run.stdout)).len(), 1);
}

/// A rank that is killed at the end of its test, also if the test fails: some run for as long as nothing ends them.
struct Rank(Option<Child>);

impl Rank {
    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it has not been waited for")
    }

    fn wait_with_output(mut self) -> Output {
        self.0.take().expect("it has not been waited for").wait_with_output().expect("it ends")
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One rank of two, as torchrun starts it.
fn rank_of_two(rank: u32, port: &Port, folder: &std::path::Path, line: &str) -> Rank {
    let child = Command::new(BINARY)
        .args(words(line))
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", "2")
        .env("LOCAL_RANK", rank.to_string())
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", port.number.to_string())
        .env("MSCCLPP_DUMP_DIR", folder)
        .env("MSCCLPP_METRICS", folder.join(METRICS))
        .env("MSCCLPP_METRICS_INTERVAL", "0.05")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Rank(Some(child.expect("the binary starts")))
}

/// File to which ranks append their metrics.
const METRICS: &str = "metrics.txt";

/// Waits until a rank that runs has made a call.
fn wait_for_calls(rank: &mut Rank, folder: &std::path::Path) {
    let begun = Instant::now();
    let process = u64::from(rank.child().id());
    let has_called = || {
        let lines = std::fs::read_to_string(folder.join(METRICS)).unwrap_or_default();
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.any(|line| line["process"] == process && line["prepared_plans"].as_u64() > Some(0))
    };
    while !has_called() {
        assert_eq!(rank.child().try_wait().expect("a child"), None, "it ends before it calls anything");
        assert!(begun.elapsed() < Duration::from_secs(100), "it has made no call");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn ranks_that_call_different_things_are_told_apart_with_their_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = Port::new();
    let lines = ["bench all_reduce --unregistered -e 1K -n 3", "bench all_gather --unregistered -e 1K -n 3"];
    let children = [0, 1].map(|rank| rank_of_two(rank, &port, folder.path(), lines[rank as usize]));
    for child in children {
        let output = child.wait_with_output();
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let path = folder.path().to_str().expect("UTF-8");
    let run = mscclpp(["analyze", path]).succeeds();
    assert!(run.stdout.starts_with("2 ranks; dumps of rank 0, 1\n\ncall 2 differs:\n"), "{}", run.stdout);
    for (rank, call) in [(0, "allreduce"), (1, "allgather")] {
        let line = format!("  rank {rank}: {call} of 1 KiB f32");
        let told = run.stdout.lines().find(|told| told.starts_with(&line)).expect("a line for the rank");
        assert!(told.contains("measure.rs:"), "{told}");
    }
    // Of two ranks either may be right: the call of the lower one counts as the expected one, on both.
    assert!(run.stdout.contains("\nlikely root cause: rank 1: ranks make different calls: rank 0 ("), "{}", run.stdout);
    let value = mscclpp(["analyze", path, "--json"]).succeeds().json();
    let group = &value["groups"][0];
    assert_eq!((&group["divergence"]["number"], &group["missing_dumps"]), (&2.into(), &serde_json::json!([])));
    assert_eq!((&group["group"], &group["root_cause"][0]), (&Value::Null, &1.into()));
}

#[test]
fn a_rank_that_was_killed_is_the_one_that_left_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = Port::new();
    let line = "bench all_reduce -b 1K -e 1K -n 100000000 -w 0";
    let mut survivor = rank_of_two(0, &port, folder.path(), line);
    let mut victim = rank_of_two(1, &port, folder.path(), line);
    wait_for_calls(&mut survivor, folder.path());
    wait_for_calls(&mut victim, folder.path());
    drop(victim);
    let output = survivor.wait_with_output();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{stderr}");
    assert!(stderr.contains("rank 1"), "{stderr}");
    let run = mscclpp([std::ffi::OsStr::new("analyze"), folder.path().as_os_str()]).succeeds();
    assert!(run.stdout.starts_with("2 ranks; dumps of rank 0\nno dump from rank 1\n"), "{}", run.stdout);
    assert!(run.stdout.contains("\nlikely root cause: rank 1: "), "{}", run.stdout);
}

#[test]
fn dumps_of_an_earlier_job_are_analyzed_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |job: &str, rank: u32, message: &str| {
        let own =
            format!(r#"{{"kind":"rank","format":1,"version":"0","job":"{job}","rank":{rank},"ranks":2,"process":1}}"#);
        let failure = format!(r#"{{"kind":"failure","message":"{message}","root_cause":null}}"#);
        std::fs::write(folder.path().join(format!("{job}-{rank}.jsonl")), format!("{own}\n{failure}\n"))
            .expect("a file");
    };
    let analyze = || mscclpp([std::ffi::OsStr::new("analyze"), folder.path().as_os_str()]).succeeds();
    (0..2).for_each(|rank| write("aa", rank, "early"));
    let run = analyze();
    assert_eq!(run.stderr, "");
    assert!(run.stdout.starts_with("2 ranks; dumps of rank 0, 1\n"), "{}", run.stdout);
    write("bb", 1, "late");
    let run = analyze();
    assert!(run.stderr.contains("the dumps are of 2 jobs, each of which is analyzed alone"), "{}", run.stderr);
    for expected in ["job aa: 2 ranks; dumps of rank 0, 1\n", "job bb: 2 ranks; dumps of rank 1\nno dump from rank 0\n"]
    {
        assert!(run.stdout.contains(expected), "{expected} in {}", run.stdout);
    }
}

/// The calls of each rank, and what its thread blocks wait for.
#[test]
fn page_of_dumps_shows_calls_and_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..2u32 {
        let peer = 1 - rank;
        let lines = format!(
            r#"{{"kind":"rank","format":1,"version":"0","job":"aa","rank":{rank},"ranks":2,"process":1}}
{{"kind":"call","number":7,"request":"allreduce of 4 KiB","at":"src/train.rs:3:4"}}
{{"kind":"failure","message":"rank {peer} is late","root_cause":null}}
{{"kind":"wait","rank":{rank},"block":0,"op":2,"operation":"wait","waits_for":"a signal of rank {peer}","released_by":{{"rank":{peer},"block":0,"op":3,"operation":"signal"}}}}
"#
        );
        std::fs::write(folder.path().join(format!("{rank}.jsonl")), lines).expect("a file");
    }
    let page = folder.path().join("page.html");
    let words = ["analyze", folder.path().to_str().expect("UTF-8"), "--html", page.to_str().expect("UTF-8")];
    mscclpp(words).succeeds();
    let shown = std::fs::read_to_string(&page).expect("a page");
    for expected in [
        "call 7",
        "allreduce of 4 KiB",
        "rank 0, thread block 0, wait</a>: waits for a signal of rank 1",
        "rank 1, calls, call 7</a>: rank 0 is late",
        "class=\"arrow\"",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
}

#[test]
fn what_is_no_dump_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = mscclpp([std::ffi::OsStr::new("analyze"), folder.path().as_os_str()]).ends_with(2);
    assert!(run.stderr.contains("no dumps found"), "{}", run.stderr);
    let path = folder.path().join("a.jsonl");
    let good = r#"{"kind":"rank","format":1,"version":"0","job":"7","rank":0,"ranks":2,"process":1}"#;
    for (text, told) in [
        ("", ":1: expected a line of kind `rank`, found none".to_owned()),
        (good, ":2: expected a line of kind `failure`, found none".to_owned()),
        ("{}", ":1: missing field `kind`".to_owned()),
        ("{\"kind\":\"rank\",", ":1: EOF while parsing".to_owned()),
        (&good.replace("\"format\":1", "\"format\":7"), ":1: expected format 1, found 7".to_owned()),
        (
            &good.replace("\"rank\":0", "\"rank\":2"),
            ":1: expected a rank below the number of ranks, found rank 2 of 2 ranks".to_owned(),
        ),
    ] {
        std::fs::write(&path, text).expect("it can be written");
        let run = mscclpp([std::ffi::OsStr::new("analyze"), path.as_os_str()]).ends_with(2);
        assert!(run.stderr.contains(&told), "{told} in {}", run.stderr);
    }
}

#[test]
fn a_selection_is_explained() {
    let run = mscclpp(words("select all_gather --bytes 1M --ranks 8 --ranks-per-node 4 --in-place")).succeeds();
    assert!(run.stdout.contains("allgather_hierarchical           selected: "), "{}", run.stdout);
    let run = mscclpp(words("select all_gather --ranks 8 --ranks-per-node 3")).ends_with(1);
    assert!(run.stdout.contains("no algorithm is eligible"), "{}", run.stdout);
    for line in ["select broadcast --ranks 4 --root 9", "select all_reduce --ranks 4 --root 4"] {
        let run = mscclpp(words(line)).ends_with(2);
        assert!(run.stderr.contains("expected a rank of 0 to 3"), "{}", run.stderr);
    }
    let run = mscclpp(words("select broadcast --ranks 4 --root 3")).succeeds();
    assert!(run.stdout.contains(", root 3, "), "{}", run.stdout);
}

#[test]
fn virtual_ranks_are_measured_in_one_process() {
    let run = mscclpp(words("bench all_reduce --virtual-ranks 3,8 -b 1K -e 4K -n 4 -w 1 -c 1 --json")).succeeds();
    let lines: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let ranks: Vec<_> = lines.iter().map(|line| line["ranks"].as_u64()).collect();
    assert_eq!(ranks, [Some(3), Some(3), Some(8), Some(8)]);
    for line in &lines {
        assert!(line["virtual"] == true && line["wrong"] == 0 && line["plan"] == "allreduce_all_pairs", "{line}");
    }
    mscclpp(words("bench all_gather --virtual-ranks 2 --in-place -e 1K -n 2")).succeeds();
    let run = mscclpp(words("bench all_reduce --virtual-ranks 2 --plan allreduce_rng")).ends_with(2);
    assert!(run.stderr.contains("similar names exist: `allreduce_ring`, "), "{}", run.stderr);
}

#[test]
fn a_device_is_asked_for_by_its_own_options() {
    for (arguments, text) in [
        ("bench all_reduce --backend cuda --ranks 2", "does not support --ranks: use --virtual-ranks or --gpus"),
        (
            "bench gather --backend cuda --warmup 3",
            "does not support --warmup: each graph is launched before it is timed",
        ),
        ("bench all_reduce --backend cuda --unregistered", "does not support --unregistered: "),
    ] {
        let run = mscclpp(words(arguments)).ends_with(2);
        assert!(run.stderr.contains(text), "{}", run.stderr);
    }
    for line in ["bench all_reduce --gpus 2 -e 1K", "run allreduce_ring --ranks 2 --gpus 2"] {
        let run = mscclpp(words(line)).ends_with(2);
        assert!(run.stderr.contains("--gpus requires --backend cuda"), "{}", run.stderr);
    }
    for line in [
        "bench all_reduce --backend cuda --gpus 3 --virtual-ranks 4,2 -e 1K",
        "run allreduce_ring --ranks 2 --backend cuda --gpus 3",
    ] {
        let run = mscclpp(words(line)).ends_with(2);
        assert!(run.stderr.contains("--gpus 3: expected at most 2, the number of ranks"), "{}", run.stderr);
    }
}

#[test]
fn selection_depends_on_the_backend() {
    let selected = |words: &[&str]| {
        let words =
            ["select", "all_reduce", "--bytes", "16K", "--ranks", "8", "--registered", "--json"].iter().chain(words);
        mscclpp(words).succeeds().json()["selected"].as_str().unwrap().to_owned()
    };
    let (cpu, cuda) = (selected(&[]), selected(&["--backend", "cuda"]));
    assert_eq!(cpu, selected(&["--backend", "cpu"]));
    assert_ne!(cpu, cuda);
    mscclpp(["select", "all_reduce", "--backend", "gpu"]).ends_with(2);
}

#[test]
fn selection_names_the_kernel_of_the_plan() {
    let kernel = |options: &str| {
        let line = format!("select all_reduce --ranks 8 --json {options}");
        mscclpp(words(&line)).succeeds().json()["kernel"].clone()
    };
    for options in
        ["--bytes 1K", "--bytes 16K", "--bytes 16K --in-place", "--bytes 64K --multicast", "--bytes 1K --dtype bf16"]
    {
        assert_eq!(kernel(&format!("{options} --backend cuda")), "ahead-of-time", "{options}");
    }
    for options in
        ["--bytes 1M", "--bytes 1K --dtype f64", "--bytes 16K --multicast --order same-on-all-ranks --dtype i32"]
    {
        assert_eq!(kernel(&format!("{options} --backend cuda")), "just-in-time", "{options}");
    }
    assert_eq!(kernel("--bytes 1K"), serde_json::Value::Null);
    let text = mscclpp(words("select all_reduce --ranks 8 --bytes 1K --backend cuda")).succeeds().stdout;
    assert!(text.contains("launched by: a kernel of the plan, compiled ahead of time"), "{text}");
}

#[test]
fn selection_follows_plans_and_order_of_the_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = mscclpp(words("plan show allreduce_ring --ranks 2")).succeeds().stdout;
    std::fs::write(folder.path().join("mine.plan"), text.replacen("plan allreduce_ring", "plan mine", 1))
        .expect("written");
    std::fs::write(folder.path().join("wrong.json"), "{}").expect("written");
    let select = |variables: &[(&str, &str)]| {
        let mut command = Command::new(BINARY);
        let folder = ("MSCCLPP_PLANS", folder.path().to_str().expect("text"));
        command.args(words("select all_reduce --ranks 2 --bytes 1M")).env(folder.0, folder.1);
        let output = command.envs(variables.iter().copied()).output().expect("the binary starts");
        (output.status.code(), [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let (code, [explained, _]) = select(&[]);
    assert_eq!(code, Some(0), "{explained}");
    let of = |name: &str| explained.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(of("mine").contains("selected: registered by the application"), "{explained}");
    assert!(of("not loaded: ").contains("wrong.json: "), "{explained}");
    let (code, [_, error]) = select(&[("MSCCLPP_PLANS_STRICT", "1")]);
    assert!(code == Some(2) && error.contains("MSCCLPP_PLANS_STRICT=1, and a plan cannot be used"), "{error}");
    let (code, [_, error]) = select(&[("MSCCLPP_ORDER", "left")]);
    let expected = "MSCCLPP_ORDER=left: expected any, in-switch, same-on-all-ranks, rank-order";
    assert!(code == Some(2) && error.contains(expected), "{error}");
}

#[test]
fn ranks_whose_environments_demand_different_orders_are_told_both() {
    let ranks = r#"[ "$RANK" = 1 ] && export MSCCLPP_ORDER=rank-order; exec "$0" bench all_reduce -e 1K -n 1"#;
    let run = mscclpp(["launch", "-n", "2", "--", "sh", "-c", ranks, BINARY]);
    assert_ne!(run.code(), 0, "{}", run.stderr);
    for expected in ["order of reduction", "rank-order", "in-switch"] {
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
}

/// Each rank has a file, and the clocks of all ranks are one.
#[test]
fn timelines_of_ranks_overlap_in_each_launch() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(BINARY);
    command
        .args(words("bench all_reduce --ranks 2 -b 1K -e 1K -n 3 --unregistered"))
        .env("MSCCLPP_TIMELINE", folder.path());
    let output = command.output().expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut launches = [BTreeMap::new(), BTreeMap::new()];
    let mut processes = BTreeMap::new();
    for (rank, path) in files.iter().enumerate() {
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(name.starts_with(&format!("mscclpp-timeline-rank-{rank}-of-2-")), "{name}");
        let trace: Vec<Value> = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
        for event in trace.iter().filter(|event| event["ph"] == "X") {
            // Also in a joined file each rank has its own process.
            assert!(
                processes.insert(rank, event["pid"].as_u64()).is_none_or(|pid| pid == event["pid"].as_u64()),
                "{event}"
            );
            let [begin, duration] = ["ts", "dur"].map(|key| event[key].as_f64().expect("a number"));
            let times = launches[rank].entry(event["args"]["launch"].as_u64()).or_insert((begin, begin));
            *times = (times.0.min(begin), times.1.max(begin + duration));
        }
    }
    assert_ne!(processes[&0], processes[&1]);
    let [first, second] = launches;
    assert!(!first.is_empty() && first.keys().eq(second.keys()), "{first:?} {second:?}");
    // An all-reduce ends on no rank before it has begun on all.
    for (one, other) in first.values().zip(second.values()) {
        assert!(one.0 <= other.1 && other.0 <= one.1, "{first:?} {second:?}");
    }
}
