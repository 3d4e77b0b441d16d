//! The checks accept every reference plan that is right, and say of the others what is wrong.

use mscclpp_core::check::check;
use mscclpp_core::check::limits::{DeviceProfile, limits};
use mscclpp_core::diag::Code;
use mscclpp_core::plan::PlanTree;
use mscclpp_core::plan::export::for_reference;
use mscclpp_core::plan::json::{ReadOptions, read};
use serde_json::Value;

/// A reference plan with what is known of it.
struct Known {
    slug: String,
    tree: PlanTree,
    /// Whether somebody judged it.
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
fn right_plans_are_accepted_and_wrong_ones_are_not() {
    for plan in plans() {
        let found = check(&plan.tree);
        let codes: Vec<Code> = found.iter().map(|finding| finding.code).collect();
        // Collisions of one launch with the next, and handshakes that only close a launch, are no matter of one launch.
        let races = |advisory: &String| advisory.starts_with("race:") && !advisory.contains("cross-launch");
        if plan.advisories.iter().any(|advisory| advisory == "deadlock") {
            assert_eq!(codes, [Code::Deadlock], "{}: {found}", plan.slug);
        } else if plan.advisories.iter().any(races) {
            assert!(!codes.is_empty() && codes.iter().all(|code| *code == Code::Race), "{}: {found}", plan.slug);
        } else if plan.simulated {
            assert!(found.is_empty(), "{}: {found}", plan.slug);
        } else {
            // Fragments: some signal what nobody waits for, some read packets that nobody sends or that lie where plain
            // data lies, some overwrite what others read.
            use Code::*;
            let fragment = |code: &Code| matches!(code, UnmatchedWait | Deadlock | Race | SharedScratch);
            assert!(codes.iter().all(fragment), "{}: {found}", plan.slug);
        }
    }
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn limits_of_the_reference_executor_are_found() {
    for plan in plans() {
        let mut found = limits(&plan.tree, &DeviceProfile::REFERENCE);
        found.extend(for_reference(&plan.tree).err().unwrap_or_default());
        let told = |words: &str| found.iter().any(|finding| finding.message.contains(words));
        for (advisory, words) in [
            ("limit:ops-per-tb", "operations, the reference executor has room for 64"),
            ("limit:channels-per-op", "channels, the reference executor has room for 8"),
            ("limit:buffers-per-op", "s, the reference executor has room for 10"),
            ("limit:glre", "only fused"),
        ] {
            let expected = plan.advisories.iter().any(|known| known == advisory);
            if expected || plan.simulated {
                assert_eq!(told(words), expected, "{}: {advisory}: {found}", plan.slug);
            }
        }
    }
}
