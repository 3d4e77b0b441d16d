//! Only a port channel can queue a signal behind a put.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.memory_channel(b).put_with_signal(b.output().chunk(0), a.input().chunk(0), 0);
}

fn main() {}
