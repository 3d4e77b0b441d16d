//! Switch all-gather: 1 multicast step, 1/P of the output sent per rank, no scratch. Needs multicast hardware.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::{BlockSync, BufferKind};
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank stores its chunk once, and the switch delivers it to all ranks.
///
/// In place, any number of ranks in one switch domain. For large messages: 8 instances of 256 threads saturate 64 ranks.
#[collective(AllGather, ranks = [2, 4, 8], in_place, instances = 8, threads_per_block = 256, crate = mscclpp_core)]
pub fn allgather_switch(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Output);
    for rank in p.ranks() {
        let others = p.ranks().filter(|peer| peer.id() != rank.id());
        let channels: Vec<_> = others.map(|peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        let mine = rank.output().chunk(rank.id());
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
    BuiltinAlgorithm::new(allgather_switch::algorithm, include_str!("switch.rs"), |p, _| allgather_switch(p))
        .placed(BufferMode::InPlace)
        .multicast();
