//! A collective that is an associated function.
use mscclpp::prelude::*;

struct Ring;

impl Ring {
    const CHUNKS: usize = 1;

    #[collective(AllGather, ranks = 2)]
    fn gather(p: &Program) {
        p.rank(Self::CHUNKS);
    }
}

fn main() {}
