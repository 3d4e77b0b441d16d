//! Puts of one channel that overtake each other, as engines between nodes may deliver them.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BlockSync, ChannelKind};
use mscclpp_fuzz::ScheduleFuzzer;

use super::faults::plan;
use super::runs::{limit, seeds};
use crate::corpus::{Named, shipped, size};

/// Rank 0 puts two chunks of its input into one chunk of rank 1.
fn overwritten() -> PlanTree {
    let spec = AlgoSpec::new("overwritten", CollectiveKind::Test { input: 2, output: 1 }, 2);
    plan(spec, |p| {
        let [a, b] = [0, 1].map(|rank| p.rank(rank));
        let (ab, ba) = (a.port_channel(b), b.port_channel(a));
        ba.signal(0);
        ab.wait(0).sync(BlockSync::After);
        for chunk in 0..2 {
            ab.put(b.output().chunk(0), a.input().chunk(chunk), 0);
            ab.signal(0);
        }
        ab.flush(0);
        ba.wait(0);
        ba.wait(0);
        p.expect(b.output().chunk(0), a.input().chunk(1));
    })
}

/// Rank 0 puts two chunks into rank 1, which reads the second one when it has waited for the first.
fn read_too_early() -> PlanTree {
    let spec = AlgoSpec::new("read_too_early", CollectiveKind::Test { input: 2, output: 2 }, 2);
    plan(spec, |p| {
        let [a, b] = [0, 1].map(|rank| p.rank(rank));
        let (ab, ba) = (a.port_channel(b), b.port_channel(a));
        ba.signal(0);
        ab.wait(0).sync(BlockSync::After);
        ab.put(b.output().chunk(0), a.input().chunk(0), 0);
        ab.signal(0);
        ab.put(b.output().chunk(1), a.input().chunk(1), 0);
        ab.signal(0);
        ab.flush(0);
        ba.wait(0).sync(BlockSync::After);
        b.copy(b.output().chunk(0), b.output().chunk(1), 0);
        ba.wait(0);
        p.expect(b.output().chunk(0), a.input().chunk(1));
    })
}

#[test]
fn later_put_to_the_same_memory_remains() {
    let plan = overwritten();
    let broken = ScheduleFuzzer::new(&plan).reorders_puts().find_failure(0..seeds(100)).expect("it can be run");
    assert_eq!(broken, None);
}

#[test]
fn put_that_is_read_before_its_signal_gives_wrong_results() {
    let plan = read_too_early();
    let broken = ScheduleFuzzer::new(&plan).reorders_puts().find_failure(0..seeds(100)).expect("it can be run");
    println!("{broken:?}");
    assert!(broken.is_some());
}

/// Built-in algorithms over ports rely on the order of puts and later signals only.
#[test]
fn builtin_algorithms_pass_with_reordered_puts() {
    let mut plans = shipped(&[(2, 1), (3, 1), (4, 2), (4, 1), (6, 2)], 2);
    plans.retain(|named| size(&named.plan) <= limit(300) && has_ports(&named.plan));
    for Named { name, plan } in &plans {
        let broken = ScheduleFuzzer::new(plan).reorders_puts().find_failure(0..seeds(4)).expect("it can be run");
        assert_eq!(broken, None, "{name}");
    }
    println!("{} plans", plans.len());
    assert!(plans.len() > 30);
}

fn has_ports(plan: &PlanTree) -> bool {
    let mut ops = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops);
    ops.any(|op| op.channel == Some(ChannelKind::Port))
}
