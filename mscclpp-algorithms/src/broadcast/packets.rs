//! Broadcast with packets: 1 step, 2(P-1) times the message sent by the root, P chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// The root sends the whole message to every rank as packets, as soon as the rank has unpacked the previous ones.
///
/// In place or not, two ranks or more, any root, one thread block. For small messages.
#[collective(Broadcast, ranks = [2, 4, 8], protocol = LL, crate = mscclpp_core)]
pub fn broadcast_packets(p: &Program) {
    let ranks = p.num_ranks();
    let root = p.rank(p.root());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks().filter(|rank| rank.id() != root.id()) {
        rank.memory_channel(root).signal(0).relaxed();
        let result = if p.in_place() { rank.input().chunk(..).to_any() } else { rank.output().chunk(..).to_any() };
        rank.unpack_packets(result, scratch[rank.id()].chunk(..), 0);
    }
    let input = root.input().chunk(..);
    for step in 1..ranks {
        let peer = p.rank((root.id() + step) % ranks);
        let channel = root.memory_channel(peer);
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put_packets(scratch[peer.id()].chunk(..), input, 0);
    }
    if !p.in_place() {
        root.copy(root.output().chunk(..), input, 0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(broadcast_packets::algorithm, include_str!("packets.rs"), |p, _| broadcast_packets(p));
