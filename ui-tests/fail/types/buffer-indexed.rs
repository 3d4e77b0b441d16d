//! Chunks are taken with `chunk`, not with brackets.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let input = p.rank(0).input();
    let _ = input[0..1];
}

fn main() {}
