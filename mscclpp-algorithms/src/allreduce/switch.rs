//! Switch all-reduce: 1 multicast step, 1/P of the message read and as much sent per rank, no scratch. Needs multicast
//! hardware.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BufferKind;
use mscclpp_macros::collective;

use crate::builtin::{BuiltinAlgorithm, OrderScope};

/// The switch reduces each rank's part over all ranks and delivers the result to all of them.
///
/// In place or not, any number of ranks in one switch domain. For large messages. The order in which a switch sums floats
/// is unspecified; all ranks get the same result.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, crate = mscclpp_core)]
pub fn allreduce_switch(p: &Program) {
    let inputs = p.switch_channel(p.ranks(), BufferKind::Input);
    let outputs = if p.in_place() { inputs } else { p.switch_channel(p.ranks(), BufferKind::Output) };
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed();
        let (id, input) = (rank.id(), rank.input());
        let mine = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(id).to_any() };
        inputs.at(rank).reduce(mine, id, 0);
        outputs.at(rank).broadcast(id, mine, 0);
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_switch::algorithm, include_str!("switch.rs"), |p, _| allreduce_switch(p))
        .multicast()
        .in_order(OrderScope::Launches);
