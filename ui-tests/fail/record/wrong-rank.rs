//! Source and destination of a put are swapped.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn swapped(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.memory_channel(b).put(a.output().chunk(0), b.input().chunk(0), 0);
}

fn main() {}
