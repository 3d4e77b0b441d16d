//! Hierarchical all-gather with packets: 3 steps, 2(G-1)/G of the output sent within the node and 2(N-1)/P between nodes
//! per rank (N nodes of G ranks), P + N - 2 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// The ranks of a node exchange their chunks; every rank sends its chunk to its counterparts on all other nodes; the
/// chunks from there are forwarded within the node.
///
/// In place or not, any number of nodes. Every transfer and every unpacking has a separate thread block. Without
/// handshakes, so it needs double scratch. For small messages.
#[collective(
    AllGather, ranks = 16, ranks_per_node = 8, protocol = LL, auto_sync = false, double_scratch, reuse_resources,
    message_size = 1 << 10..=8 << 20, tags = ["default"], crate = mscclpp_core
)]
pub fn allgather_hierarchical_packets(p: &Program) {
    let (per_node, nodes) = (p.ranks_per_node(), p.num_nodes());
    let (peers, partners) = (per_node - 1, nodes - 1);
    // Index of `other` among the ranks, or nodes, other than `id`.
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };

    // Slots of scratch: from peers, from partners, own packets to send, forwarded by peers.
    let (from_partners, packed) = (peers, peers + partners);
    let forwarded = packed + partners;
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(forwarded + peers * partners)).collect();

    // Thread blocks: send to and unpack from peers, send to and unpack from partners, forward, unpack forwarded.
    let unpack_peers = peers;
    let send_partners = unpack_peers + peers;
    let unpack_partners = send_partners + partners;
    let forward = unpack_partners + partners;
    let unpack_forwarded = forward + peers * partners;

    for rank in p.ranks() {
        let (id, output) = (rank.id(), rank.output());
        let slots = scratch[id];
        let on_node: Vec<_> = p.ranks().filter(|peer| peer.node() == rank.node() && peer.id() != id).collect();
        let across: Vec<_> = p.ranks().filter(|peer| peer.local_id() == rank.local_id() && peer.id() != id).collect();
        let memory: Vec<_> = on_node.iter().map(|&peer| rank.memory_channel(peer)).collect();
        let port: Vec<_> = across.iter().map(|&partner| rank.port_channel(partner)).collect();

        let mine = if p.in_place() { output.chunk(id).to_any() } else { rank.input().chunk(0).to_any() };
        if !p.in_place() {
            rank.copy(output.chunk(id), mine, 0);
        }

        for (i, peer) in on_node.iter().enumerate() {
            let slot = position(rank.local_id(), peer.local_id());
            memory[i].put_packets(scratch[peer.id()].chunk(slot), mine, i);
        }
        for (i, peer) in on_node.iter().enumerate() {
            rank.unpack_packets(output.chunk(peer.id()), slots.chunk(i), unpack_peers + i);
        }

        for (i, partner) in across.iter().enumerate() {
            let own = slots.chunk(packed + i);
            rank.copy_packets(own, mine, send_partners + i);
            let slot = from_partners + position(rank.node(), partner.node());
            port[i].read_put_packets(scratch[partner.id()].chunk(slot), own, send_partners + i);
        }
        for (i, partner) in across.iter().enumerate() {
            rank.unpack_packets(output.chunk(partner.id()), slots.chunk(from_partners + i), unpack_partners + i);
        }

        for i in 0..partners {
            for (j, peer) in on_node.iter().enumerate() {
                let slot = forwarded + peers * i + position(rank.local_id(), peer.local_id());
                let block = forward + peers * i + j;
                memory[j].read_put_packets(scratch[peer.id()].chunk(slot), slots.chunk(from_partners + i), block);
            }
        }
        for (i, partner) in across.iter().enumerate() {
            for (j, peer) in on_node.iter().enumerate() {
                let source = partner.node() * per_node + peer.local_id();
                let k = peers * i + j;
                rank.unpack_packets(output.chunk(source), slots.chunk(forwarded + k), unpack_forwarded + k);
            }
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm = BuiltinAlgorithm::new(
    allgather_hierarchical_packets::algorithm,
    include_str!("hierarchical_packets.rs"),
    |p, _| allgather_hierarchical_packets(p),
)
.nodes(1, u32::MAX, 1)
.blocks_per_peer(2);
