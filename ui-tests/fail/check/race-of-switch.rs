//! Every rank reduces its part over the switch and stores it everywhere; one reads a part that another one stores.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 4, in_place)]
fn parts(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    for rank in p.ranks() {
        let channels: Vec<_> =
            p.ranks().filter(|peer| peer.id() != rank.id()).map(|peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        // Ranks 2 and 3 take the parts of ranks 0 and 1 once more.
        let part = rank.id() % 2;
        let mine = rank.input().chunk(part);
        switch.at(rank).reduce(mine, part, 0);
        switch.at(rank).broadcast(part, mine, 0);
        for channel in &channels {
            channel.signal(0).sync(BlockSync::Before);
        }
        for channel in &channels {
            channel.wait(0);
        }
    }
}

fn main() {}
