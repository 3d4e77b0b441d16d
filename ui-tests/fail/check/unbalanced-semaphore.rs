//! Every launch leaves one unit more in the semaphore.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn one_more(p: &Program) {
    for rank in p.ranks() {
        let semaphore = rank.semaphore(0);
        semaphore.release(0);
        semaphore.release(0);
        semaphore.acquire(1);
    }
}

fn main() {}
