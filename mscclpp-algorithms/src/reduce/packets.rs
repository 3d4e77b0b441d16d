//! Reduce with packets: 1 step, twice the message sent per rank, P(P-1) chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank sends its whole input to the root as packets, as soon as the root has reduced the previous ones.
///
/// In place or not, two ranks or more, any root, one thread block. The inputs of ranks other than the root are
/// preserved. For small messages.
#[collective(Reduce, ranks = [2, 4, 8], protocol = LL, crate = mscclpp_core)]
pub fn reduce_packets(p: &Program) {
    let ranks = p.num_ranks();
    let root = p.rank(p.root());
    let slots = root.scratch(ranks * (ranks - 1));
    let peers: Vec<_> = (1..ranks).map(|step| p.rank((root.id() + step) % ranks)).collect();
    for &peer in &peers {
        root.memory_channel(peer).signal(0).relaxed();
    }
    let mut arrived = Vec::new();
    for (index, &peer) in peers.iter().enumerate() {
        let slot = slots.chunk(index * ranks..(index + 1) * ranks);
        let channel = peer.memory_channel(root);
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put_packets(slot, peer.input().chunk(..), 0);
        arrived.push(slot);
    }
    let input = root.input().chunk(..);
    let result = if p.in_place() { input.to_any() } else { root.output().chunk(..).to_any() };
    root.reduce_packets(input, arrived, 0).to(result);
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reduce_packets::algorithm, include_str!("packets.rs"), |p, _| reduce_packets(p));
