use mscclpp::prelude::*;

trait Extension {
    fn half(&self) -> usize;
}

impl Extension for Program {
    fn half(&self) -> usize {
        self.num_ranks() / 2
    }
}

#[collective(AllGather, ranks = 2)]
fn uses_a_trait(p: &Program) {
    p.rank(p.half());
}

#[collective(AllGather, ranks = 2)]
fn mixes_types(p: &Program) {
    let a: u32 = 1;
    p.rank(a);
}

#[collective(AllGather, ranks = 2)]
fn misses_names(p: &Program) {
    let peers: Vec<usize> = p.ranks().map(|rank| rank.nothing()).collect();
    p.rank(peers.first());
}

fn main() {}
