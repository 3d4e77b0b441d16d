//! `mscclpp explain` and what all commands share: help, version, usage errors, a closed output.

use crate::common::mscclpp;

#[test]
fn explain_shows_what_is_evaluated() {
    let page = mscclpp(["explain", "--subset"]).succeeds().stdout;
    for text in ["| `in_place` |", "checked_next_power_of_two", "lossy-cast", "`BTreeSet`"] {
        assert!(page.contains(text), "{text}");
    }
    mscclpp(["explain", "--subset", "M0004"]).ends_with(2);
}

#[test]
fn explain_lists_all_and_explains_each() {
    let list = mscclpp(["explain"]).succeeds();
    let json = mscclpp(["explain", "--json"]).succeeds().json();
    for entry in json.as_array().unwrap() {
        let (code, slug) = (entry["code"].as_str().unwrap(), entry["slug"].as_str().unwrap());
        assert!(list.stdout.contains(code) && list.stdout.contains(slug), "{code}");
    }
    assert!(json.as_array().unwrap().len() >= 20);
}

#[test]
fn explain_prints_number_slug_rule_and_explanation() {
    let run = mscclpp(["explain", "m0004"]).succeeds();
    assert!(
        run.stdout.starts_with("M0004 chunk-out-of-range\n\nRule: a chunk range lies within its buffer.\n\n"),
        "{}",
        run.stdout
    );
    assert_eq!(run.stdout, mscclpp(["explain", "chunk-out-of-range"]).succeeds().stdout);
    assert_eq!(run.stderr, "");
    let json = mscclpp(["explain", "M0004", "--json"]).succeeds().json();
    assert_eq!(json["slug"], "chunk-out-of-range");
}

#[test]
fn explain_of_an_unknown_code_suggests_and_ends_with_2() {
    let run = mscclpp(["explain", "chunk-out-of-rnage"]).ends_with(2);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("similar names exist: `chunk-out-of-range`, "), "{}", run.stderr);
}

#[test]
fn help_and_version_are_data_and_usage_errors_are_not() {
    assert!(mscclpp(["--help"]).succeeds().stdout.contains("Exit codes:"));
    assert!(mscclpp(["--version"]).succeeds().stdout.starts_with("mscclpp "));
    for words in [&["--nonsense"][..], &["nonsense"], &["explain", "a", "b"], &[]] {
        let run = mscclpp(words).ends_with(2);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.contains("Usage"), "{}", run.stderr);
    }
}

#[cfg(unix)]
#[test]
fn a_closed_output_ends_quietly_with_141() {
    use std::process::{Command, Stdio};
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for words in [&["explain"][..], &["--help"], &["run", "--help"], &["--version"]] {
        let stdout = writer.try_clone().unwrap();
        let output =
            Command::new(crate::common::BINARY).args(words).stdout(stdout).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{words:?}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_an_error_with_3() {
    use std::process::Command;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for words in [&["explain"][..], &["--help"], &["run", "--help"], &["--version"]] {
        let output =
            Command::new(crate::common::BINARY).args(words).stdout(full.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to standard output"));
    }
}

#[test]
fn no_colours_reach_a_pipe() {
    for words in [&["explain"][..], &["explain", "nonsense"], &["--help"]] {
        let run = mscclpp(words);
        assert!(!run.stdout.contains('\u{1b}') && !run.stderr.contains('\u{1b}'), "{words:?}");
    }
}
