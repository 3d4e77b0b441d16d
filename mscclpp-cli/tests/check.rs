//! `mscclpp check`.

use crate::common::plans::{across_nodes, good, relaxed_close, stalling, text};
use crate::common::{BINARY, mscclpp, mscclpp_reading};

#[test]
fn every_algorithm_is_accepted_in_every_form_it_has() {
    for algorithm in mscclpp(["plan", "list", "--json"]).succeeds().json().as_array().unwrap() {
        let name = algorithm["name"].as_str().unwrap();
        let run = mscclpp(["check", name]).succeeds();
        assert_eq!(run.stdout, format!("plan `{name}` is accepted\n"));
        if algorithm["in_place"] == true {
            mscclpp(["check", name, "--in-place", "--ranks", "4"]).succeeds();
        }
    }
}

#[test]
fn findings_end_with_1_and_have_code_place_and_help() {
    let plan = text(&stalling());
    let run = mscclpp_reading(["check", "-"], &plan).ends_with(1);
    for part in ["error: ", "[M0201 unmatched-wait]", "--> rank 0 / thread block 0 / operation", "help: "] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    assert!(run.stdout.ends_with("plan `swap` is rejected: 1 finding\n"), "{}", run.stdout);
    assert_eq!(run.stderr, "");

    let json = mscclpp_reading(["check", "-", "--json"], &plan).ends_with(1).json();
    assert_eq!((&json["plan"], &json["readable"], &json["accepted"]), (&"swap".into(), &true.into(), &false.into()));
    let finding = &json["findings"][0];
    assert_eq!((&finding["code"], &finding["slug"]), (&"M0201".into(), &"unmatched-wait".into()));
    assert!(finding["place"]["path"].as_str().unwrap().starts_with("rank 0 / thread block 0"), "{finding}");
    for key in ["message", "rule", "help"] {
        assert!(finding[key].is_string(), "{key}: {finding}");
    }
}

#[test]
fn findings_are_colored_on_a_terminal() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text(&stalling())).expect("it can be written");
    let stdout = |variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(BINARY);
        let output = command.arg("check").arg(file.path()).envs(variables.iter().copied()).output();
        String::from_utf8(output.expect("the binary starts").stdout).expect("UTF-8")
    };
    // As on a terminal.
    let colored = stdout(&[("CLICOLOR_FORCE", "1")]);
    assert!(colored.contains("\u{1b}[1m\u{1b}[31merror\u{1b}[0m: "), "{colored:?}");
    assert!(
        !stdout(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\u{1b}') && !stdout(&[]).contains('\u{1b}')
    );
}

#[test]
fn accepted_plans_end_with_0() {
    let json = mscclpp_reading(["check", "-", "--json"], &text(&good())).succeeds().json();
    let expected = serde_json::json!({
        "plan": "swap", "readable": true, "accepted": true, "error": null, "findings": [], "warnings": [],
    });
    assert_eq!(json, expected);
}

#[test]
fn unreadable_plans_end_with_2() {
    for (input, slug) in [("", "not-json"), ("{", "not-json"), ("[]", "wrong-type"), ("{}", "missing-key")] {
        let run = mscclpp_reading(["check", "-"], input).ends_with(2);
        assert!(run.stderr.contains(slug), "{input:?}: {}", run.stderr);
        assert_eq!(run.stdout, "");
        let json = mscclpp_reading(["check", "-", "--json"], input).ends_with(2).json();
        assert_eq!((&json["readable"], &json["accepted"]), (&false.into(), &false.into()));
        assert_eq!(json["findings"][0]["slug"], slug, "{input:?}: {json}");
    }
    mscclpp(["check", "no/such/file.json"]).ends_with(2);
    let json = mscclpp(["check", "no/such/file.json", "--json"]).ends_with(2).json();
    assert!(
        json["error"].as_str().unwrap().contains("cannot read") && json["findings"] == serde_json::json!([]),
        "{json}"
    );
    mscclpp(["check", "no_such_algorithm"]).ends_with(2);
}

