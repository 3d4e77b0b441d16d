//! A method that rustc knows and the evaluator does not.
use mscclpp::prelude::*;

trait Twice {
    fn twice(self) -> usize;
}

impl Twice for usize {
    fn twice(self) -> usize {
        2 * self
    }
}

#[collective(AllReduce, ranks = 2)]
fn extended(p: &Program) {
    p.rank(0).barrier(0..p.num_ranks().twice());
}

fn main() {}
