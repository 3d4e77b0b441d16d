//! `mscclpp launch` and `mscclpp doctor`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{BINARY, mscclpp};
use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// `mscclpp launch` of a shell script.
fn script(options: &str, script: &str) -> Vec<String> {
    let words = ["launch"].into_iter().chain(options.split_whitespace()).chain(["--", "sh", "-c", script]);
    words.map(str::to_owned).collect()
}

/// Runs the binary with these words behind a program that sets something up first.
fn behind(program: &[&str], words: Vec<String>) -> std::process::Output {
    let output = Command::new(program[0]).args(&program[1..]).arg(BINARY).args(words).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked at"), "{stderr}");
    output
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// Waits until a process is gone, or only its remains are left to somebody else to take.
fn wait_gone(number: u32) {
    let until = Instant::now() + Duration::from_secs(60);
    let lives = || {
        let state = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        test_kill_process(pid(number)).is_ok() && !state.contains(") Z ")
    };
    while lives() {
        assert!(Instant::now() < until, "process {number} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn every_rank_gets_its_environment_and_its_prefix() {
    let run =
        mscclpp(script("-n 3", "echo $RANK of $WORLD_SIZE at $MASTER_ADDR, ${#MSCCLPP_SECRET}; echo e >&2")).succeeds();
    let mut lines: Vec<_> = run.stdout.lines().collect();
    lines.sort_unstable();
    let expected: Vec<_> = (0..3).map(|rank| format!("[{rank}] {rank} of 3 at 127.0.0.1, 32")).collect();
    assert_eq!(lines, expected);
    assert_eq!(run.stderr.lines().filter(|line| line.ends_with("] e")).count(), 3, "{}", run.stderr);
    let plain = mscclpp(script("-n 2 --no-prefix", "echo x")).succeeds();
    assert_eq!(plain.stdout, "x\nx\n");
}

#[test]
fn full_disk_ends_the_job_with_a_message() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let words = script("-n 2", "echo x; sleep 60");
    let run = Command::new(BINARY).args(words).stdout(full).output().expect("the binary starts");
    let text = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{text}");
    assert!(text.contains("cannot write to standard output: No space left on device"), "{text}");
}

#[test]
fn first_rank_that_panicked_is_named_although_it_ends_last() {
    let first = "echo \"thread 'main' (7) panicked at src/main.rs:3:5:\" >&2; sleep 1; exit 101";
    let words = script("-n 3", &format!("if [ $RANK = 1 ]; then {first}; else sleep 0.5; exit 1; fi"));
    let run = Command::new(BINARY).args(words).output().expect("the binary starts");
    let text = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(101), "{text}");
    assert!(text.contains("error: rank 1 panicked after "), "{text}");
}

#[test]
fn bound_ranks_run_on_processors_of_their_own() {
    let allowed = "grep Cpus_allowed_list /proc/self/status";
    let lists = |options: &str| -> Vec<String> {
        let run = mscclpp(script(options, allowed)).succeeds();
        run.stdout.lines().map(|line| line.split_whitespace().last().unwrap_or_default().to_owned()).collect()
    };
    let unbound = lists("-n 2 --no-prefix");
    assert_eq!(unbound[0], unbound[1]);
    let bound = lists("-n 2 --no-prefix --bind");
    let has_several = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    assert_eq!(bound[0] != bound[1], has_several, "{bound:?}, of {unbound:?}");
    let error = mscclpp(["guard", &std::process::id().to_string(), "--cpus", "4000000", "--", "true"]).ends_with(3);
    assert!(error.stderr.contains("cannot bind the rank to processors 4000000"), "{}", error.stderr);
}

#[test]
fn the_first_rank_to_fail_decides_and_the_others_end() {
    let start = Instant::now();
    let run = mscclpp(script("-n 3 --grace 0.1", "[ $RANK = 1 ] && exit 7; sleep 1000")).ends_with(7);
    assert!(run.stderr.contains("rank 1 exited with code 7 after"), "{}", run.stderr);
    assert!(start.elapsed() < Duration::from_secs(100));
    let run = mscclpp(script("-n 2 --grace 0.1", "[ $RANK = 0 ] && kill -9 $$; sleep 1000")).ends_with(137);
    assert!(run.stderr.contains("rank 0 was terminated by signal 9 (SIGKILL)"), "{}", run.stderr);
}

#[test]
fn failed_rank_is_restarted_while_the_others_run() {
    // Rank 1 fails at its first two starts; rank 0 waits until it is there for the third time.
    let directory = tempfile::tempdir().unwrap();
    let third = directory.path().join("third");
    let third = third.to_str().unwrap();
    let wait = format!("while [ ! -e {third} ]; do sleep 0.01; done; echo ${{MSCCLPP_RESTART-none}}");
    let fail =
        format!("case ${{MSCCLPP_RESTART-0}} in 0) exit 7;; 1) kill -9 $$;; esac; touch {third}; echo $RANK of 2");
    let script = |restarts| {
        let job = format!("if [ $RANK = 0 ]; then {wait}; else {fail}; fi");
        script(&format!("-n 2 --grace 0.1 --restarts {restarts}"), &job)
    };
    let run = mscclpp(script(2)).succeeds();
    let mut lines: Vec<_> = run.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] none", "[1] 1 of 2"]);
    for expected in [
        "rank 1 exited with code 7 after",
        "restarting it in 100 ms (restart 1 of 2)",
        "rank 1 was terminated by signal 9 (SIGKILL) after",
        "restarting it in 200 ms (restart 2 of 2)",
    ] {
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
    // The second failure is one too many.
    std::fs::remove_file(third).unwrap();
    let run = mscclpp(script(1)).ends_with(137);
    assert!(run.stderr.contains("SIGKILL) after") && run.stderr.contains("stopping the other rank"), "{}", run.stderr);
}

#[test]
fn signal_cancels_a_restart() {
    let program = "[ $RANK = 1 ] && [ ${MSCCLPP_RESTART-0} -lt 6 ] && exit 3; echo ready; sleep 1000";
    let mut child = Command::new(BINARY)
        .args(script("-n 2 --restarts 100 --grace 0", program))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.contains("restart 3 of 100")));
    kill_process(pid(child.id()), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(errors.all(|line| !line.contains("restart 6")), "the ranks are not restarted");
}

