//! All rules together, on random plans.

use proptest::prelude::*;
use proptest::sample::select;

use super::limits::{DeviceProfile, check_limits};
use super::run::verdict;
use super::{Checks, Level, Pairs, check, pairing, reference};
use crate::arbitrary::tree;
use crate::testing::{plan, trace};
use mscclpp_core::lower::lower;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::Code;

/// Operations that are valid with the tables of [`plan`], over few chunks so that they conflict.
const POOL: &[&str] = &[
    "nop",
    "copy i0 > s0",
    "copy s0+2 > o0+2",
    "copy/0:2 o1 > s1",
    "copy/2:3 i1 > s1",
    "put.m i0 > r0:0",
    "put.m/1:2 s1 > r0:0",
    "put.p#0,1 i0 s1 > r0:0 r1:1",
    "pws.p#0 i0 > r0:0",
    "pwsf.p#1 s0 > r0:1",
    "get.m#0 r0:0 > s1",
    "re i0 s0 s1 > o0",
    "res.m i0 s0 > i0 r2:0",
    "rres.m i0 r1:0 > i0 r2:0",
    "glre.w w0:0 > s0",
    "glres.w w0:0 > w0:1",
    "gstore.w s0 > w3:1",
    "cpkt i0 > s0",
    "upkt s1 > o1",
    "ppkt.m i0+2 > r0:0+2",
    "ppkt.p#0 s0 > r0:1",
    "rppkt.p#0,1 s0 > r0:0 r0:1",
    "repkt i0 s0 s1 > i0",
    "recspkt.m i0 s0 > i0 s1 r0:1",
    "gstorepkt.w s0 > w0:1",
    "signal.m#0",
    "rlxsignal.m#0,1",
    "wait.m#0",
    "rlxwait.m#1",
    "signal.p#0",
    "wait.p#0",
    "flush.p#0",
    "sem_acquire#0",
    "sem_release#0,1",
    "loop 64x1 { copy i0 > s0; sem_release#0 }",
    "loop 96x1 { sem_acquire#0; get.m#0 r0:0 > o0; wait.m#0 }",
    "loop 64x2 { copy s0+2 > o0+2; signal.m#0; nop }",
];

fn block(pool: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(select(pool), 0..10).prop_map(|ops| ops.join("; "))
}

/// Which of two waits receives a signal may be allowed; a race elsewhere is not.
#[test]
fn allowed_competing_waits_hide_no_race() {
    let receiver: &[&str] = &["wait.m#0", "wait.m#0", "copy i0 > o0", "copy i1 > o0"];
    let both = plan(&[receiver, &["signal.m#0; signal.m#0"]]);
    let codes = |allow: Vec<Code>| {
        let found = Checks { level: Level::Full, allow }.run(&both);
        found.iter().map(|finding| finding.code).collect::<Vec<_>>()
    };
    let competing = codes(Vec::new());
    assert!(!competing.is_empty() && !competing.contains(&Code::Race), "{competing:?}");
    assert!(codes(competing).contains(&Code::Race));
}

/// Data operations of one block that run to their end once all packets have been written.
const DATA: &[&str] = &[
    "copy i0 > s0",
    "copy i0+2 > s0+2",
    "copy s1 > o1",
    "copy/0:2 o0 > i1",
    "copy o1+2 > i1+2",
    "put.m#0 i1 > r2:0",
    "put.m#0 s0+2 > r2:0+2",
    "ppkt.m#0 i0 > r0:0",
    "ppkt.m#0 s1 > r0:1",
    "get.m#0 r1:5 > i0",
    "get.m#0 r1:4+2 > s0+2",
    "re i0 s0 > i0",
    "re i0+2 o0+2 > i0+2",
    "re/1:2 s0 i1 > o1",
    "rre.m#0 o0 r1:6 > o0",
    "cpkt i0 > s0",
    "cpkt/0:2 o1 > s1",
    "upkt s0 > o0",
    "upkt s0+2 > i0+2",
    "repkt i1 s1 > i1",
    "repkt i0 s0 s1 > o1",
    "glre.w#0 w0:0 > o0",
    "gstore.w#0 i1 > w0:1",
    "gstore.w#0 s0 > w0:0",
    "glres.w#0 w0:0+2 > w0:0+2",
    "loop 64x1 { copy i0 > s0; copy s0 > o1 }",
    "loop 64x2 { re i0+2 s0+2 > i0+2 }",
    "wait.m#3",
    "signal.m#3@both",
];

proptest! {
    #[test]
    fn no_plan_is_too_strange(tree in tree()) {
        let _ = check(&tree);
        let _ = check_limits(&tree, &DeviceProfile::REFERENCE);
        let _ = reference::faults(&tree);
        let _ = Checks { level: Level::Full, allow: Code::all().map(|(code, _)| code).collect() }.run(&tree);
    }

    #[test]
    fn every_sound_plan_runs_to_a_verdict(blocks in prop::collection::vec(block(POOL), 4)) {
        let plan = plan(&[&[&blocks[0], &blocks[1]], &[&blocks[2], &blocks[3]]]);
        prop_assert!(super::shape::check((&plan).into()).is_empty());
        let pairs = Pairs::of(&plan);
        let _ = pairing::check((&plan).into(), &pairs);
        verdict(&plan);
    }

    /// The checks share nothing with lowering: they find what automatic block syncs leave unordered within a block.
    #[test]
    fn automatic_syncs_leave_no_race_in_a_block(
        ops in block(DATA),
        (in_place, fuse) in (any::<bool>(), any::<bool>()),
    ) {
        let mut trace = trace(&[&[&ops], &["ppkt.m#0 i0+8 > r0:0+8"]]);
        trace.spec.collective.kind = CollectiveKind::AllReduce;
        trace.spec.collective.chunk_factor = 4;
        trace.spec.collective.in_place = in_place;
        trace.spec.fuse = fuse;
        let plan = lower(&trace).expect("the trace is sound");
        let (_, races) = verdict(&plan).of_order();
        // Nothing in a block can order its accesses to another rank's buffers.
        let own = |message: &str| {
            // Nor does a block sync determine which of two packets at one address a reader receives.
            let slot_written_twice = message.contains("reads the packets of");
            let of_one_block = message.matches("(rank 0, thread block 0)").count() == 2;
            of_one_block && message.contains("of rank 0, and") && !slot_written_twice
        };
        let own: Vec<_> = races.iter().map(|race| &race.message).filter(|message| own(message)).collect();
        prop_assert!(own.is_empty(), "{ops}\n{}\n{own:?}", crate::testing::text(&plan.ranks[0].blocks[0].ops));
    }
}
