//! A collective that is a method.
use mscclpp::prelude::*;

struct Ring;

impl Ring {
    #[collective(AllGather, ranks = 2)]
    fn gather(&self, p: &Program) {
        for rank in p.ranks() {
            rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        }
    }
}

fn main() {}
