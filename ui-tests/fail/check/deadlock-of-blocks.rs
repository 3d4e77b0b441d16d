//! Two thread blocks wait for each other's release.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn blocks(p: &Program) {
    for rank in p.ranks() {
        let (first, second) = (rank.semaphore(0), rank.semaphore(0));
        first.acquire(0);
        second.release(0);
        second.acquire(1);
        first.release(1);
    }
}

fn main() {}
