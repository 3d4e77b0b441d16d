//! Switch all-gather: 1 multicast step, 1/P of the output sent per rank, no scratch. Needs multicast hardware.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BufferKind;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank stores its chunk once, and the switch delivers it to all ranks.
///
/// In place or not, any number of ranks in one switch domain. For large messages: 8 instances of 256 threads saturate 64 ranks.
#[collective(AllGather, ranks = [2, 4, 8], in_place, instances = 8, threads_per_block = 256, crate = mscclpp_core)]
pub fn allgather_switch(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Output);
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed();
        let own = rank.output().chunk(rank.id());
        let mine = if p.in_place() { own.to_any() } else { rank.input().chunk(0).to_any() };
        switch.at(rank).broadcast(rank.id(), mine, 0);
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_switch::algorithm, include_str!("switch.rs"), |p, _| allgather_switch(p))
        .multicast();
