//! A copy stays on its rank.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn across(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.copy(b.output().chunk(0), a.input().chunk(0), 0);
}

fn main() {}
