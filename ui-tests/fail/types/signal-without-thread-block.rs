//! A signal says which thread block gives it.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    p.rank(0).memory_channel(1).signal();
}

fn main() {}
