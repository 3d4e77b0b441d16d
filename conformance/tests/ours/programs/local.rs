//! Fragments within one rank: copies, reductions, loops.

use mscclpp_core::dsl::Program;

pub(crate) fn copy(p: &Program) {
    let rank = p.rank(0);
    rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0);
}

pub(crate) fn pipeline(p: &Program) {
    let rank = p.rank(0);
    p.pipeline(1 << 20, 1, || rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0));
}

pub(crate) fn reduce(p: &Program) {
    let rank = p.rank(0);
    rank.reduce(rank.input().chunk(0), rank.input().chunk(1), 0).to(rank.output().chunk(0));
}

pub(crate) fn reduce_twice(p: &Program) {
    let rank = p.rank(0);
    rank.reduce(rank.input().chunk(0), rank.input().chunk(1), 0).to(rank.output().chunk(0));
    rank.reduce(rank.input().chunk(0), rank.input().chunk(2), 0).to(rank.output().chunk(0));
}
