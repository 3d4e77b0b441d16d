//! Plans that take dividing counts only: launches with other counts are errors, and selection passes over them.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::{LoadPlan, Plan};
use mscclpp_exec::cpu::Executor;
use mscclpp_exec::verify::Verifier;
use mscclpp_exec::{DataType, Error, Message};
use mscclpp_select::{Algorithm, Outcome, Registry, Rejection, Request};

/// A broadcast of one rank whose chunk 0 passes through chunk 1 of the output.
const STAGED: &str = "plan staged\ncollective broadcast\nranks 1\nchunk_factor 2\nrank 0 (input 2, output 2, scratch 0) {\n  \
    block 0:\n    copy output[1] <- input[0]\n    nop\n    copy output[0] <- output[1]\n    nop\n    \
    copy output[1] <- input[1]\n}\n";

fn restricted() -> Plan {
    let plan = Plan::load(STAGED.as_bytes()).expect("a plan that is right at dividing counts");
    assert!(plan.collective().dividing);
    plan
}

#[test]
fn counts_that_do_not_divide_are_an_error() {
    let (plan, world) = (restricted(), Executor::new(1));
    for count in 0..40 {
        let prepared = world.prepare(&plan, Message::of::<i32>(count));
        // Two chunks of whole 16 bytes.
        if count % 8 == 0 {
            let mut run = prepared.expect("a dividing count");
            let mut buffers = run.buffers().expect("little memory");
            let verifier = Verifier::new(&run, 1);
            verifier.fill(&mut buffers);
            run.launch_buffers(&mut buffers).expect("it ends");
            // Without elements nothing is verified.
            let report = verifier.check(&buffers);
            assert!(report.is_correct() || count == 0 && report.wrong == 0, "{count}");
        } else {
            let error = prepared.expect_err("an error");
            assert!(matches!(error, Error::NotDividing { multiple: 8, .. }), "{count}: {error}");
            assert_eq!(error.code(), Code::IndivisibleCount);
        }
    }
    let mut anyway = plan.tree();
    anyway.collective.dividing = false;
    assert!(world.prepare(&Plan::new(&anyway), Message::of::<i32>(7)).is_ok());
}

#[test]
fn selection_passes_over_restricted_plans_and_says_why() {
    let mut registry = Registry::builtin();
    registry.add(Algorithm::plan(restricted())).expect("a new name");
    let outcome = |bytes| {
        let request = Request::new(CollectiveKind::Broadcast, 1, DataType::F32, bytes);
        let explained = registry.explain(&request);
        let own = explained.candidates.iter().find(|candidate| candidate.name == "staged").expect("it is registered");
        own.outcome.clone()
    };
    assert!(!matches!(outcome(64), Outcome::Rejected(_)));
    let rejected = outcome(60);
    assert_eq!(rejected, Outcome::Rejected(Rejection::NotDividing { multiple: 8, found: 15 }));
    assert!(rejected.to_string().contains("takes dividing counts only: requires a multiple of 8 elements, found 15"));
}
