//! Switch all-reduce: 1 multicast step, 1/P of the message read and as much sent per rank, no scratch. Needs multicast
//! hardware.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::{BlockSync, BufferKind};
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// The switch reduces each rank's part over all ranks and delivers the result to all of them.
///
/// In place, any number of ranks in one switch domain. For large messages.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, crate = mscclpp_core)]
pub fn allreduce_switch(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    for rank in p.ranks() {
        let others = p.ranks().filter(|peer| peer.id() != rank.id());
        let channels: Vec<_> = others.map(|peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        let mine = rank.input().chunk(rank.id());
        switch.at(rank).reduce(mine, rank.id(), 0);
        switch.at(rank).broadcast(rank.id(), mine, 0);
        for channel in &channels {
            channel.signal(0).sync(BlockSync::Before);
        }
        for channel in &channels {
            channel.wait(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_switch::algorithm, include_str!("switch.rs"), |p, _| allreduce_switch(p))
        .placed(BufferMode::InPlace)
        .multicast();