#[test]
fn unknown_keys_are_warnings_and_findings_when_strict() {
    let plan = text(&good()).replacen('{', "{\"colour\": 1,", 1);
    let run = mscclpp_reading(["check", "-"], &plan).succeeds();
    assert!(run.stderr.starts_with("warning: ") && run.stderr.contains("colour"), "{}", run.stderr);
    let json = mscclpp_reading(["check", "-", "--json"], &plan).succeeds().json();
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1);

    let run = mscclpp_reading(["check", "-", "--strict"], &plan).ends_with(1);
    assert!(run.stdout.contains("colour"), "{}", run.stdout);
    assert_eq!(run.stderr, "");
}

#[test]
fn levels_ask_what_they_say_and_the_answer_says_no_more() {
    let plan = text(&stalling());
    let run = |words: &[&str]| mscclpp_reading(["check", "-"].iter().chain(words), &plan);
    run(&["--level", "full"]).ends_with(1);
    run(&["--level", "basic"]).ends_with(1);
    assert_eq!(run(&["--level", "off"]).succeeds().stdout, "plan `swap` was parsed; no checks were run\n");
    run(&["--level", "most"]).ends_with(2);
    let basic = mscclpp_reading(["check", "-", "--level=basic"], &text(&good())).succeeds().stdout;
    assert_eq!(basic, "plan `swap` is accepted: only shapes and pairing were checked\n");
}

#[test]
fn what_is_allowed_passes() {
    let plan = text(&stalling());
    let run = |words: &[&str]| mscclpp_reading(["check", "-"].iter().chain(words), &plan);
    let basic = run(&["--level", "basic", "--allow", "unmatched-wait"]).succeeds().stdout;
    assert!(basic.ends_with(", with unmatched-wait allowed\n"), "{basic}");
    // Without its signal the wait never ends.
    let full = run(&["--allow", "unmatched_wait"]).ends_with(1).stdout;
    assert!(full.contains("[M0208 deadlock]"), "{full}");
    run(&["--allow", "race", "--allow", "M0208"]).ends_with(1);
    let unknown = run(&["--allow", "rase"]).ends_with(2);
    assert!(unknown.stderr.contains("a similar name exists: `race`"), "{}", unknown.stderr);
    let fixed = run(&["--allow", "bad-operands"]).ends_with(2);
    assert!(fixed.stderr.contains("cannot be allowed"), "{}", fixed.stderr);
}

#[test]
fn several_plans_and_directories_end_with_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong, other) = (file("a.json", &text(&good())), file("b.json", &text(&stalling())), file("c.txt", ""));
    let all = directory.path().to_str().unwrap();

    let run = mscclpp(["check", all]).ends_with(1);
    let lines: Vec<_> = run.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in
        [&format!("{right} accepted"), &format!("{wrong} rejected 1 unmatched-wait"), "2 plans: 1 accepted, 1 rejected"]
    {
        assert!(lines.iter().any(|found| found == line), "{line}: {}", run.stdout);
    }
    assert!(run.stdout.starts_with(&format!("{wrong}:\n\nerror: ")), "{}", run.stdout);

    mscclpp(["check", &right, "allreduce_ring"]).succeeds();
    let run = mscclpp(["check", &right, &wrong, &other]).ends_with(2);
    assert!(run.stdout.contains("1 invalid") && run.stderr.contains("c.txt"), "{}{}", run.stdout, run.stderr);

    let json = mscclpp(["check", all, &other, "--json"]).ends_with(2).json();
    assert_eq!((&json["accepted"], &json["plans"][0]["source"]), (&false.into(), &right.as_str().into()));
    let accepted: Vec<_> = json["plans"].as_array().unwrap().iter().map(|plan| plan["accepted"] == true).collect();
    assert_eq!(accepted, [true, false, false]);

    let empty = tempfile::tempdir().unwrap();
    let run = mscclpp(["check", empty.path().to_str().unwrap()]).ends_with(2);
    assert!(run.stderr.contains("has no plan file"), "{}", run.stderr);
    mscclpp(["check"]).ends_with(2);
}

/// A slice that its group does not have.
const BAD_SLICE: &str = "plan bad_slice
collective sendrecv
ranks 2
protocol LL
rank 0 (input 1, output 1, scratch 1) {
  block 0:
    cpkt scratch[0] <- input[0] slice 9/2
}
rank 1 (input 1, output 1, scratch 1) {
  block 0:
    nop
}
";