/// A rank of the following test: makes calls until a rank is lost, and then with the restarted one.
#[test]
#[ignore = "a rank of the following test, which starts it"]
fn recovering_rank() {
    let mut comm = Communicator::from_env().unwrap();
    let call = |comm: &Communicator| {
        let mut x = [comm.rank() + 1];
        comm.all_reduce_in_place(&mut x, ReduceOp::Sum).map(|()| x[0])
    };
    // The victim may end while the others are still in the last of these calls.
    let made = (0..20).take_while(|_| call(&comm).is_ok()).count();
    if std::env::var_os("MSCCLPP_RESTART").is_some() {
        assert_eq!(made, 20);
    } else {
        let victim = std::env::var("VICTIM").unwrap();
        if victim.split(',').any(|victim| victim == comm.rank().to_string()) {
            kill_process(pid(std::process::id()), Signal::KILL).unwrap();
        }
        while call(&comm).is_ok() {}
        let grown = comm.grow_from_env().unwrap();
        comm = grown;
        for _ in 0..20 {
            call(&comm).unwrap();
        }
    }
    println!("\nsum {}", call(&comm).unwrap());
    comm.bootstrap().barrier().unwrap();
}

#[test]
fn restarted_ranks_join_those_that_remain() {
    for victims in ["2", "0", "1,3"] {
        let exe = std::env::current_exe().unwrap();
        let ranks = ["launch", "-n", "4", "--restarts", "2", "--", exe.to_str().unwrap()];
        let test = ["launch::recovering_rank", "--exact", "--ignored", "--nocapture"];
        let run = Command::new(BINARY)
            .args(ranks.into_iter().chain(test))
            .envs([("VICTIM", victims), ("MSCCLPP_TIMEOUT", "120")])
            .output()
            .unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "{victims}: {stdout}{stderr}");
        assert_eq!(stdout.matches("sum 10").count(), 4, "{stdout}{stderr}");
        assert_eq!(stderr.matches("SIGKILL").count(), victims.split(',').count(), "{stderr}");
    }
}

#[test]
fn ranks_that_do_not_listen_are_killed_with_what_they_started() {
    // The shell ignores the signal, and so does the program that it starts. Rank 0 fails when that has happened.
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let ready = ready.to_str().unwrap();
    let first = format!("while [ ! -e {ready} ]; do sleep 0.01; done; exit 3");
    let second = format!("trap '' TERM; sleep 1000 & echo $$; echo $!; touch {ready}; wait");
    let run = mscclpp(script("-n 2 --grace 0", &format!("if [ $RANK = 0 ]; then {first}; else {second}; fi")));
    let run = run.ends_with(3);
    let numbers = run.stdout.lines().map(|line| line.trim_start_matches("[1] ").parse().unwrap());
    assert_eq!(numbers.map(wait_gone).count(), 2, "{}", run.stdout);
}

