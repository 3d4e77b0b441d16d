//! What the process executor runs of the reference system's plans is what the checker accepts.

#[path = "../../mscclpp-exec/tests/corpus/mod.rs"]
mod corpus;

use corpus::{Named, faulty, fragments, reference};
use mscclpp_core::check::check;
use mscclpp_exec::Error;
use mscclpp_exec::passes::{Invalid, ProcessLaunch, Sharing, validate_processes};

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn reference_plans_run_as_proved() {
    let (mut plans, mut validated, mut wrong) = (0, 0, Vec::new());
    for Named { name, plan } in
        reference().into_iter().chain(fragments()).chain(faulty().into_iter().map(|(named, _)| named))
    {
        if !check(&plan).is_empty() {
            continue;
        }
        plans += 1;
        let ranks = plan.ranks.len() as u32;
        for node in (1..=ranks).rev().filter(|node| ranks.is_multiple_of(*node)) {
            for sharing in [Sharing::Registered, Sharing::Staged, Sharing::Lasting] {
                match validate_processes(&plan, &ProcessLaunch::new(ranks, node, sharing)) {
                    Ok(()) => validated += 1,
                    Err(Invalid::Plan(Error::OtherNode { .. })) => break,
                    Err(invalid) => wrong.push(format!("{name}, {node} per node, {sharing:?}: {invalid}")),
                }
            }
        }
    }
    println!("{plans} plans, {validated} launches");
    assert!(wrong.is_empty(), "{} of {plans} plans\n{}", wrong.len(), wrong.join("\n"));
    assert!(plans > 100);
}
