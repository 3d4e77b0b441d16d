//! A list without what is looked for.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn find(p: &Program) {
    let last = p.ranks().find(|rank| rank.id() == 2).unwrap();
    last.barrier([0, 1]);
}

fn main() {}
