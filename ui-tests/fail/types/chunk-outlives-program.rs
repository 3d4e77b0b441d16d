//! A chunk means nothing without its program.
use mscclpp::prelude::*;

pub fn f() -> Chunk<'static, Input> {
    let p = Program::new(AlgoSpec::new("t", CollectiveKind::AllReduce, 2));
    p.rank(0).input().chunk(0)
}

fn main() {}
