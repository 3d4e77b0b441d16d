//! A switch channel is made over several ranks.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    p.switch_channel(8, BufferKind::Input);
}

fn main() {}