#[test]
fn a_signal_reaches_the_ranks() {
    let mut child = Command::new(BINARY)
        .args(script("-n 2 --grace 60", "trap 'echo heard; exit 0' TERM; echo ready; while true; do sleep 0.01; done"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.ends_with("] ready\n"), "{line}");
    }
    kill_process(pid(child.id()), Signal::TERM).unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches("heard").count(), 2, "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_signal_leaves_the_ranks_the_time_that_they_were_given() {
    let busy = "trap 'sleep 2.5; echo saved; exit 0' TERM; echo ready; while true; do sleep 0.01; done";
    let mut child = Command::new(BINARY).args(script("-n 1 --grace 60", busy)).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("[0] ready"));
    kill_process(pid(child.id()), Signal::TERM).unwrap();
    assert_eq!(lines.next().as_deref(), Some("[0] saved"));
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn signals_that_are_ignored_do_no_harm() {
    // Daemons have the ends of their children ignored, and `nohup` the end of the terminal: perhaps this test's too.
    let ranks = |time| script("-n 2", &format!("[ $RANK = 0 ] && kill -HUP $PPID; sleep {time}; exit 5"));
    assert_eq!(behind(&["env", "--default-signal=HUP", "--ignore-signal=CHLD"], ranks(1000)).status.code(), Some(129));
    assert_eq!(behind(&["env", "--ignore-signal=HUP"], ranks(1)).status.code(), Some(5));
}

#[test]
fn blocked_signals_end_the_job() {
    let ranks = script("-n 2", "[ $RANK = 0 ] && kill -TERM $PPID; sleep 1000");
    assert_eq!(behind(&["env", "--block-signal=TERM"], ranks).status.code(), Some(143));
}

#[test]
fn too_many_ranks_for_the_system_are_an_error_and_leave_nothing() {
    // Room for the output of some ranks, not of all.
    let words = script("-n 400", "exec sleep 987");
    let limited = behind(&["sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"], words);
    let stderr = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("error: cannot start `sh`: "), "{stderr}");
}

#[test]
fn rank_without_file_descriptors_names_the_limit_on_all_ranks() {
    let ranks = format!("[ $RANK = 1 ] && ulimit -n 5; exec {BINARY} bench barrier");
    let words = script("-n 3 --grace 60", &ranks);
    let run = Command::new(BINARY).args(words).output().expect("the binary starts");
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(text.contains("[1] error: cannot listen: RLIMIT_NOFILE allows 5 open files"), "{text}");
    let told =
        text.lines().filter(|line| line.contains("error: rank 1 ") && line.contains("cannot listen: RLIMIT_NOFILE"));
    assert_eq!(told.count(), 2, "{text}");
}

#[test]
fn ranks_do_not_outlive_a_launcher_that_is_killed() {
    let mut child =
        Command::new(BINARY).args(script("-n 2", "echo $$; exec sleep 1000")).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        numbers.push(line.trim_end().rsplit(' ').next().unwrap().parse().unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    numbers.into_iter().for_each(wait_gone);
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let run = mscclpp(["launch", "-n", "2", "--", "/no/such/program"]).ends_with(2);
    assert!(run.stderr.contains("cannot start `/no/such/program`"), "{}", run.stderr);
    mscclpp(["launch", "-n", "3", "--hosts", "2", "--", "true"]).ends_with(2);
}

#[test]
fn what_no_rank_could_use_is_refused_before_any_starts() {
    let launch = |words: &str, secret: Option<&str>| {
        let mut command = Command::new(BINARY);
        command.arg("launch").args(words.split(' ')).args(["--", "true"]).env_remove("MSCCLPP_SECRET");
        let output = command.envs(secret.map(|secret| ("MSCCLPP_SECRET", secret))).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}");
        String::from_utf8(output.stderr).unwrap()
    };
    let several = launch("-n 1 --nodes 2 --node 0 --address h:9", None);
    assert!(several.contains("MSCCLPP_SECRET is not set"), "{several}");
    let short = launch("-n 1", Some("abc"));
    assert!(short.contains("MSCCLPP_SECRET: cannot parse a secret"), "{short}");
    let port = launch("-n 1 --address h:0", None);
    assert!(port.contains("with a port from 1"), "{port}");
}

