//! A flush orders the read of a put's source. Plans that use it as the arrival of the data are rejected, and fail.

use mscclpp_core::check::check;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::dsl::Program;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::BlockSync;
use mscclpp_fuzz::ScheduleFuzzer;

use super::faults::plan;
use super::runs::seeds;

/// Seeds within which a defect must be found, and with which the fixed program must pass.
const SEEDS: u64 = 100;

/// How a rank signals another one: by a memory channel, or by a port channel.
#[derive(Clone, Copy)]
enum By {
    Memory,
    Port,
}

fn send_signal(p: &Program, from: usize, to: usize, by: By) {
    let (from, to) = (p.rank(from), p.rank(to));
    match by {
        By::Memory => {
            let (out, back) = (from.memory_channel(to), to.memory_channel(from));
            out.signal(0).sync(BlockSync::Before);
            back.wait(0).sync(BlockSync::After);
        }
        By::Port => {
            let (out, back) = (from.port_channel(to), to.port_channel(from));
            out.signal(0).sync(BlockSync::Before);
            back.wait(0).sync(BlockSync::After);
        }
    }
}

/// Rank 0 puts its input into rank 2's output and flushes; the signal reaches rank 2 through other ranks, by the given
/// channels.
fn through_hops(hops: &[(usize, By)], signals: bool) -> PlanTree {
    let spec = AlgoSpec::new("by_way_of", CollectiveKind::Test { input: 1, output: 1 }, 4);
    plan(spec, |p| {
        let [a, c] = [0, 2].map(|rank| p.rank(rank));
        let (ac, ca) = (a.port_channel(c), c.port_channel(a));
        ca.signal(0);
        ac.wait(0).sync(BlockSync::After);
        ac.put(c.output().chunk(0), a.input().chunk(0), 0);
        if signals {
            ac.signal(0);
            ca.wait(0);
        }
        ac.flush(0);
        let mut from = 0;
        for &(to, by) in hops {
            send_signal(p, from, to, by);
            from = to;
        }
        p.expect(c.output().chunk(0), a.input().chunk(0));
    })
}

/// Rank 1 first copies through its scratch, then signals rank 0, which puts there and flushes; rank 1 ends after a
/// signal from rank 0, by the put's channel or by a memory channel.
fn reused_scratch(by: By) -> PlanTree {
    let spec = AlgoSpec::new("reused_scratch", CollectiveKind::Test { input: 1, output: 1 }, 2);
    plan(spec, |p| {
        let [a, b] = [0, 1].map(|rank| p.rank(rank));
        let slot = b.scratch(1).chunk(0);
        let (ab, ba) = (a.port_channel(b), b.port_channel(a));
        b.copy(slot, b.input().chunk(0), 0);
        b.copy(b.output().chunk(0), slot, 0);
        ba.signal(0).sync(BlockSync::Before);
        ab.wait(0).sync(BlockSync::After);
        ab.put(slot, a.input().chunk(0), 0);
        ab.flush(0);
        match by {
            By::Memory => send_signal(p, 0, 1, By::Memory),
            By::Port => {
                ab.signal(0);
                ba.wait(0);
            }
        }
        p.expect(b.output().chunk(0), b.input().chunk(0));
    })
}

#[track_caller]
fn expect_rejection_and_failure(plan: &PlanTree, code: Code) {
    let found = check(plan);
    assert!(found.iter().any(|finding| finding.code == code), "{found}");
    let broken = ScheduleFuzzer::new(plan).find_failure(0..SEEDS).expect("it can be run");
    println!("{broken:?}");
    assert!(broken.is_some(), "the fuzzer does not break it");
}

#[track_caller]
fn expect_pass(plan: &PlanTree) {
    let found = check(plan);
    assert!(found.is_empty(), "{found}");
    assert_eq!(ScheduleFuzzer::new(plan).find_failure(0..seeds(SEEDS)).expect("it can be run"), None);
}

#[test]
fn flushed_put_reported_by_others_fails() {
    for hops in [
        &[(1, By::Memory), (2, By::Port)][..],
        &[(3, By::Port), (2, By::Memory)],
        &[(1, By::Memory), (3, By::Port), (2, By::Memory)],
        &[(2, By::Port)],
        &[(2, By::Memory)],
    ] {
        expect_rejection_and_failure(&through_hops(hops, false), Code::LateAccess);
        expect_pass(&through_hops(hops, true));
    }
}

#[test]
fn flushed_put_that_arrives_in_next_launch_fails() {
    expect_rejection_and_failure(&reused_scratch(By::Memory), Code::CrossLaunchRace);
    expect_pass(&reused_scratch(By::Port));
}
