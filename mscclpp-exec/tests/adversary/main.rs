//! The adversary breaks what is broken, and nothing that the checker accepts.

#[path = "../corpus/mod.rs"]
mod corpus;
mod faults;

use corpus::{Named, faulty, fragments, reference, shipped, size};
use mscclpp_core::check::check;
use mscclpp_exec::adversary::{Adversary, Outcome};

/// Seeds per plan: `MSCCLPP_SEEDS`, or so many.
fn seeds(default: u64) -> u64 {
    std::env::var("MSCCLPP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Attacks every plan that the checker accepts; what broke, and how many plans and attacks there were.
fn attack_all(plans: &[Named], operations: usize) -> (Vec<String>, usize, u64) {
    let (mut broken, mut attacked, mut attacks) = (Vec::new(), 0, 0);
    for Named { name, plan } in plans {
        if size(plan) > operations {
            continue;
        }
        let found = check(plan);
        if !found.is_empty() {
            broken.push(format!("{name} is refused: {found}"));
            continue;
        }
        attacked += 1;
        for seed in 0..seeds(6) {
            attacks += 1;
            match Adversary::new(plan).attack(seed).unwrap_or_else(|error| panic!("{name}: {error}")) {
                Outcome::Withstood { unordered: 0 } => {}
                Outcome::Withstood { unordered } => {
                    broken.push(format!("{name}, seed {seed}: {unordered} accesses that nothing orders"));
                    break;
                }
                Outcome::Broken(failure) => {
                    broken.push(format!("{name}, seed {seed}: {failure}"));
                    break;
                }
                Outcome::Undecided => broken.push(format!("{name}, seed {seed}: undecided")),
            }
        }
    }
    (broken, attacked, attacks)
}

#[test]
fn shipped_algorithms_withstand() {
    let plans = shipped(&[(2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (4, 2), (6, 3), (6, 2), (2, 1)], 2);
    let (broken, attacked, attacks) = attack_all(&plans, limit(500));
    println!("{attacked} plans, {attacks} attacks");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn accepted_reference_plans_withstand() {
    let plans = reference();
    let (broken, attacked, attacks) = attack_all(&plans, limit(700));
    println!("{attacked} plans, {attacks} attacks");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}

/// Operations of the largest plan that is attacked.
fn limit(default: usize) -> usize {
    std::env::var("MSCCLPP_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What the checker does not refuse yet.
fn is_expected(name: &str) -> bool {
    name.starts_with("multi-send_recv") || name.starts_with("unit-tbg_reduce_send")
}

/// The reference system's simulator, the checker and the adversary are of one opinion: relaxed closing handshakes are fine, everything else
/// that the simulator calls a fault is one.
#[test]
fn faulty_reference_plans_break() {
    for (Named { name, plan }, faults) in faulty() {
        let sound = faults.iter().all(|fault| fault.ends_with("relaxed-only"));
        let found = check(&plan);
        let broken = Adversary::new(&plan).hunt(0..seeds(60)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(broken.is_none(), sound, "{name}: {faults:?}, but {broken:?}");
        assert!(found.is_empty() == sound || is_expected(&name), "{name}: {faults:?}, but {found}");
    }
}

/// Fragments that the checker accepts do the same in every order, whatever that is.
#[test]
fn accepted_fragments_withstand() {
    let fragments = fragments();
    let accepted: Vec<Named> =
        fragments.into_iter().filter(|named| check(&named.plan).is_empty() && !is_expected(&named.name)).collect();
    let (broken, attacked, attacks) = attack_all(&accepted, limit(700));
    println!("{attacked} plans, {attacks} attacks");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}
