//! Settings that do not fit each other.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 4, buffer_alignment = 24, ranks_per_node = 3)]
fn settings(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
    }
}

fn main() {}
