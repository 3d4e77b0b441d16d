//! `mscclpp run`.

use crate::common::plans::{custom, good, max, stalling, text, unverified, wrong};
use crate::common::{mscclpp, mscclpp_reading};
use serde_json::{Value, json};

/// The rows of a table: what stands behind the lines with `#`.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn every_algorithm_runs_and_is_right_at_an_odd_count() {
    for algorithm in mscclpp(["plan", "list", "--json"]).succeeds().json().as_array().unwrap() {
        let name = algorithm["name"].as_str().unwrap();
        let words = ["run", name, "--ranks", "4", "--count", "1037", "--iters", "1", "--any-size", "--json"];
        let run = mscclpp(words).succeeds();
        let json = run.json();
        assert_eq!((&json["verified"], &json["ok"]), (&true.into(), &true.into()), "{json}");
        // Parts are equal where the collective is made of them.
        let count = match json["collective"].as_str().unwrap() {
            "allgather" | "reducescatter" | "alltoall" => 1040,
            _ => 1037,
        };
        assert_eq!(json["rows"][0]["count"], count, "{json}");
        let is_warned = run.stderr.contains("warning: 1037 elements are rounded up to 1040: ");
        assert_eq!(is_warned, count == 1040, "{}", run.stderr);
    }
}

#[test]
fn the_table_has_the_columns_of_nccl_tests() {
    let run =
        mscclpp(["run", "allreduce_ring", "--ranks", "4", "--begin", "1K", "--end", "16K", "--factor", "4"]).succeeds();
    let text = &run.stdout;
    assert!(text.starts_with("# allreduce_ring: allreduce, 4 ranks, out of place, CPU executor, "), "{text}");
    let titles = "size count type redop root time algbw busbw #wrong";
    let line = text.lines().find(|line| line.contains("#wrong")).unwrap();
    assert_eq!(line.trim_start_matches('#').split_whitespace().collect::<Vec<_>>().join(" "), titles);
    let rows = rows(text);
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["1024", "4096", "16384"]);
    for row in rows {
        assert_eq!((row.len(), row[2], row[3], row[4], row[8]), (9, "f32", "sum", "-1", "0"));
        let number = |i: usize| row[i].parse::<f64>().unwrap();
        assert_eq!(number(0), 4.0 * number(1));
        assert!(number(5) > 0.0);
        // Within what three digits can say.
        assert!((number(7) - 1.5 * number(6)).abs() <= 0.002 + 0.01 * number(7), "{row:?}");
    }
    assert!(text.contains("# Wrong elements    : 0 OK\n# Avg bus bandwidth : "), "{text}");
    assert_eq!(run.stderr, "");
}

#[test]
fn json_has_the_same_keys_whatever_happens() {
    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }
    let of_run = [
        "accumulate",
        "avg_busbw_gbps",
        "collective",
        "dtype",
        "executor",
        "failure",
        "in_place",
        "iters",
        "ok",
        "plan",
        "ranks",
        "redop",
        "root",
        "rows",
        "seed",
        "verified",
        "warmup",
    ];
    let of_row = ["algbw_gbps", "busbw_gbps", "count", "min_time_us", "size", "time_us", "wrong"];
    let words = ["run", "broadcast_scatter", "--ranks", "3", "--root", "2", "--count", "5", "--in-place", "--json"];
    let right = mscclpp(words).succeeds().json();
    assert_eq!((keys(&right), keys(&right["rows"][0])), (of_run.to_vec(), of_row.to_vec()));
    let known = json!({
        "accumulate": "native", "collective": "broadcast", "dtype": "f32", "executor": "cpu", "failure": null, "in_place": true, "iters": 5,
        "ok": true, "plan": "broadcast_scatter", "ranks": 3, "redop": "none", "root": 2, "seed": 0, "verified": true,
        "warmup": 1,
    });
    for (key, value) in known.as_object().unwrap() {
        assert_eq!(&right[key], value, "{key}");
    }

    let failed = mscclpp_reading(["run", "-", "--count", "5", "--no-check", "--json"], &text(&stalling())).ends_with(1);
    let failed = failed.json();
    assert_eq!(keys(&failed), of_run);
    assert_eq!((&failed["ok"], &failed["rows"]), (&false.into(), &json!([])));
    assert_eq!(failed["failure"]["findings"][0]["slug"], "stalled");

    // What ends before there is a plan to speak of.
    let refused = mscclpp_reading(["run", "-", "--json"], &text(&stalling())).ends_with(1).json();
    assert_eq!((&refused["ok"], &refused["rows"]), (&false.into(), &json!([])));
    assert_eq!(refused["failure"]["findings"][0]["slug"], "unmatched-wait");
    let missing = mscclpp(["run", "no/such/file.json", "--json"]).ends_with(2).json();
    assert!(missing["failure"]["message"].as_str().unwrap().contains("cannot read"), "{missing}");
}

