//! One build reports them all.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn many(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.copy(a.output().chunk(2), a.input().chunk(0), 0);
    a.copy(a.output().chunk(0..2), a.input().chunk(0), 0);
    a.memory_channel(a);
    b.barrier([0, 0]);
}

fn main() {}