#[test]
fn fuzz_finds_defects_independently_of_the_checks() {
    let run = |words: &[&str], plan: &str| mscclpp_reading(["check", "-", "--fuzz"].iter().chain(words), plan);
    let right = text(&good());
    let found = run(&["20"], &right).succeeds().stdout;
    assert_eq!(found, "plan `swap` is accepted\npassed 20 schedules\n");
    let json = run(&["20", "--json"], &right).succeeds().json();
    let passed = serde_json::json!({ "passed": 20, "step_limit": 0, "failed": null, "error": null });
    assert_eq!((&json["accepted"], &json["fuzz"]), (&true.into(), &passed));

    let stalling = text(&stalling());
    let found = run(&["5"], &stalling).ends_with(1).stdout;
    assert!(found.contains("is rejected: 1 finding\nnot run in any schedule: the checks reject the plan"), "{found}");
    // A plan that was not checked.
    let found = run(&["5", "--level", "off"], &stalling).ends_with(1).stdout;
    assert!(found.contains("no checks were run\nfailed in schedule 0: "), "{found}");
    let single = mscclpp(["plan", "export", "allreduce_one_shot_packets", "--ranks", "2"]).succeeds().stdout;
    let overtaken = single.replace("\"use_double_scratch_buffer\": true", "\"use_double_scratch_buffer\": false");
    assert_ne!(overtaken, single);
    let json = run(&["50", "--level", "off", "--json"], &overtaken).ends_with(1).json();
    assert_eq!((&json["accepted"], &json["findings"]), (&false.into(), &serde_json::json!([])));
    assert!(json["fuzz"]["failed"]["how"].is_string() && json["fuzz"]["failed"]["seed"].is_u64(), "{json}");

    // One whose numbers lead nowhere is not run, and that is no proof.
    let astray = right.replace("\"index\": 0", "\"index\": 7");
    let found = run(&["5", "--level", "off"], &astray).ends_with(3).stdout;
    assert!(found.contains("\nnot run in any schedule: rank 0 / thread block 0 / operation "), "{found}");
    run(&["5"], &astray).ends_with(1);
    let found = run(&["1"], BAD_SLICE).ends_with(1).stdout;
    assert!(found.contains("M0012") && found.contains("not run in any schedule: the checks reject"), "{found}");
    let found = run(&["1", "--level", "off"], BAD_SLICE).ends_with(3).stdout;
    assert!(
        found.contains("not run in any schedule: rank 0 / thread block 0 / operation 0 (cpkt): slice 9"),
        "{found}"
    );
    run(&["0"], &right).ends_with(2);
    run(&["5"], "{").ends_with(2);

    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("a.json", &right), ("b.json", &stalling), ("c.json", &astray)] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let words = ["check", directory.path().to_str().unwrap(), "--fuzz", "3", "--level", "off"];
    let found = mscclpp(words).ends_with(3).stdout;
    assert!(found.ends_with("\n3 plans: 1 accepted, 1 failed, 1 undecided\n"), "{found}");
    assert_eq!(found.matches("failed in schedule 0").count(), 1, "{found}");
}

#[test]
fn a_trace_holds_every_operation_and_both_ends_of_every_arrow() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.json");
    let path = file.to_str().unwrap();
    for algorithm in mscclpp(["plan", "list", "--json"]).succeeds().json().as_array().unwrap() {
        let name = algorithm["name"].as_str().unwrap();
        let run = mscclpp(["check", name, "--ranks", "4", "--trace", path]).succeeds();
        assert_eq!(run.stdout, format!("plan `{name}` is accepted\n"));
        let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
        let ids =
            |phase| of(phase).map(|event| event["id"].as_u64().unwrap()).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(ids("s"), ids("f"), "{name}");
        let ops = of("X").filter(|event| event["cat"] == "op").count();
        let stats = mscclpp(["plan", "stats", name, "--ranks", "4", "--json"]).succeeds().json();
        let counted = stats["total"]["ops"].as_u64().unwrap() as usize;
        let pipelines = stats["total"]["ops_by_kind"]["pipeline"].as_u64();
        assert!(if pipelines.is_none() { ops == counted } else { ops > counted }, "{name}: {ops} of {counted}");
        assert!(of("s").count() > 0, "{name}");
    }
}

