//! Switch all-reduce: 1 multicast step, 1/P of the message read and as much sent per rank, no scratch. Needs multicast
//! hardware.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BufferKind;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// The switch reduces each rank's part over all ranks and delivers the result to all of them.
///
/// In place, any number of ranks in one switch domain. For large messages.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, crate = mscclpp_core)]
pub fn allreduce_switch(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed();
        let mine = rank.input().chunk(rank.id());
        switch.at(rank).reduce(mine, rank.id(), 0);
        switch.at(rank).broadcast(rank.id(), mine, 0);
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_switch::algorithm, include_str!("switch.rs"), |p, _| allreduce_switch(p))
        .with_buffer_mode(BufferMode::InPlace)
        .multicast();
