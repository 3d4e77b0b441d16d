//! A rank acts on a switch channel.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    switch.reduce(p.rank(0).output().chunk(0), 0, 0);
}

fn main() {}
