//! Two expectations of one output chunk that cannot both hold.
use mscclpp::prelude::*;

#[collective(Custom(input = 2, output = 2), ranks = 2)]
fn keep(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(0..2), rank.input().chunk(0..2), 0);
        p.expect(rank.output().chunk(0..2), rank.input().chunk(0..2));
        p.expect(rank.output().chunk(1), rank.input().chunk(0));
    }
}

fn main() {}
