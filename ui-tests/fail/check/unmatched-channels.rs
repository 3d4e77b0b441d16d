//! As many waits as signals, but on different channels.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn crossed(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    let to_b = [a.memory_channel(b), a.memory_channel(b)];
    let to_a = [b.memory_channel(a), b.memory_channel(a)];
    to_b[0].signal(0);
    to_a[1].wait(0);
}

fn main() {}
