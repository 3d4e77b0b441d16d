//! `mscclpp check`.

mod common;

use common::plans::{good, stalling, text};
use common::{mscclpp, mscclpp_reading};

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
    assert!(run.stdout.ends_with("plan `swap` is refused: 1 finding\n"), "{}", run.stdout);
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
    assert_eq!(run(&["--level", "off"]).succeeds().stdout, "plan `swap` can be read; nothing was checked\n");
    run(&["--level", "most"]).ends_with(2);
    let basic = mscclpp_reading(["check", "-", "--level=basic"], &text(&good())).succeeds().stdout;
    assert_eq!(basic, "plan `swap` is accepted as far as shapes and pairing go; nothing else was checked\n");
}

#[test]
fn what_is_allowed_passes() {
    let plan = text(&stalling());
    let run = |words: &[&str]| mscclpp_reading(["check", "-"].iter().chain(words), &plan);
    let basic = run(&["--level", "basic", "--allow", "unmatched-wait"]).succeeds().stdout;
    assert!(basic.ends_with(", with unmatched-wait let pass\n"), "{basic}");
    // Without its signal the wait never ends.
    let full = run(&["--allow", "unmatched_wait"]).ends_with(1).stdout;
    assert!(full.contains("[M0208 deadlock]"), "{full}");
    run(&["--allow", "race", "--allow", "M0208"]).ends_with(1);
    let unknown = run(&["--allow", "rase"]).ends_with(2);
    assert!(unknown.stderr.contains("did you mean `race`?"), "{}", unknown.stderr);
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
        [&format!("{right} accepted"), &format!("{wrong} refused 1 unmatched-wait"), "2 plans: 1 accepted, 1 refused"]
    {
        assert!(lines.iter().any(|found| found == line), "{line}: {}", run.stdout);
    }
    assert!(run.stdout.starts_with(&format!("{wrong}:\n\nerror: ")), "{}", run.stdout);

    mscclpp(["check", &right, "allreduce_ring"]).succeeds();
    let run = mscclpp(["check", &right, &wrong, &other]).ends_with(2);
    assert!(run.stdout.contains("1 unreadable") && run.stderr.contains("c.txt"), "{}{}", run.stdout, run.stderr);

    let json = mscclpp(["check", all, &other, "--json"]).ends_with(2).json();
    assert_eq!((&json["accepted"], &json["plans"][0]["source"]), (&false.into(), &right.as_str().into()));
    let accepted: Vec<_> = json["plans"].as_array().unwrap().iter().map(|plan| plan["accepted"] == true).collect();
    assert_eq!(accepted, [true, false, false]);

    let empty = tempfile::tempdir().unwrap();
    let run = mscclpp(["check", empty.path().to_str().unwrap()]).ends_with(2);
    assert!(run.stderr.contains("holds no plan file"), "{}", run.stderr);
    mscclpp(["check"]).ends_with(2);
}
