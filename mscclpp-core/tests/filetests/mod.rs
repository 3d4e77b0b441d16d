//! The runner `check` of the file tests: what the parser and the checks find in the plans of `filetests`.
//!
//! `MSCCLPP_BLESS=1 cargo test -p mscclpp-core --test integration filetests` writes the findings into the files.

mod common;

use common::{FileTest, Finding, tests};
use mscclpp_core::check::limits::{DeviceProfile, check_limits};
use mscclpp_core::check::{Checks, check};
use mscclpp_core::diag::{Code, Diagnostic, Site};
use mscclpp_core::plan::raw::{Op, OpKind};
use mscclpp_core::plan::text::{parse, print};

/// Codes of the checks that no small plan brings about, with the test that does.
const ELSEWHERE: [(Code, &str); 2] = [
    (Code::AnalysisLimit, "check::dataflow::tests::hostile_plans_take_no_longer_than_others"),
    (Code::Undecided, "check::loops::tests::loops_of_too_many_combinations_are_refused"),
];

/// What is found in a test's plan, each finding once, in the order of lines.
fn findings(test: &FileTest) -> Vec<Finding> {
    let mut found = match test.parse() {
        Err(error) => vec![finding(&error.in_file(&test.name))],
        Ok(plan) => {
            let mut found: Vec<_> = check(&plan).iter().map(finding).collect();
            if test.is_strict() {
                found.extend(Checks::default().warnings(&plan).iter().map(finding));
            }
            if let Some(name) = test.device() {
                let device = DeviceProfile::find(name).expect("a device");
                found.extend(check_limits(&plan, &device).iter().map(finding));
            }
            found
        }
    };
    // The end of a text may be on no line.
    let lines = test.text.lines().count();
    found.iter_mut().for_each(|(line, _)| *line = line.filter(|line| *line <= lines));
    found.sort();
    found.dedup();
    found
}

fn finding(diagnostic: &Diagnostic) -> Finding {
    let line = match &diagnostic.site {
        Site::Source(place) => Some(place.line as usize),
        Site::None | Site::Path(_) => None,
    };
    (line, format!("{} {}", diagnostic.code.entry().number, diagnostic.message))
}

/// Returns whether a finding is the expected one: its code, and a part of its message.
fn is_expected(expected: &Finding, found: &Finding) -> bool {
    let (code, part) = expected.1.split_once(' ').unwrap_or((&expected.1, ""));
    let message = found.1.strip_prefix(code).filter(|_| !code.is_empty());
    expected.0 == found.0 && message.is_some_and(|message| message.contains(part.trim()))
}

#[test]
fn plans_have_the_findings_that_their_comments_list() {
    let bless = std::env::var_os("MSCCLPP_BLESS").is_some();
    let mut wrong = Vec::new();
    for test in tests("check") {
        if bless {
            let bare = test.without_expectations();
            std::fs::write(&test.path, bare.with_findings(&findings(&bare))).expect("it can be written");
            continue;
        }
        let (expected, found) = (test.expected(), findings(&test));
        if test.is_accepted() == expected.is_empty()
            && expected.iter().all(|one| found.iter().any(|other| is_expected(one, other)))
            && found.iter().all(|one| expected.iter().any(|other| is_expected(other, one)))
        {
            continue;
        }
        wrong.push(format!("{}\n  expected {expected:#?}\n  found {found:#?}", test.name));
    }
    assert!(wrong.is_empty(), "{}\nMSCCLPP_BLESS=1 writes what is found into the files", wrong.join("\n"));
}

#[test]
fn comment_with_another_code_line_or_message_is_noticed() {
    let finding = |line, text: &str| (line, text.to_owned());
    let found = finding(Some(3), "M0210 `copy` reads scratch chunk 0");
    for part in ["M0210", "M0210 reads scratch", "M0210 `copy` reads scratch chunk 0"] {
        assert!(is_expected(&finding(Some(3), part), &found), "{part}");
    }
    for (line, part) in
        [(Some(3), "M0211"), (Some(4), "M0210"), (None, "M0210"), (Some(3), "M0210 writes"), (Some(3), "")]
    {
        assert!(!is_expected(&finding(line, part), &found), "{part}");
    }
}

#[test]
fn every_rule_has_a_wrong_plan_and_a_right_neighbor() {
    let tests = tests("check");
    for (code, entry) in Code::all().filter(|(_, entry)| entry.number.starts_with("M02")) {
        let prefix = format!("rules/{}_{}", entry.number, entry.slug.replace('-', "_"));
        let wrong = |test: &&FileTest| test.name.starts_with(&prefix) && !test.is_accepted();
        let right = |test: &&FileTest| test.name.starts_with(&prefix) && test.is_accepted();
        let found = [tests.iter().find(wrong), tests.iter().find(right)];
        assert_eq!(found.iter().all(Option::is_some), !ELSEWHERE.iter().any(|(other, _)| *other == code), "{prefix}");
        if let [Some(wrong), _] = found {
            assert!(wrong.expected().iter().any(|(_, text)| text.starts_with(entry.number)), "{}", wrong.name);
        }
    }
}

#[test]
fn every_operation_is_in_a_right_plan_that_all_runners_take() {
    fn visit(ops: &[Op], seen: &mut Vec<OpKind>) {
        for op in ops {
            seen.push(op.kind);
            visit(op.body.as_ref().map_or(&[], |body| &body.ops), seen);
        }
    }
    let mut seen = Vec::new();
    // Devices do not take plans whose sizes are counts here.
    let runners = |test: &FileTest| match test.plan() {
        plan if plan.is_counted() => &["fuzz", "cpu"][..],
        _ => &["fuzz", "cpu", "device"],
    };
    let all = |test: &FileTest| runners(test).iter().all(|runner| test.runs(runner));
    for test in tests("check").iter().filter(|test| test.is_accepted() && all(test)) {
        for block in test.plan().ranks.iter().flat_map(|rank| &rank.blocks) {
            visit(&block.ops, &mut seen);
        }
    }
    let missing: Vec<_> = OpKind::ALL.iter().filter(|kind| !seen.contains(kind)).map(|kind| kind.name()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn file_tests_are_printed_and_parsed_equal() {
    for test in tests("check") {
        if let Ok(plan) = test.parse() {
            assert_eq!(parse(&print(&plan)), Ok(plan), "{}", test.name);
        }
    }
}
