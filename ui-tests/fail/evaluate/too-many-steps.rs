use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4)]
fn endless(p: &Program) {
    let mut peer = 0;
    while peer < p.num_ranks() {
        p.rank(peer);
    }
    peer += 1;
    p.rank(peer);
}

#[collective(AllGather, ranks = 4, max_steps = 100)]
fn long(p: &Program) {
    for step in 0..1000 {
        let _ = p.rank(step % 4);
    }
}

fn main() {}
