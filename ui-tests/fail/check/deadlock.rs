//! Both ranks wait for each other before they signal.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn after_you(p: &Program) {
    for rank in p.ranks() {
        let channel = rank.memory_channel(1 - rank.id());
        channel.wait(0);
        channel.signal(0);
    }
}

fn main() {}
