//! A loop that never ends.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn forever(p: &Program) {
    let mut step = 0;
    while step < p.num_ranks() {
        step *= 2;
    }
}

fn main() {}
