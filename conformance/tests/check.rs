//! The checks accept every correct reference plan, and report the errors of the others.

use std::collections::BTreeMap;

use mscclpp_core::check::limits::{DeviceProfile, check_limits};
use mscclpp_core::check::{Checks, check};
use mscclpp_core::diag::Code;
use mscclpp_core::export::for_reference;
use mscclpp_core::plan::json::{ReadOptions, read};
use mscclpp_core::plan::raw::PlanTree;
use serde_json::Value;

/// A reference plan with its description.
struct Known {
    slug: String,
    tree: PlanTree,
    /// Whether the plan was judged by a simulation.
    simulated: bool,
    advisories: Vec<String>,
}

fn plans() -> Vec<Known> {
    let known = |plan: &Value| {
        let slug = plan["slug"].as_str().unwrap().to_owned();
        let (tree, _) = read(&conformance::text(&format!("{slug}.json")), ReadOptions::default()).unwrap();
        let list = |value: &Value| value.as_str().unwrap().to_owned();
        let advisories = plan["advisories"].as_array().unwrap().iter().map(list).collect();
        Known { slug, tree, simulated: plan["simulated"].as_bool().unwrap(), advisories }
    };
    conformance::index().iter().map(known).collect()
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn correct_plans_are_accepted_and_others_rejected() {
    let mut wrong = Vec::new();
    for plan in plans() {
        let found = check(&plan.tree);
        let codes: Vec<Code> = found.iter().map(|finding| finding.code).collect();
        let advised = |advisory: &dyn Fn(&str) -> bool| plan.advisories.iter().any(|known| advisory(known));
        let all = |allowed: &[Code]| codes.iter().all(|code| allowed.contains(code));
        let between_launches = [Code::CrossLaunchRace, Code::EarlyAccess, Code::LateAccess];
        let judged = if advised(&|known| known == "deadlock") {
            codes == [Code::Deadlock]
        } else if advised(&|known| known.starts_with("race:") && !known.contains("cross-launch")) {
            !codes.is_empty() && all(&[Code::Race])
        } else if advised(&|known| known.starts_with("race:") && !known.ends_with("relaxed-only")) {
            !codes.is_empty() && all(&between_launches)
        } else if plan.simulated {
            // A relaxed handshake may end a launch.
            codes.is_empty()
        } else {
            // Fragments: some send signals without a wait, some read packets that no operation sends or that are at
            // addresses of plain data, some overwrite data that others read, some begin without a handshake.
            let within = [Code::UnmatchedWait, Code::Deadlock, Code::Race, Code::MixedScratch];
            all(&[&between_launches[..], &within].concat())
        };
        if !judged {
            wrong.push(format!("{} (advisories {:?}): {found}", plan.slug, plan.advisories));
        }
    }
    assert!(wrong.is_empty(), "{} plans are judged wrongly:\n{}", wrong.len(), wrong.join("\n"));
}

/// Numbers of plans, by the first word of their names: those that take every count, dividing counts only, and none.
#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn counts_of_plans_are_those_of_the_page() {
    let mut groups: BTreeMap<String, [u32; 3]> = BTreeMap::new();
    for mut plan in plans() {
        let column = match Checks::default().run_or_restrict(&mut plan.tree) {
            Ok(None) => 0,
            Ok(Some(_)) => 1,
            Err(_) => 2,
        };
        let group = plan.slug.split('-').next().unwrap_or_default();
        groups.entry(group.to_owned()).or_default()[column] += 1;
    }
    let row = |(group, [all, dividing, none]): (&String, &[u32; 3])| {
        format!("| `{group}-…` | {all} | {dividing} | {none} |\n")
    };
    let expected: String = groups.iter().map(row).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/differences.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (before, rows) = page.split_once("| plans | every count |").expect("the table");
    let (head, rows) = rows.split_once("|---|---|---|---|\n").expect("its head");
    let (found, after) = rows.split_once("\n\n").expect("its end");
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        let page = format!("{before}| plans | every count |{head}|---|---|---|---|\n{expected}\n{after}");
        std::fs::write(path, page).expect("the page can be written");
    } else {
        assert_eq!(
            format!("{found}\n"),
            expected,
            "docs/differences.md is stale: set MSCCLPP_BLESS=1 and look at the change"
        );
    }
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn limits_of_the_reference_executor_are_found() {
    for plan in plans() {
        let mut found = check_limits(&plan.tree, &DeviceProfile::REFERENCE);
        found.extend(for_reference(&plan.tree).err().unwrap_or_default());
        let told = |words: &str| found.iter().any(|finding| finding.message.contains(words));
        for (advisory, words) in [
            ("limit:ops-per-tb", "operations, the limit of the reference executor is 64"),
            ("limit:channels-per-op", "channels, the limit of the reference executor is 8"),
            ("limit:buffers-per-op", "s, the limit of the reference executor is 10"),
            ("limit:glre", "not fused with a broadcast"),
        ] {
            let expected = plan.advisories.iter().any(|known| known == advisory);
            if expected || plan.simulated {
                assert_eq!(told(words), expected, "{}: {advisory}: {found}", plan.slug);
            }
        }
    }
}
