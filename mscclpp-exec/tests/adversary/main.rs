//! The adversary breaks what is broken, and nothing that the checker accepts.
//!
//! `conformance/tests/adversary.rs` says the same of the reference system's plans.

mod attack;
#[path = "../corpus/mod.rs"]
mod corpus;
mod faults;
mod flush;
mod regressions;
mod small;
#[path = "../../../mscclpp-core/src/testing.rs"]
#[allow(dead_code, reason = "written for other tests")]
mod testing;

use attack::{attack_all, limit};
use corpus::shipped;
// `testing` finds these where the core has them.
use mscclpp_core::{collective, origin, plan, spec, trace, vocab};

#[test]
fn shipped_algorithms_withstand() {
    let plans = shipped(&[(2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (4, 2), (6, 3), (6, 2), (2, 1)], 2);
    let (broken, attacked, attacks) = attack_all(&plans, limit(500));
    println!("{attacked} plans, {attacks} attacks");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}
