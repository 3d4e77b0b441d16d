//! What `mscclpp explain` shows is true: its wrong programs are refused for that reason, and with the right lines in place of
//! those marked `// wrong` they are accepted.

use mscclpp_core::diag::{Code, Entry};

/// The wrong program of an explanation and what to write instead.
fn programs(entry: &Entry) -> Option<(&'static str, &'static str)> {
    let mut blocks = entry.explanation.split("```rust\n").skip(1).map(|text| text.split("```").next().unwrap_or(""));
    Some((blocks.next()?, blocks.next()?))
}

/// The program with its wrong lines replaced by the right ones.
fn fixed(wrong: &str, right: &str) -> String {
    let mut fixed = String::new();
    let mut marked = 0;
    for line in wrong.lines() {
        if line.ends_with("// wrong") {
            fixed += if marked == 0 { right } else { "" };
            marked += 1;
        } else {
            fixed += line;
            fixed.push('\n');
        }
    }
    assert!(marked > 0, "no line is marked: {wrong}");
    fixed
}

/// The errors that the attribute reports for a program, or its warnings, which are notes of deprecated constants; empty if there are
/// none.
fn expansion(program: &str, warnings: bool) -> String {
    let attribute = program.strip_prefix("#[collective(").and_then(|text| text.split_once(")]"));
    let (attribute, function) = attribute.expect("a collective with its attribute");
    let text =
        mscclpp_eval::collective(attribute.parse().expect("tokens"), function.parse().expect("tokens")).to_string();
    let reported = text.contains(if warnings { "deprecated" } else { "compile_error" });
    if reported { text } else { String::new() }
}

#[test]
fn wrong_programs_are_refused_and_right_ones_accepted() {
    let mut shown = 0;
    for (code, entry) in Code::all() {
        let warnings = matches!(code, Code::NoPostcondition | Code::RedundantTransfer);
        let Some((wrong, right)) = programs(entry) else { continue };
        let told = format!("[{} {}]", entry.number, entry.slug);
        let refused = expansion(wrong, warnings);
        assert!(refused.contains(&told), "{told} is not what is wrong: {}", said(&refused));
        let accepted = expansion(&fixed(wrong, right), warnings);
        assert!(accepted.is_empty(), "{told} does not go away: {}", said(&accepted));
        shown += 1;
    }
    assert!(shown >= 8, "{shown} explanations have programs");
}

/// Every rule of the checks shows code, but for three that say more than is wrong with a plan. Those that only plans from files
/// can break show parts of such plans, which a test of `mscclpp-core` reads.
#[test]
fn every_rule_of_the_checks_shows_code() {
    for (code, entry) in Code::all().filter(|(_, entry)| entry.number.starts_with("M02")) {
        let json = entry.explanation.matches("```json\n").count();
        let shows = programs(entry).is_some()
            || json == 2
            || matches!(code, Code::OverLimit | Code::AnalysisLimit | Code::Undecided);
        assert!(shows, "{} {} shows no code", entry.number, entry.slug);
    }
}

/// The message in an expansion.
fn said(expansion: &str) -> &str {
    expansion.split("compile_error ! {").nth(1).and_then(|text| text.split('}').next()).unwrap_or("nothing")
}
