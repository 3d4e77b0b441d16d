use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4)]
fn indexes(p: &Program) {
    let channels: Vec<_> = p.ranks().skip(1).map(|peer| p.rank(0).memory_channel(peer)).collect();
    for step in 0..p.num_ranks() {
        channels[step].signal(0);
    }
}

fn main() {}
