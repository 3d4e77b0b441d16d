//! Early programs wrote `relaxedSignal`.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    p.rank(0).memory_channel(1).relaxed_signal(0);
}

fn main() {}