#[test]
fn a_trace_of_a_wrong_plan_shows_what_is_stuck() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.json");
    let path = file.to_str().unwrap();
    let plan = text(&stalling());
    mscclpp_reading(["check", "-", "--trace", path], &plan).ends_with(1);
    let page = directory.path().join("page.html");
    let html = page.to_str().unwrap();
    mscclpp_reading(["check", "-", "--html", html], &plan).ends_with(1);
    let shown = std::fs::read_to_string(&page).unwrap();
    for expected in ["The plan is rejected.", "data-go=\"", "wait</a>: M0201: ", "class=\"op blocked\""] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    let run = mscclpp(["check", "allreduce_ring", "send_recv", "--html", html]).ends_with(2);
    assert!(run.stderr.contains("--html requires one plan, found 2"), "{}", run.stderr);
    mscclpp(["check", "allreduce_ring", "--ranks", "2", "--html", html]).succeeds();
    assert!(std::fs::read_to_string(&page).unwrap().contains("The plan is accepted."));
    let trace = std::fs::read_to_string(&file).unwrap();
    assert!(trace.contains("\"stuck: wait\"") && trace.contains("waits for a signal of rank 1"), "{trace}");
    mscclpp(["check", "allreduce_ring", "send_recv", "--trace", path]).ends_with(2);
    mscclpp(["check", "allreduce_ring", "--trace", "-"]).ends_with(2);
    mscclpp(["check", "allreduce_ring", "--trace", directory.path().to_str().unwrap()]).ends_with(3);

    // A plan whose numbers lead nowhere has no run.
    let broken = plan.replace("\"index\": 0", "\"index\": 7");
    assert_ne!(broken, plan);
    std::fs::remove_file(&file).unwrap();
    let run = mscclpp_reading(["check", "-", "--trace", path], &broken).ends_with(1);
    assert!(run.stderr.contains("no trace was written") && !file.exists(), "{}", run.stderr);
    let run = mscclpp_reading(["check", "-", "--level", "off", "--trace", path], &broken).ends_with(1);
    assert!(run.stderr.contains("cannot be traced") && !file.exists(), "{}", run.stderr);
}

#[test]
fn a_device_has_room_for_so_much() {
    mscclpp(["check", "allreduce_ring", "--device", "h100"]).succeeds();
    let run = mscclpp(["check", "allreduce_ring", "--ranks", "32", "--device", "mscclpp"]).ends_with(1);
    assert!(
        run.stdout.contains("the limit of the reference executor is 64") && run.stdout.contains("M0209"),
        "{}",
        run.stdout
    );
    let run = mscclpp(["check", "allreduce_ring", "--device", "abacus"]).ends_with(2);
    assert!(run.stderr.contains("expected one of a100"), "{}", run.stderr);
}

#[test]
fn memory_channel_across_nodes_is_refused() {
    let run = mscclpp_reading(["check", "-"], &text(&across_nodes())).ends_with(1);
    assert!(run.stdout.contains("M0225 across-nodes") && run.stdout.contains("on node 1"), "{}", run.stdout);
    mscclpp_reading(["check", "-", "--allow", "across-nodes"], &text(&across_nodes())).ends_with(2);
}

#[test]
fn plan_that_needs_launch_barrier_is_warned_of_for_reference() {
    let plan = text(&relaxed_close());
    let run = mscclpp_reading(["check", "-"], &plan).succeeds();
    assert_eq!(run.stderr, "");
    let run = mscclpp_reading(["check", "-", "--device", "mscclpp"], &plan).succeeds();
    assert!(run.stderr.contains("the reference executor has no launch barrier"), "{}", run.stderr);
    let run = mscclpp_reading(["check", "-", "--device", "mscclpp", "--strict"], &plan).ends_with(1);
    assert!(run.stdout.contains("neither of them relaxed"), "{}", run.stdout);
    let run = mscclpp_reading(["plan", "export", "-", "--target", "mscclpp"], &plan).succeeds();
    assert!(run.stderr.contains("the reference executor has no launch barrier"), "{}", run.stderr);
    let run = mscclpp_reading(["check", "-", "--device", "mscclpp", "--strict"], &text(&good())).succeeds();
    assert_eq!(run.stderr, "");
}
