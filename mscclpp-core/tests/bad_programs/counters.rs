//! 9: counters that do not come back to where they began.

use mscclpp_core::collective::CollectiveKind::AllReduce;

use super::{plan, refused, spec};

#[test]
fn a_semaphore_released_twice() {
    let plan = plan(spec(AllReduce, 2), |p| {
        for rank in p.ranks() {
            let semaphore = rank.semaphore(0);
            semaphore.release(0);
            semaphore.release(0);
            semaphore.acquire(1);
        }
    });
    refused(&plan, "unbalanced-semaphore", &["semaphore 0 of rank 1 is released twice, but is acquired once"]);
}

#[test]
fn a_signal_in_a_loop_and_the_wait_outside() {
    let plan = plan(spec(AllReduce, 2), |p| {
        let (a, b) = (p.rank(0).memory_channel(1), p.rank(1).memory_channel(0));
        p.pipeline(1024, 1, || a.signal(0));
        b.wait(0);
    });
    let words = [
        "rank 1 waits once",
        "rank 0 signals once per iteration of a loop of 1024 bytes over 1 chunk",
        "for chunks of 2048 bytes these are 2 signals and 1 wait",
    ];
    refused(&plan, "unmatched-wait", &words);
}

#[test]
fn loops_of_different_units() {
    let plan = plan(spec(AllReduce, 2), |p| {
        let (a, b) = (p.rank(0).memory_channel(1), p.rank(1).memory_channel(0));
        p.pipeline(1024, 1, || a.signal(0));
        p.pipeline(2048, 1, || b.wait(0));
    });
    let words =
        ["a loop of 2048 bytes", "a loop of 1024 bytes", "for chunks of 2048 bytes these are 2 signals and 1 wait"];
    refused(&plan, "unmatched-wait", &words);
}
