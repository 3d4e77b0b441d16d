//! Every rank reduces its part over the switch and stores it everywhere; one reads a part that another one stores.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 4, in_place)]
fn parts(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed();
        // Ranks 2 and 3 take the parts of ranks 0 and 1 once more.
        let part = rank.id() % 2;
        let mine = rank.input().chunk(part);
        switch.at(rank).reduce(mine, part, 0);
        switch.at(rank).broadcast(part, mine, 0);
        channels.handshake(0);
    }
}

fn main() {}
