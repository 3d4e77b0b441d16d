//! Switch reduce-scatter: 1 multicast step, 1/P of the input read per rank, no scratch. Needs multicast hardware.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BufferKind;
use mscclpp_macros::collective;

use crate::builtin::{BuiltinAlgorithm, OrderScope};

/// The switch reduces each rank's part over all ranks and delivers the result to the rank.
///
/// In place or not, any number of ranks in one switch domain. For large messages. The order in which a switch sums floats
/// is unspecified.
#[collective(ReduceScatter, ranks = [2, 4, 8], instances = 8, crate = mscclpp_core)]
pub fn reducescatter_switch(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed();
        let (id, input) = (rank.id(), rank.input());
        let result = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        switch.at(rank).reduce(result, id, 0);
        // The inputs have been read and may be overwritten.
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_switch::algorithm, include_str!("switch.rs"), |p, _| reducescatter_switch(p))
        .multicast()
        .in_order(OrderScope::Launches);
