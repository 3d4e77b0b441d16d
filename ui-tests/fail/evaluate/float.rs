//! Programs count; they do not measure.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn half(p: &Program) {
    let blocks = (p.num_ranks() as f64 * 0.5) as usize;
    p.rank(0).barrier(0..blocks);
}

fn main() {}
