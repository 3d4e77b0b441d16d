//! The adversary breaks what is broken, and nothing that the checker accepts.

#[path = "../corpus/mod.rs"]
mod corpus;
mod faults;

use corpus::{Named, reference, shipped, size};
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
        let begin = std::time::Instant::now();
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
        println!("{:?} {} {name}", begin.elapsed(), size(plan));
    }
    (broken, attacked, attacks)
}

#[test]
fn shipped_algorithms_withstand() {
    let plans = shipped(&[(2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (4, 2), (6, 3), (6, 2), (2, 1)], 2);
    let (broken, attacked, attacks) = attack_all(&plans, 500);
    println!("{attacked} plans, {attacks} attacks");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn accepted_reference_plans_withstand() {
    let plans = reference();
    let (broken, attacked, attacks) = attack_all(&plans, 700);
    println!("{attacked} plans, {attacks} attacks");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}
