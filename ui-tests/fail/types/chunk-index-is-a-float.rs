//! Chunks are counted.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    p.rank(0).input().chunk(0.5);
}

fn main() {}