#[test]
fn a_wrong_result_ends_with_1() {
    let plan = text(&wrong());
    let run = mscclpp_reading(["run", "-", "--count", "10", "--no-check"], &plan).ends_with(1);
    assert!(run.stdout.contains("# Wrong elements    : 10 FAILED"), "{}", run.stdout);
    assert_eq!(rows(&run.stdout)[0][8], "10");
    assert!(run.stderr.contains("10 of 20 elements are wrong: rank 0, output element 5"), "{}", run.stderr);
    let json = mscclpp_reading(["run", "-", "--count", "10", "--no-check", "--json"], &plan).ends_with(1).json();
    assert_eq!((&json["ok"], &json["verified"], &json["rows"][0]["wrong"]), (&false.into(), &true.into(), &10.into()));
}

/// A plan of one rank with these operations.
fn one_rank(collective: &str, operations: &str) -> String {
    format!(
        r#"{{"name": "stale", "collective": "{collective}", "protocol": "Simple", "inplace": false, "reuse_resources": false,
            "num_threads_per_block": 32, "use_double_scratch_buffer": false, "buffer_alignment": 16, "min_message_size": 0,
            "max_message_size": 18446744073709551615, "gpus": [{{"id": 0, "input_chunks": 1, "output_chunks": 1,
            "scratch_chunks": 1, "threadblocks": [{{"id": 0, "ops": [{operations}], "channels": [], "remote_buffer_refs": []}}],
            "channels": [], "remote_buffers": [], "semaphores": []}}]}}"#
    )
}

#[test]
fn scratch_that_the_launch_has_not_written_is_reported_as_wrong() {
    // The output is what an earlier launch left in scratch, and scratch gets the input afterwards.
    let stale = one_rank(
        "allgather",
        r#"{"name": "copy", "src_buff": [{"type": "s", "index": 0, "size": 1}], "dst_buff": [{"type": "o", "index": 0, "size": 1}]},
           {"name": "nop"},
           {"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}], "dst_buff": [{"type": "s", "index": 0, "size": 1}]}"#,
    );
    // Zeros that nothing has written do no harm in a sum.
    let unwritten = one_rank(
        "allreduce",
        r#"{"name": "re", "reduce_op": "sum", "src_buff": [{"type": "i", "index": 0, "size": 1}, {"type": "s", "index": 0, "size": 1}],
            "dst_buff": [{"type": "o", "index": 0, "size": 1}]}"#,
    );
    for plan in [stale, unwritten] {
        // As many launches before the verified one as by default, and the fewest that there can be.
        for launches in [&[][..], &["--warmup", "0", "--iters", "1"]] {
            for dtype in ["f32", "u8", "f16", "f8e4m3"] {
                let words = ["run", "-", "--count", "1037", "--no-check", "--json", "--dtype", dtype];
                let json = mscclpp_reading(words.iter().chain(launches).copied(), &plan).ends_with(1).json();
                let wrong = json["rows"][0]["wrong"].as_u64().unwrap();
                assert!(wrong > 300, "{dtype}: {wrong} of 1037 elements are wrong");
            }
        }
    }
}