#[test]
fn doctor_says_what_it_found() {
    let found = mscclpp(["doctor", "--json"]);
    let found = found.json();
    let names: Vec<_> = found.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    for name in ["processors", "memory", "shared descriptors", "open files", "interfaces", "CUDA driver"] {
        assert!(names.iter().any(|found| found == name), "{name} is not in {names:?}");
    }
    for one in found.as_array().unwrap().iter().filter(|one| one["state"] != "ok") {
        assert!(one["help"].is_string(), "{one}");
    }
    let text = mscclpp(["doctor"]);
    assert!(text.stdout.starts_with("what"), "{}", text.stdout);
}

#[test]
fn doctor_does_not_take_half_an_environment_for_none() {
    for name in ["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"] {
        let run = Command::new(BINARY).args(["doctor", "--json"]).env(name, "0").output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let about = found.as_array().unwrap().iter().find(|one| one["name"] == "environment").unwrap();
        assert_eq!((about["state"].as_str(), run.status.code()), (Some("missing"), Some(1)), "{name}: {about}");
    }
}

#[test]
fn doctor_names_invalid_variables_without_a_launcher() {
    for (name, value) in [
        ("MSCCLPP_TRANSPORT", OsStr::new("ucxx")),
        ("MSCCLPP_TRANSPORT", OsStr::from_bytes(b"\xff")),
        ("MSCCLPP_TIMEOUT", OsStr::new("soon")),
        ("MSCCLPP_SECRET", OsStr::new("abc")),
    ] {
        let run = Command::new(BINARY).args(["doctor", "--json"]).env(name, value).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let about = found.as_array().unwrap().iter().find(|one| one["name"] == "environment").unwrap();
        assert_eq!((about["state"].as_str(), run.status.code()), (Some("missing"), Some(1)), "{name}: {about}");
    }
}

#[test]
fn run_refuses_to_run_all_ranks_in_each_process_of_a_job() {
    let run = Command::new(BINARY)
        .args(["run", "allgather_ring", "--ranks", "2"])
        .envs([("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(text.contains("this is rank 1 of 2") && text.contains("`mscclpp bench`"), "{text}");
    assert_eq!(run.status.code(), Some(2), "{text}");
}

#[test]
fn doctor_lists_variables_with_values_but_no_secret() {
    let mut command = std::process::Command::new(crate::common::BINARY);
    let command = command.args(["doctor", "--variables"]).env("MSCCLPP_TIMEOUT", "7|\n8").env("MSCCLPP_SECRET", "ab12");
    let text = String::from_utf8(command.output().expect("the binary starts").stdout).expect("UTF-8");
    let row = |name: &str| text.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap_or_default();
    assert!(row("MSCCLPP_TIMEOUT").starts_with("| `MSCCLPP_TIMEOUT` | 7\\| 8 | seconds"), "{text}");
    assert!(row("MSCCLPP_SECRET").contains("| (a value) |") && !text.contains("ab12"), "{text}");
    assert!(row("MSCCLPP_ORDER").contains("rank-order"), "{text}");
}

#[test]
fn misspelt_variables_are_answered_with_the_name_that_was_meant() {
    let run = Command::new(BINARY).args(["explain", "M0201"]).env("MSCCLPP_TIMOUT", "3").output().unwrap();
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(text.contains("`MSCCLPP_TIMOUT` has no meaning; a similar name exists: `MSCCLPP_TIMEOUT`"), "{text}");
    assert_eq!(run.status.code(), Some(0), "{text}");
}

#[test]
fn launched_ranks_come_together_on_one_host_and_on_two() {
    for (hosts, per_node) in [("1", 4), ("2", 2)] {
        let words = ["launch", "-n", "4", "--hosts", hosts, "--no-prefix", "--", BINARY, "doctor", "--group", "--json"];
        let found = mscclpp(words).succeeds().json();
        assert_eq!(found["ranks_per_node"], per_node);
        assert_eq!(found["ranks"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn a_rank_that_dies_is_named_by_the_others() {
    // Rank 2 has come to the others when it has its connection thread.
    let come = "until grep -qs 'rank 2' /proc/$!/task/*/comm; do sleep 0.01; done";
    // The launcher notices that the shell has ended, and kills what it has started, before another rank can end.
    let victim = format!("{BINARY} doctor --group --for 600 & {come}; kill -9 $$");
    let doctor = format!("[ $RANK = 2 ] && {{ {victim}; }}; exec {BINARY} doctor --group --for 600");
    let run = mscclpp(script("-n 3 --grace 60", &doctor)).ends_with(137);
    assert!(run.stderr.contains("rank 2 was terminated by signal 9"), "{}", run.stderr);
    let mut first = run.stderr.lines().filter(|line| line.starts_with("[0] "));
    assert!(first.any(|line| line.contains("rank 2 (pid ") && line.contains(" died: ")), "{}", run.stderr);
}
