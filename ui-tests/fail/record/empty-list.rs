//! With 2 ranks there is no third one to reduce with.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn others(p: &Program) {
    for rank in p.ranks() {
        let scratch = rank.scratch(2);
        let others: Vec<_> = (2..p.num_ranks()).map(|i| scratch.chunk(i)).collect();
        rank.reduce(rank.input().chunk(0), others, 0);
    }
}

fn main() {}
