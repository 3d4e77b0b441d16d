//! A signal for every window, a wait for all of them.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn windows(p: &Program) {
    let (a, b) = (p.rank(0).memory_channel(1), p.rank(1).memory_channel(0));
    p.pipeline(1 << 20, 2, || {
        a.signal(0);
    });
    b.wait(0);
}

fn main() {}
