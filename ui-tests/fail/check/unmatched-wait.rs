//! Both ranks wait, one signals.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn one_sided(p: &Program) {
    let (a, b) = (p.rank(0).memory_channel(1), p.rank(1).memory_channel(0));
    a.signal(0);
    a.wait(0);
    b.wait(0);
}

fn main() {}
