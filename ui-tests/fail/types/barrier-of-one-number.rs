//! A barrier names its thread blocks.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    p.rank(0).barrier(4);
}

fn main() {}
