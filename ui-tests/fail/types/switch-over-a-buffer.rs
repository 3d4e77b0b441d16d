//! A switch channel is made over a kind of buffer.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    p.switch_channel(p.ranks(), p.rank(0).input());
}

fn main() {}
