//! The switch connects the first two ranks; the third one uses it.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 3)]
fn outsider(p: &Program) {
    let switch = p.switch_channel([0, 1], BufferKind::Input);
    for rank in p.ranks() {
        switch.at(rank).reduce(rank.output().chunk(0), 0, 0);
    }
}

fn main() {}
