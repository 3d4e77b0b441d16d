//! `mscclpp status`, dumps and metrics of jobs that run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::BINARY;
use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Number of calls that each rank has made before the last rank is late.
const CALLS: u64 = 40;

/// A rank of the following tests. In all roles but `runs`, the last one makes no call after the first ones until the test ends
/// it.
#[test]
#[ignore = "a rank of the following tests, which start it"]
fn rank_of_a_job() {
    let world = Communicator::from_env().unwrap();
    let mut comm = world.clone();
    let role = std::env::var("STATUS_ROLE").unwrap();
    if role == "halves" {
        // One rank of each host in each half.
        comm = comm.split(Some(comm.rank() % 2), 0).unwrap().unwrap();
    }
    let is_late = std::env::var("RANK") == std::env::var("STATUS_LATE");
    let call = || comm.all_reduce_in_place(&mut [1.0_f32; 256], ReduceOp::Sum).unwrap();
    (0..CALLS).for_each(|_| call());
    let made = Path::new(&std::env::var_os("STATUS_MADE").unwrap()).join(world.rank().to_string());
    std::fs::write(made, "").unwrap();
    let end = Path::new(&std::env::var_os("STATUS_END").unwrap()).to_owned();
    if role == "runs" {
        while !comm.agree(end.exists()).unwrap() {
            call();
        }
    }
    while is_late && !end.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    call();
    comm.barrier().unwrap();
    // Rank 0 of the job answers for all, so it leaves last.
    while !end.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    world.bootstrap().barrier().unwrap();
}

