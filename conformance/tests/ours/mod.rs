//! Plans of this project compared with those of MSCCL++, for the same programs, arguments and overrides.
//!
//! Every plan must be equal as a JSON value, with the set-valued lists compared as sets, or differ exactly as
//! `docs/differences.md` states.

mod cases;
mod compare;
mod differences;
mod index;
mod programs;

use std::fmt::Write as _;

use mscclpp_core::check::check;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::json;
use mscclpp_core::trace::Trace;

use self::cases::{Call, Case};

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn plans_equal_those_of_the_reference() {
    let entries = index::read();
    let (mut equal, mut known) = (0, 0);
    let mut failures = String::new();
    for entry in &entries {
        let mut theirs = conformance::json(&format!("{}.json", entry.slug));
        compare::normalise(&mut theirs);
        for (variant, overrides) in std::iter::once(&entry.overrides).chain(&entry.identical_under).enumerate() {
            let mut name = entry.slug.clone();
            if variant > 0 {
                overrides.iter().for_each(|(key, value)| _ = write!(name, " {key}={value}"));
            }
            let Some(case) = cases::case(entry) else {
                _ = writeln!(failures, "{name}: no program for {}", entry.source);
                continue;
            };
            let found = match ours(case.overridden(overrides)) {
                Ok(plan) => compare::differences(&plan, &theirs),
                Err(error) => vec![error],
            };
            let expected = differences::of(&name);
            let explained = |line: &String| expected.iter().any(|(_, explains)| explains(line));
            let ids: Vec<_> = expected.iter().map(|(id, _)| *id).collect();
            match found.iter().filter(|line| !explained(line)).cloned().collect::<Vec<_>>().as_slice() {
                [] if found.is_empty() && ids.is_empty() => equal += 1,
                [] if found.is_empty() => _ = writeln!(failures, "{name}: equal, but listed with {ids:?}"),
                [] => known += 1,
                unexplained => _ = writeln!(failures, "{name}: differs\n    {}", unexplained.join("\n    ")),
            }
        }
    }
    println!("{} plans of the reference: {equal} programs equal, {known} differ as documented", entries.len());
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn programs_evaluate_to_what_they_record() {
    let mut programs = 0;
    for entry in index::read().iter().filter(|entry| entry.overrides.is_empty()) {
        let case = cases::case(entry).unwrap_or_else(|| panic!("no program for {}", entry.source));
        let native = recorded(&case).unwrap_or_else(|error| panic!("{}: {error}", entry.slug));
        let Call { source, function, arguments, .. } = &case.call;
        let evaluated = mscclpp_eval::probe::trace(source, function, case.spec.clone(), arguments)
            .unwrap_or_else(|error| panic!("{}: {error}", entry.slug));
        assert!(native == evaluated, "{}", entry.slug);
        programs += 1;
    }
    println!("{programs} programs evaluate to what they record");
}

fn recorded(case: &Case) -> Result<Trace, String> {
    let program = Program::new(case.spec.clone());
    (case.call.native)(&program);
    program.finish().map_err(|error| error.to_string())
}

/// Returns whether the reference's program itself is invalid, so that no lowering can correct it: a group copies a
/// chunk, and one member alone signals it; a port sends a rank's input, and the rank ends without a flush.
fn is_wrong(slug: &str) -> bool {
    ["exec-reduce_tbg", "multi-send_recv", "multi-reducescatter-"].iter().any(|wrong| slug.starts_with(wrong))
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn our_plans_pass_the_checks() {
    let mut accepted = 0;
    // Fragments were not simulated: a part of a program is not expected to be correct.
    for entry in index::read().iter().filter(|entry| entry.simulated) {
        let case = cases::case(entry).unwrap_or_else(|| panic!("no program for {}", entry.source));
        let trace = recorded(&case).unwrap_or_else(|error| panic!("{}: {error}", entry.slug));
        let found = check(&lower(&trace).unwrap_or_else(|error| panic!("{}: {error}", entry.slug)));
        assert_eq!(found.is_empty(), !is_wrong(&entry.slug), "{}: {found}", entry.slug);
        accepted += usize::from(found.is_empty());
    }
    println!("{accepted} of our plans pass the checks");
}

/// Returns this project's plan as a JSON value.
fn ours(case: Case) -> Result<serde_json::Value, String> {
    let trace = recorded(&case)?;
    let plan = lower(&trace).map_err(|error| error.to_string())?;
    let text = json::write(&plan, json::Style::Compact);
    let mut value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    compare::drop_own_keys(&mut value);
    compare::normalise(&mut value);
    Ok(value)
}

#[test]
fn every_listed_difference_is_documented() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/differences.md");
    let page = std::fs::read_to_string(path).expect("the page of differences");
    for (slug, known) in differences::KNOWN {
        for (id, _) in *known {
            let (_, section) = page.split_once(&format!("**{id} ")).unwrap_or_else(|| panic!("{id} is not documented"));
            let section = section.split("**DIFF-").next().unwrap_or(section);
            let program = slug.strip_suffix("-i2").unwrap_or(slug);
            assert!(section.contains(program), "{id} does not name `{slug}`");
        }
    }
}
