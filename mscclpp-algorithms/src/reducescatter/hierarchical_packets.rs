//! Hierarchical reduce-scatter with packets: 2 steps, 2(G-1)/G of the input sent within the node and 2(N-1)/P between
//! nodes per rank (N nodes of G ranks), P + N - 2 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank collects from the ranks of its node the chunks of itself and of its counterparts on other nodes, reduces
/// the latter and sends the sums to the counterparts, then reduces its own chunk.
///
/// In place, two nodes or more, one thread block. Without handshakes, so it needs double scratch. For small messages.
#[collective(
    ReduceScatter, ranks = 16, ranks_per_node = 8, in_place, protocol = LL, double_scratch, crate = mscclpp_core
)]
pub fn reducescatter_hierarchical_packets(p: &Program) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    let (peers, partners) = (per_node - 1, nodes - 1);
    // Index of `other` among the ranks, or nodes, other than `id`.
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };
    // Slots of scratch: for this rank from its peers (its own slot is free), for each partner from the peers, from the
    // partners, and space to pack the data for the second partner and those after it; the first uses the free slot.
    let (for_partners, from_partners) = (per_node, per_node + partners * peers);
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks + partners - 1)).collect();

    for rank in p.ranks() {
        let (id, local, input) = (rank.id(), rank.local_id(), rank.input());
        let slots = scratch[id];
        let on_node: Vec<_> = p.ranks().filter(|peer| peer.node() == rank.node() && peer.id() != id).collect();
        // Counterparts on the other nodes, the next node's first.
        let across: Vec<_> = (1..nodes).map(|step| p.rank((id + step * per_node) % ranks)).collect();
        let memory: Vec<_> = on_node.iter().map(|&peer| rank.memory_channel(peer)).collect();
        let port: Vec<_> = across.iter().map(|&partner| rank.port_channel(partner)).collect();

        for (channel, peer) in memory.iter().zip(&on_node) {
            let theirs = scratch[peer.id()];
            channel.put_packets(theirs.chunk(local), input.chunk(peer.id()), 0);
            for (step, partner) in across.iter().enumerate() {
                let slot = for_partners + step * peers + position(local, peer.local_id());
                let target = partner.node() * per_node + peer.local_id();
                channel.put_packets(theirs.chunk(slot), input.chunk(target), 0);
            }
        }

        for (step, partner) in across.iter().enumerate() {
            let theirs = input.chunk(partner.id());
            let arrived: Vec<_> = (0..peers).map(|i| slots.chunk(for_partners + step * peers + i)).collect();
            if peers > 0 {
                rank.reduce_packets(theirs, arrived, 0);
            }
            let packed = if step == 0 { slots.chunk(local) } else { slots.chunk(ranks + step - 1) };
            rank.copy_packets(packed, theirs, 0);
            // Data of the next node arrives in the last of these slots, as the nodes are counted backwards there.
            let slot = from_partners + partners - 1 - step;
            port[step].read_put_packets(scratch[partner.id()].chunk(slot), packed, 0);
        }

        let from_across = (0..partners).map(|i| slots.chunk(from_partners + i));
        let from_node = on_node.iter().map(|peer| slots.chunk(peer.local_id()));
        let arrived: Vec<_> = from_across.chain(from_node).collect();
        rank.reduce_packets(input.chunk(id), arrived, 0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm = BuiltinAlgorithm::new(
    reducescatter_hierarchical_packets::algorithm,
    include_str!("hierarchical_packets.rs"),
    |p, _| reducescatter_hierarchical_packets(p),
)
.with_buffer_mode(BufferMode::InPlace)
.nodes(2, u32::MAX, 1);