/// A job of the tests, and a folder for its files.
pub(crate) struct Job {
    launcher: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl Job {
    /// Starts a job and waits until its ranks have made their first calls: before that, any rank may be late on a busy machine.
    pub(crate) fn start(ranks: u32, role: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let exe = std::env::current_exe().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["dumps", "made", "metrics"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let (last, hosts) = ((ranks - 1).to_string(), if role == "halves" { "2" } else { "1" });
        let launcher = Command::new(BINARY)
            .args(["launch", "-n", &ranks.to_string(), "--hosts", hosts, "--"])
            .arg(exe)
            .args(["status::rank_of_a_job", "--exact", "--ignored", "--nocapture"])
            .env("XDG_RUNTIME_DIR", folder.path())
            .envs([
                ("STATUS_END", path("end")),
                ("STATUS_MADE", path("made")),
                ("MSCCLPP_DUMP_DIR", path("dumps")),
                ("MSCCLPP_METRICS", path("metrics")),
            ])
            .envs([("STATUS_ROLE", role), ("MSCCLPP_DUMP_SIGNAL", "USR1"), ("MSCCLPP_HEARTBEAT_TIMEOUT", "100")])
            .envs([("MSCCLPP_METRICS_INTERVAL", "0.05"), ("STATUS_LATE", if role == "runs" { "" } else { &last })])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let job = Self { launcher, folder };
        let start = Instant::now();
        while std::fs::read_dir(job.folder.path().join("made")).unwrap().count() < ranks as usize {
            assert!(start.elapsed() < Duration::from_secs(120), "not all ranks have made their calls");
            std::thread::sleep(Duration::from_millis(5));
        }
        job
    }

    fn status(&self, arguments: &str) -> Output {
        status_in(self.folder.path(), arguments)
    }

    /// Waits until the status of the whole job is as expected, and returns it.
    pub(crate) fn wait_for(&self, mut is_expected: impl FnMut(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let output = self.status("--json");
            if let Ok(found) = serde_json::from_slice::<Value>(&output.stdout)
                && is_expected(&found["communicators"][0])
            {
                return found["communicators"][0].clone();
            }
            assert!(start.elapsed() < Duration::from_secs(120), "{output:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until two ranks have waited for the third one for long. For the verdict one that has is enough.
    pub(crate) fn wait_until_late(&self) -> Value {
        let waits = |row: &Value| row["state"] == "waiting" && row["seconds"].as_f64() >= Some(1.0);
        self.wait_for(|found| is("late")(found) && (0..2).all(|rank| waits(&found["ranks"][rank])))
    }

    /// Lets the ranks end, and checks that nothing disturbed them.
    pub(crate) fn end(self) -> tempfile::TempDir {
        std::fs::write(self.folder.path().join("end"), "").unwrap();
        let output = self.launcher.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !stderr.contains("panicked"), "{stderr}");
        self.folder
    }
}

fn status_in(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("status").args(arguments.split_whitespace()).current_dir(folder).env("XDG_RUNTIME_DIR", folder);
    command.env_remove("MSCCLPP_SECRET").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn is(finding: &'static str) -> impl Fn(&Value) -> bool {
    move |communicator| communicator["verdict"]["finding"] == finding
}

pub(crate) fn kill(pid: &Value, signal: Signal) {
    kill_process(Pid::from_raw(pid.as_i64().unwrap() as i32).unwrap(), signal).unwrap();
}

/// Returns what `mscclpp analyze` prints of a folder.
fn analysis(folder: &Path) -> String {
    let output = Command::new(BINARY).arg("analyze").arg(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    stdout(&output)
}

#[test]
fn straggler_is_named_with_its_last_call_and_dumped() {
    let job = Job::start(3, "straggler");
    let found = job.wait_until_late();
    assert_eq!(found["verdict"]["ranks"], serde_json::json!([2]));
    for rank in [0, 1] {
        let row = &found["ranks"][rank];
        assert_eq!(row["waits_for"], serde_json::json!([2]));
        assert!(row["call"]["text"].as_str().unwrap().starts_with("allreduce of 1 KiB f32, sum, in place"), "{row}");
        assert!(row["call"]["at"].as_str().unwrap().contains("status.rs:"), "{row}");
        assert!(row["pid"].as_u64().unwrap() > 1, "{row}");
    }
    assert_eq!(found["ranks"][2]["state"], "between-calls");

    let output = job.status("");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let verdict = text.lines().last().unwrap();
    assert!(verdict.starts_with("rank 2 has not made allreduce of 1 KiB f32, sum, in place, 3 ranks on 1 node (call "));
    assert!(
        verdict.contains("status.rs:") && verdict.contains(", in which ranks 0 and 1 have waited for "),
        "{verdict}"
    );
    assert!(verdict.contains("; its last call, allreduce of 1 KiB") && verdict.ends_with(" s ago"), "{verdict}");

    // Dumps through the control plane, on the operator's machine.
    let output = job.status("--dump collected");
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(0), 3), "{output:?}");
    let told = analysis(&job.folder.path().join("collected"));
    let last = format!("rank 2: it did not make call {}; its last call was allreduce of 1 KiB f32", CALLS + 1);
    assert!(told.contains(&last) && told.contains("  rank 0: waiting for "), "{told}");

    // Dumps on a signal, which the launcher forwards.
    kill(&job.launcher.id().into(), Signal::USR1);
    let dumps = job.folder.path().join("dumps");
    let start = Instant::now();
    let written = || {
        let names = std::fs::read_dir(&dumps).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).count()
    };
    while written() < 3 {
        assert!(start.elapsed() < Duration::from_secs(100), "{} dumps", written());
        std::thread::sleep(Duration::from_millis(10));
    }
    let told = analysis(&dumps);
    assert!(told.contains(&last), "{told}");

    // Another secret is refused, by name, and the job is not disturbed.
    let address = serde_json::from_slice::<Value>(&job.status("--json").stdout).unwrap()["address"].clone();
    let wrong = |secret: Option<&str>| {
        let mut command = Command::new(BINARY);
        command.args(["status", "--address", address.as_str().unwrap()]).env_remove("MSCCLPP_SECRET");
        command.envs(secret.map(|secret| ("MSCCLPP_SECRET", secret))).output().unwrap()
    };
    let refused = wrong(Some("00112233445566778899aabbccddeeff"));
    let expected = format!("authentication with {} failed", address.as_str().unwrap());
    assert!(stderr(&refused).contains(&expected) && refused.status.code() == Some(3), "{refused:?}");
    assert!(stderr(&wrong(None)).contains("MSCCLPP_SECRET is not set"));
    assert!(stderr(&wrong(Some("abc"))).contains("MSCCLPP_SECRET: cannot parse"));

    // After its end, and that of its launcher, there is no job.
    let folder = job.end();
    let output = status_in(folder.path(), "");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no job of `mscclpp launch` runs"), "{output:?}");
}

#[test]
fn communicators_across_hosts_have_their_own_verdicts() {
    let job = Job::start(4, "halves");
    let mut found = Value::Null;
    job.wait_for(|_| {
        let all: Value = serde_json::from_slice(&job.status("--json").stdout).unwrap_or_default();
        let communicators = all["communicators"].as_array().into_iter().flatten();
        communicators.filter(|one| is("late")(one)).for_each(|one| found = one.clone());
        !found.is_null()
    });
    let ranks: Vec<_> = found["ranks"].as_array().unwrap().iter().map(|rank| rank["job_rank"].clone()).collect();
    assert_eq!((ranks, &found["verdict"]["ranks"]), (vec![1.into(), 3.into()], &serde_json::json!([1])));
    assert_eq!(found["ranks"][0]["waits_for"], serde_json::json!([1]));
    let text = stdout(&job.status(""));
    assert!(text.contains(" of 2 ranks, ranks 1, 3 of the job\n"), "{text}");
    job.end();
}

#[test]
fn suspended_ranks_are_silent_and_job_without_rank_0_says_so() {
    let job = Job::start(3, "runs");
    let found = job.wait_for(|found| found["ranks"][1]["call"].is_object());
    let pids: Vec<_> = (0..3).map(|rank| found["ranks"][rank]["pid"].clone()).collect();
    kill(&pids[1], Signal::STOP);
    let found = job.wait_for(is("silent"));
    assert_eq!((&found["verdict"]["ranks"], &found["ranks"][1]["state"]), (&serde_json::json!([1]), &"silent".into()));
    assert!(found["ranks"][1]["seconds"].is_f64(), "{found}");
    let text = found["verdict"]["text"].as_str().unwrap();
    assert!(text.contains("rank 1 has not answered for ") && text.contains(&format!("(pid {} on ", pids[1])), "{text}");
    kill(&pids[0], Signal::STOP);
    let output = job.status("");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(stderr(&output).contains("rank 0 did not answer within 5 s: its process is suspended"), "{output:?}");
    pids.iter().for_each(|pid| kill(pid, Signal::CONT));
    job.wait_for(is("progressing"));
    job.end();
}

#[test]
fn one_of_two_jobs_has_to_be_chosen() {
    let first = Job::start(2, "runs");
    let second = Command::new(BINARY)
        .args(["launch", "-n", "2", "--", "sleep", "1000"])
        .env("XDG_RUNTIME_DIR", first.folder.path())
        .spawn();
    let mut second = second.unwrap();
    let start = Instant::now();
    let output = loop {
        let output = first.status("");
        if stderr(&output).contains("2 jobs run on this machine") || start.elapsed() > Duration::from_secs(100) {
            break output;
        }
    };
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    let (one, two) = (first.launcher.id(), second.id());
    assert!(told.contains(&format!("  {one}: 2 ranks of `")), "{told}");
    assert!(told.contains(&format!("  {two}: 2 ranks of `sleep 1000`")), "{told}");
    // Its ranks never join.
    let output = first.status(&two.to_string());
    assert!(stderr(&output).contains("no process is listening there") && output.status.code() == Some(3), "{output:?}");
    let output = first.status("1");
    assert!(stderr(&output).contains("no job 1; running:"), "{output:?}");
    // A launcher that was killed leaves its file, which the next command removes.
    second.kill().unwrap();
    second.wait().unwrap();
    first.wait_for(is("progressing"));
    assert_eq!(std::fs::read_dir(first.folder.path().join("mscclpp")).unwrap().count(), 1);
    first.end();
}

#[test]
fn signal_for_dumps_reaches_only_processes_that_handle_it() {
    // The shell handles the signal, and `sleep` would end by it.
    let script = "trap 'caught=1; echo caught' USR1; sleep 1000 & child=$!; until grep -q sleep /proc/$child/comm; do :; done; \
                  echo ready; until [ \"$caught\" ]; do sleep 0.01; done; kill $child && echo alive";
    let mut child = Command::new(BINARY)
        .args(["launch", "-n", "2", "--", "sh", "-c", script])
        .env("MSCCLPP_DUMP_SIGNAL", "SIGUSR1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().take(2).all(|line| line.ends_with("ready")));
    kill(&child.id().into(), Signal::USR1);
    let mut rest: Vec<_> = lines.map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    rest.sort();
    assert_eq!(rest, ["alive", "alive", "caught", "caught"]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let output = Command::new(BINARY)
        .args(["launch", "-n", "1", "--", "true"])
        .env("MSCCLPP_DUMP_SIGNAL", "KILL")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(stderr(&output).contains("MSCCLPP_DUMP_SIGNAL=KILL: expected USR1 or USR2"), "{output:?}");
}

/// A sample: name, labels, value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Parses the text format of Prometheus as strictly as `promtool check metrics`: every family has help and type before its
/// samples, which are together and unique; histograms are cumulative and end with `+Inf`.
fn parse_metrics(text: &str) -> Vec<Sample> {
    let is_name = |name: &str| {
        let mut chars = name.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let (mut samples, mut families, mut unique) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut family: Option<(&str, Option<&str>)> = None;
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(is_name(name) && !help.is_empty() && families.insert(name), "{line}");
            family = Some((name, None));
            continue;
        }
        let (name, kind) = family.as_mut().expect("help first");
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (of, found) = rest.split_once(' ').expect(line);
            assert!(of == *name && kind.is_none() && ["counter", "gauge", "histogram"].contains(&found), "{line}");
            assert_eq!(found == "counter", name.ends_with("_total"), "{line}");
            *kind = Some(found);
            continue;
        }
        let (labels, value) = line.rsplit_once("} ").expect(line);
        let (sample, labels) = labels.split_once('{').expect(line);
        let suffix = sample.strip_prefix(*name).expect("a sample of the family");
        let suffixes: &[&str] = if *kind == Some("histogram") { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(suffixes.contains(&suffix), "{line}");
        assert!(unique.insert((sample, labels)), "{line} twice");
        let mut map = BTreeMap::new();
        for label in labels.split(',') {
            let (name, value) = label.split_once('=').expect(line);
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect(line);
            assert!(is_name(name) && !value.contains(['"', '\\']), "{line}");
            assert_eq!(map.insert(name.to_owned(), value.to_owned()), None, "{line}");
        }
        assert!(map.contains_key("rank") && (suffix == "_bucket") == map.contains_key("le"), "{line}");
        let value: f64 = value.parse().expect(line);
        assert!(value >= 0.0, "{line}");
        samples.push((sample.to_owned(), map, value));
    }
    let mut last: Option<(&Sample, f64)> = None;
    for sample in samples.iter().filter(|(name, ..)| name.ends_with("_bucket")) {
        let bound = sample.1["le"].replace("+Inf", "inf").parse().unwrap();
        if let Some((before, lower)) = last {
            assert!(bound > lower && sample.2 >= before.2, "{sample:?} after {before:?}");
        }
        last = (bound < f64::INFINITY).then_some((sample, bound));
    }
    assert!(last.is_none(), "a histogram without +Inf");
    samples
}

#[test]
fn metrics_of_all_ranks_add_up() {
    let job = Job::start(3, "straggler");
    job.wait_until_late();
    let output = job.status("--metrics");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let samples = parse_metrics(&stdout(&output));
    let of = |name: &str, labels: &[(&str, &str)]| -> Vec<f64> {
        let has = |map: &BTreeMap<String, String>| {
            labels.iter().all(|(name, value)| map.get(*name).is_some_and(|found| found == value))
        };
        samples.iter().filter(|(sample, map, _)| sample == name && has(map)).map(|(.., value)| *value).collect()
    };
    let calls = CALLS as f64;
    assert_eq!(of("mscclpp_up", &[]), [1.0; 3]);
    // The others wait in their next call, which is not counted yet.
    assert_eq!(of("mscclpp_calls_total", &[("collective", "allreduce")]), [calls; 3]);
    assert_eq!(of("mscclpp_bytes_total", &[("collective", "allreduce")]), [calls * 1024.0; 3]);
    for rank in ["0", "1", "2"] {
        assert!(of("mscclpp_call_seconds_count", &[("rank", rank)]).iter().sum::<f64>() >= 1.0);
        assert!(of("mscclpp_shared_memory_bytes", &[("rank", rank)])[0] > 0.0);
        assert_eq!(of("mscclpp_prepared_plans", &[("rank", rank)]), [1.0]);
    }
    // Two ranks wait for the last one, which has waited for none of them for long.
    let [first, second, last] = of("mscclpp_wait_seconds_total", &[])[..] else { panic!("{samples:?}") };
    assert!(first.max(second) >= 1.0 && last < first.max(second), "{first} {second} {last}");

    // The same over HTTP.
    let mut server = Command::new(BINARY);
    server.args(["status", "--listen", "0"]).env("XDG_RUNTIME_DIR", job.folder.path()).stderr(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().split("http://").nth(1).and_then(|rest| rest.strip_suffix("/metrics")).expect(&line);
    let request = |head: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // A client that sends nothing holds up the next one only for a moment.
    let silent = TcpStream::connect(address).unwrap();
    let answer = request("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    drop(silent);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert_eq!(parse_metrics(body).len(), samples.len());
    assert!(request("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(request("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));

    let folder = job.end();
    assert!(request("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
    server.kill().unwrap();
    server.wait().unwrap();

    // Each rank has written lines while it ran, and a last one at its end.
    let mut last = BTreeMap::new();
    for entry in std::fs::read_dir(folder.path().join("metrics")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.len() > 2, "{text}");
        let line = lines.last().unwrap().clone();
        last.insert(line["rank"].as_u64().unwrap(), line);
    }
    assert_eq!(last.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    for line in last.values() {
        let calls = line["calls"].as_array().unwrap();
        let of = |collective: &str| calls.iter().find(|calls| calls["collective"] == collective).unwrap();
        assert_eq!((of("allreduce")["calls"].as_u64(), of("barrier")["calls"].as_u64()), (Some(CALLS + 1), Some(1)));
        assert_eq!(of("allreduce")["bytes"].as_u64(), Some((CALLS + 1) * 1024));
        assert_eq!((line["ranks"].as_u64(), &line["failures"]), (Some(3), &serde_json::json!({})));
    }
}
