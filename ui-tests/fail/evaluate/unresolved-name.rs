use mscclpp::prelude::*;

const STEPS: usize = 2;

fn next(id: usize) -> usize {
    (id + 1) % STEPS
}

struct Peer {
    id: usize,
}

#[collective(AllGather, ranks = 2)]
fn reads_a_constant(p: &Program) {
    for step in 0..STEPS {
        p.rank(next(step));
    }
    let peer: Option<Peer> = None;
    assert!(peer.is_none() || std::env::var("RANKS").is_ok());
}

#[collective(AllGather, ranks = 2)]
fn matches_a_constant(p: &Program) {
    match p.num_ranks() {
        STEPS => {}
        _ => panic!("only for two"),
    }
}

fn main() {
    let _ = Peer { id: 0 }.id;
}