#[test]
fn a_plan_with_findings_is_not_run() {
    let run = mscclpp_reading(["run", "-"], &text(&stalling())).ends_with(1);
    assert_eq!(run.stdout, "");
    for part in ["[M0201 unmatched-wait]", "--> rank 0 / thread block 0 / operation", "was not run", "--no-check"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[test]
fn a_stall_names_code_place_and_counts() {
    let run = mscclpp_reading(["run", "-", "--count", "5", "--no-check"], &text(&stalling())).ends_with(1);
    for part in [
        "warning: plan `swap` is run without checks",
        "[M0401 stalled]",
        "--> rank 0 / thread block 0 / operation",
        "memory channel 0",
        "expected",
        "error: the run stalled",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert!(run.stdout.contains("did not finish FAILED"), "{}", run.stdout);
}

#[test]
fn a_plan_that_promises_nothing_is_not_verified() {
    let run = mscclpp_reading(["run", "-", "--count", "5"], &text(&unverified())).succeeds();
    assert!(rows(&run.stdout)[0][8..] == ["not", "verified"], "{}", run.stdout);
    assert!(run.stdout.contains("# Wrong elements    : not verified"), "{}", run.stdout);
    let json = mscclpp_reading(["run", "-", "--count", "5", "--json"], &text(&unverified())).succeeds().json();
    assert_eq!(
        (&json["ok"], &json["verified"], &json["rows"][0]["wrong"]),
        (&true.into(), &false.into(), &Value::Null)
    );
}

#[test]
fn a_custom_plan_is_held_to_what_its_program_says() {
    let right = text(&custom(0));
    let run = mscclpp_reading(["run", "-", "--count", "1037", "--dtype", "bf16"], &right).succeeds();
    assert!(run.stdout.contains("# Wrong elements    : 0 OK"), "{}", run.stdout);
    let json = mscclpp_reading(["run", "-", "--count", "5", "--json"], &right).succeeds().json();
    assert_eq!((&json["verified"], &json["rows"][0]["wrong"]), (&true.into(), &0.into()));

    let wrong = text(&custom(1));
    let run = mscclpp_reading(["run", "-", "--count", "1037"], &wrong).ends_with(1);
    assert!(run.stderr.contains("output chunk 0 of rank 1"), "{}", run.stderr);
    let run = mscclpp_reading(["run", "-", "--count", "1037", "--no-check"], &wrong).ends_with(1);
    assert!(run.stderr.contains("of 2074 elements are wrong: rank 1, output element"), "{}", run.stderr);
    // What names chunks that are not there is refused, or not compared.
    let astray = wrong.replace("\"size\": 1,\n      \"inputs\"", "\"size\": 4294967295,\n      \"inputs\"");
    assert_ne!(astray, wrong);
    let run = mscclpp_reading(["run", "-", "--count", "5"], &astray).ends_with(1);
    assert!(run.stderr.contains("expectation 0 names 4294967295 chunks"), "{}", run.stderr);
    mscclpp_reading(["run", "-", "--count", "5", "--no-check"], &astray).ends_with(1);
    let theirs = mscclpp_reading(["plan", "export", "-", "--target", "mscclpp"], &right).succeeds().stdout;
    assert!(!theirs.contains("expectations"), "{theirs}");
}

#[test]
fn sizes_round_up_and_any_size_runs() {
    for (words, size, count) in [
        (&["allreduce_ring", "--size", "0"][..], 0, 0),
        (&["allreduce_ring", "--size", "1"], 4, 1),
        (&["allreduce_ring", "--size", "1", "--dtype", "u8"], 1, 1),
        (&["allreduce_ring", "--size", "1001", "--dtype", "f64"], 1008, 126),
        (&["allgather_ring", "--size", "1", "--dtype", "bf16"], 16, 8),
        (&["allgather_ring", "--count", "9", "--dtype", "i64"], 128, 16),
        (&["alltoall_direct", "--count", "0"], 0, 0),
        (&["send_recv", "--count", "3"], 12, 3),
    ] {
        let json = mscclpp(["run", "--json"].iter().chain(words)).succeeds().json();
        let row = &json["rows"][0];
        assert_eq!((&row["size"], &row["count"], &row["wrong"]), (&size.into(), &count.into(), &0.into()), "{words:?}");
    }
}

#[test]
fn sizes_that_become_equal_run_once() {
    let words = ["run", "allgather_ring", "--begin", "1", "--end", "64", "--json"];
    let json = mscclpp(words).succeeds().json();
    let sizes: Vec<_> = json["rows"].as_array().unwrap().iter().map(|row| row["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [32, 64]);
}

#[test]
fn every_type_and_reduction_is_right() {
    for dtype in
        ["i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "f8e4m3b15", "half"]
    {
        for op in ["sum", "prod", "min", "max", "avg"] {
            let words =
                ["run", "allreduce_ring", "--ranks", "3", "--count", "37", "--dtype", dtype, "--op", op, "--json"];
            let json = mscclpp(words).succeeds().json();
            assert_eq!((&json["rows"][0]["wrong"], &json["redop"]), (&0.into(), &op.into()), "{dtype} {op}");
        }
    }
}

#[test]
fn seeds_change_the_inputs_and_not_the_answer() {
    for seed in ["0", "1", "18446744073709551615"] {
        mscclpp(["run", "reducescatter_ring", "--count", "40", "--seed", seed]).succeeds();
    }
    mscclpp(["run", "reducescatter_ring", "--seed", "18446744073709551616"]).ends_with(2);
}

#[test]
fn a_plan_with_its_own_reduction_keeps_it() {
    let plan = text(&max());
    let json = mscclpp_reading(["run", "-", "--count", "9", "--json"], &plan).succeeds().json();
    assert_eq!((&json["redop"], &json["rows"][0]["wrong"]), (&"max".into(), &0.into()));
    mscclpp_reading(["run", "-", "--count", "9", "--op", "max"], &plan).succeeds();
    let run = mscclpp_reading(["run", "-", "--count", "9", "--op", "sum"], &plan).ends_with(2);
    assert!(run.stderr.contains("reduces with max") && run.stderr.contains("remove --op"), "{}", run.stderr);
}

#[test]
fn a_size_outside_of_the_plan_needs_to_be_asked_for() {
    let plan = text(&max());
    let run = mscclpp_reading(["run", "-", "--size", "2M"], &plan).ends_with(2);
    assert!(
        run.stderr.contains("is for messages of 0 to 1048576 bytes") && run.stderr.contains("--any-size"),
        "{}",
        run.stderr
    );
    mscclpp_reading(["run", "-", "--size", "2M", "--any-size"], &plan).succeeds();
    // What ran before is shown, and does not make up for what did not.
    let run = mscclpp_reading(["run", "-", "--begin", "512K", "--end", "2M"], &plan).ends_with(2);
    assert_eq!(rows(&run.stdout).len(), 2, "{}", run.stdout);
}

#[test]
fn messages_no_memory_holds_end_with_3() {
    for size in ["1T", "1099511627776", "16777215T", "18446744073709551615"] {
        for algorithm in ["allreduce_ring", "allgather_ring", "send_recv", "allreduce_one_shot_packets"] {
            let run = mscclpp(["run", algorithm, "--size", size]).ends_with(3);
            assert!(run.stderr.contains("of memory") && run.stderr.contains("available"), "{}", run.stderr);
            assert_eq!(run.stdout, "");
        }
    }
    mscclpp_reading(["run", "-", "--count", "18446744073709551615", "--no-check"], &text(&good())).ends_with(3);
}

#[test]
fn bad_arguments_end_with_2() {
    for (words, why) in [
        (&["--size", "-1"][..], "found a negative number"),
        (&["--size", "1.5M"], "expected an integer"),
        (&["--size", "1X"], "unknown suffix `X`"),
        (&["--size", "18446744073709551616"], "2^64"),
        (&["--size", ""], "found nothing"),
        (&["--size", "1", "--count", "1"], "cannot be used with"),
        (&["--begin", "2", "--end", "1"], "--begin 2 is larger than --end 1"),
        (&["--begin", "0", "--end", "1"], "cannot grow"),
        (&["--begin", "1", "--end", "2", "--factor", "1"], "1 is not in 2.."),
        (&["--iters", "0"], "0 is not in 1.."),
        (&["--dtype", "f31"], "expected one of i8, u8"),
        (&["--op", "mean"], "expected one of sum, prod"),
        (&["--param", "tbg"], "expected NAME=VALUE"),
    ] {
        let run = mscclpp(["run", "allreduce_ring"].iter().chain(words)).ends_with(2);
        assert!(run.stderr.contains(why), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn packets_have_the_asked_size() {
    let run = |packets: &str| {
        let words = ["run", "allreduce_packets", "--ranks", "3", "--count", "99", "--dtype", "i32", "--packet-type"];
        mscclpp(words.into_iter().chain([packets]))
    };
    for packets in ["ll8", "LL16"] {
        assert!(run(packets).succeeds().stdout.contains("allreduce_packets"), "{packets}");
    }
    let other = run("ll4").ends_with(2);
    assert!(other.stderr.contains("expected ll16 or ll8"), "{}", other.stderr);
}

#[test]
fn reductions_accumulate_as_asked() {
    let run = |words: &[&str]| mscclpp(["run", "allreduce_ring", "--ranks", "3", "--count", "99"].iter().chain(words));
    let wide = run(&["--dtype", "bf16", "--accumulate", "f32"]).succeeds();
    assert!(
        wide.stdout.starts_with("# allreduce_ring: ") && wide.stdout.contains(", reductions in f32,"),
        "{}",
        wide.stdout
    );
    let json = run(&["--accumulate", "f64", "--json"]).succeeds().json();
    assert_eq!((&json["accumulate"], &json["ok"]), (&"f64".into(), &true.into()));
    assert_eq!(run(&["--json"]).succeeds().json()["accumulate"], "native");
    let integers = run(&["--dtype", "i32", "--accumulate", "f32"]).ends_with(2);
    assert!(integers.stderr.contains("cannot be accumulated as f32") && integers.stderr.contains("--accumulate"));
    run(&["--accumulate", "f16"]).ends_with(2);
}

#[test]
fn a_device_runs_plans_or_is_said_to_be_missing() {
    let words = ["run", "allreduce_ring", "--ranks", "4", "--count", "1037", "--backend", "cuda"];
    if mscclpp_exec::cuda::device_count().is_ok() {
        let text = mscclpp(words).succeeds().stdout;
        assert!(text.contains("CUDA executor") && text.contains("# Wrong elements    : 0 OK"), "{text}");
    } else {
        let text = mscclpp(words).ends_with(3).stderr;
        assert!(text.contains("CUDA") && text.contains("M0421 no-device"), "{text}");
    }
}

#[test]
fn a_reduction_for_a_plan_without_one_is_refused() {
    let run = mscclpp(["run", "allgather_ring", "--ranks", "2", "--size", "1K", "--op", "max"]).ends_with(2);
    assert!(
        run.stderr.contains("`allgather_ring` does not reduce, so `--op max` would have no effect"),
        "{}",
        run.stderr
    );
}

#[test]
fn names_of_the_reference_are_known() {
    let run = mscclpp(["run", "default_allreduce_packet", "--ranks", "2", "--size", "1K"]).succeeds();
    assert!(run.stdout.contains("allreduce_packets"), "{}", run.stdout);
}

/// A trace for viewers: each operation of the plan once for each size, and names of ranks and thread blocks.
#[test]
fn timeline_has_each_operation_of_verified_launches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let file = path.to_str().unwrap();
    let words = ["run", "allgather_ring", "--ranks", "2", "--begin", "64", "--end", "128", "--timeline", file];
    mscclpp(words).succeeds();
    let page = folder.path().join("page.html");
    let html = page.to_str().unwrap();
    mscclpp(["timeline", file, "--html", html, "--launch", "7"]).succeeds();
    let shown = std::fs::read_to_string(&page).unwrap();
    assert!(shown.contains("timeline of allgather_ring, launch 7") && shown.contains("class=\"op copy"), "{shown}");
    let run = mscclpp(["timeline", file, "--html", html, "--launch", "99"]).ends_with(2);
    assert!(
        run.stderr.contains("--launch 99: expected the number of a recorded launch, found 7, 14"),
        "{}",
        run.stderr
    );
    let run = mscclpp(["timeline", html, "--html", html]).ends_with(2);
    assert!(run.stderr.contains("page.html: expected a trace in JSON"), "{}", run.stderr);
    let trace: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let line = |event: &Value| {
        let keys = ["ts", "dur", "pid", "tid"];
        assert!(keys.iter().all(|key| event[key].as_f64().is_some_and(|found| found >= 0.0)), "{event}");
        let [name, rank, block] = ["name", "pid", "tid"].map(|key| event[key].to_string().replace('"', ""));
        match event["ph"].as_str() {
            Some("M") => format!("{name}: {}", event["args"]["name"].as_str().unwrap()),
            Some("X") => format!("{rank}/{block}/{} {name}", event["args"]["operation"]),
            _ => panic!("{event}"),
        }
    };
    let found: Vec<_> = events.iter().map(line).collect();
    let expected = [
        "process_name: rank 0",
        "thread_name: thread block 0",
        "0/0/0 nop",
        "0/0/1 rlxsignal",
        "0/0/2 nop",
        "0/0/3 rlxwait",
        "0/0/4 nop",
        "0/0/5 copy",
        "0/0/6 put",
        "0/0/7 nop",
        "0/0/8 signal",
        "0/0/9 wait",
        "0/0/10 nop",
        "process_name: rank 1",
        "thread_name: thread block 0",
        "1/0/0 nop",
        "1/0/1 rlxsignal",
        "1/0/2 nop",
        "1/0/3 rlxwait",
        "1/0/4 nop",
        "1/0/5 copy",
        "1/0/6 put",
        "1/0/7 nop",
        "1/0/8 signal",
        "1/0/9 wait",
        "1/0/10 nop",
    ];
    assert_eq!(found, [expected, expected].concat(), "two sizes");
    let operation = events.iter().find(|event| event["ph"] == "X").unwrap();
    let location = operation["args"]["location"].as_str().unwrap();
    assert!(location.contains("mscclpp-algorithms"), "{operation}");
    assert_eq!((&operation["args"]["plan"], &operation["args"]["iteration"]), (&"allgather_ring".into(), &0.into()));

    let missing = folder.path().join("missing").join("trace.json");
    mscclpp(["run", "allgather_ring", "--ranks", "2", "--timeline", missing.to_str().unwrap()]).ends_with(3);
}
