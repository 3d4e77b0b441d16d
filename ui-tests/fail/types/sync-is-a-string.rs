//! Early programs wrote `sync="before"`.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    p.rank(0).memory_channel(1).signal(0).sync("before");
}

fn main() {}
