//! The checks accept every correct reference plan, and report the errors of the others.

use mscclpp_core::check::check;
use mscclpp_core::check::limits::{DeviceProfile, check_limits};
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
