//! Two instances need to be told apart.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2, instances = 2, replication = none)]
fn instances(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
    }
}

fn main() {}
