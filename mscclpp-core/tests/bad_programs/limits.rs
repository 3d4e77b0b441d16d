//! 10b: what is too much for the reference system's executor. It has no check of its own and overwrites its memory; ours has
//! room for any number, so these plans are right until they are exported.

use mscclpp_core::check::limits::{DeviceProfile, check_limits};
use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce};
use mscclpp_core::export::for_reference;
use mscclpp_core::plan::raw::{OpKind, PlanTree};
use mscclpp_core::types::BlockSync;

use super::{accepted, in_place, operation, plan, say, spec};

const REFERENCE: DeviceProfile = DeviceProfile::REFERENCE;

/// All-gather of 16 ranks in one thread block: 15 signals, waits and puts behind each other become one operation each.
fn all_pairs() -> PlanTree {
    plan(in_place(AllGather, 16), |p| {
        for rank in p.ranks() {
            let peers: Vec<_> = p.ranks().filter(|peer| peer.id() != rank.id()).collect();
            let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
            channels.iter().for_each(|channel| _ = channel.signal(0).relaxed());
            channels.iter().for_each(|channel| _ = channel.wait(0).relaxed().sync(BlockSync::After));
            for (channel, peer) in channels.iter().zip(&peers) {
                channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
            }
            channels.iter().for_each(|channel| _ = channel.signal(0).sync(BlockSync::Before));
            channels.iter().for_each(|channel| _ = channel.wait(0).sync(BlockSync::After));
        }
    })
}

#[test]
fn fifteen_signals_and_puts() {
    let plan = all_pairs();
    accepted(&plan);
    let found = check_limits(&plan, &REFERENCE);
    let signals =
        ["the relaxed `signal` (rank 0, thread block 0) has 15 channels", "the limit of the reference executor is 8"];
    say(&found, "over-limit", &signals);
    say(
        &found,
        "over-limit",
        &["`put` (rank 0, thread block 0) has 15 destinations", "the limit of the reference executor is 10"],
    );
    let mut split = for_reference(&plan).expect("what is too long is split");
    assert_eq!(check_limits(&split, &REFERENCE), Default::default());
    assert_eq!(operation(&mut split, |op| op.kind == OpKind::Put).dsts.len(), 8);
    accepted(&split);
}

#[test]
fn a_hundred_and_twenty_seven_operations() {
    // Two semaphores in turns, so that no two operations become one.
    let plan = plan(spec(AllReduce, 2), |p| {
        let semaphores = [p.rank(0).semaphore(0), p.rank(0).semaphore(0)];
        for i in 0..127 {
            let semaphore = semaphores[i / 2 % 2];
            _ = if i % 2 == 0 { semaphore.release(0) } else { semaphore.acquire(0) }.sync(BlockSync::None);
        }
    });
    let found = for_reference(&plan).expect_err("the operations cannot be fewer");
    say(
        &found,
        "over-limit",
        &[
            "thread block 0 of rank 0 has 127 operations",
            "the limit of the reference executor is 64",
            "more thread blocks",
        ],
    );
}

#[test]
fn a_seventeenth_barrier() {
    let plan = plan(spec(AllReduce, 2), |p| {
        for rank in p.ranks() {
            (1..18).for_each(|block| rank.barrier([0, block]));
        }
    });
    let found = for_reference(&plan).expect_err("the barriers cannot be fewer");
    say(
        &found,
        "over-limit",
        &["has 17 barriers on its rank", "the limit of the reference executor is 16", "fewer instances"],
    );
}

#[test]
fn more_thread_blocks_than_run_at_once() {
    let plan = plan(spec(AllReduce, 2), |p| {
        for rank in p.ranks() {
            rank.copy(rank.output().chunk(0), rank.input().chunk(0), 299);
        }
    });
    say(
        &check_limits(&plan, &DeviceProfile::H100),
        "over-limit",
        &["rank 0 has 300 thread blocks, the limit of an H100 is 132"],
    );
}
