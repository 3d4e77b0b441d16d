//! All-gather over a ring of nodes: N steps, (G-1)/G of the output sent within the node and (N-1)/P between nodes per rank
//! (N nodes of G ranks), P chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm, Param};

/// Chunks travel from node to node around a ring, each rank sends to its counterpart on the next node; in every step
/// the ranks of a node exchange the chunks that have arrived. Forwarding and exchanging overlap.
///
/// Out of place, two nodes or more. Thread block 0 serves the ring; one group of `group` blocks serves each peer of the
/// node, another one copies the rank's own chunks. For large messages.
#[collective(AllGather, ranks = 16, ranks_per_node = 8, params(group = [1]), crate = mscclpp_core)]
pub fn allgather_node_ring(p: &Program, group: usize) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    let groups: Vec<_> = (0..per_node).map(|i| p.thread_block_group(1 + i * group..1 + (i + 1) * group)).collect();
    let blocks = 1 + per_node * group;
    for rank in p.ranks() {
        let (id, input, output) = (rank.id(), rank.input(), rank.output());
        let peers: Vec<_> = p.ranks().filter(|peer| peer.node() == rank.node() && peer.id() != id).collect();
        let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channels((0..group).map(|_| peer))).collect();
        let next = p.rank((id + per_node) % ranks);
        let previous = p.rank((id + ranks - per_node) % ranks);
        let to_next = rank.port_channel(next);
        // With two nodes next and previous are the same rank, and one channel suffices.
        let to_previous = if nodes == 2 { to_next } else { rank.port_channel(previous) };

        for (index, of_peer) in channels.iter().enumerate() {
            for (member, channel) in of_peer.iter().enumerate() {
                channel.handshake(1 + index * group + member).relaxed().sync(BlockSync::After);
            }
        }
        to_previous.signal(0).sync(BlockSync::None);
        to_next.wait(0).sync(BlockSync::After);

        for step in 0..nodes {
            // The chunk that `of` has from `step` nodes back.
            let origin = |of: usize| (of + ranks - per_node * step) % ranks;
            let index = origin(id);
            let mine = if step == 0 { input.chunk(0).to_any() } else { scratch[id].chunk(index).to_any() };
            if step != 0 {
                to_previous.wait(0);
                rank.barrier(0..blocks);
            }
            if step + 1 != nodes {
                to_next.put_with_signal_and_flush(scratch[next.id()].chunk(index), mine, 0);
            }
            for (at, peer) in peers.iter().enumerate() {
                channels[at][0].put(scratch[peer.id()].chunk(index), mine, &groups[at]);
                for (member, channel) in channels[at].iter().enumerate() {
                    channel.handshake(1 + at * group + member).sync(BlockSync::Both);
                }
                let theirs = origin(peer.id());
                rank.copy(output.chunk(theirs), scratch[id].chunk(theirs), &groups[at]);
            }
            rank.copy(output.chunk(index), mine, &groups[per_node - 1]);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_node_ring::algorithm, include_str!("node_ring.rs"), |p, arguments| {
        allgather_node_ring(p, arguments[0])
    })
    .with_buffer_mode(BufferMode::OutOfPlace)
    .nodes(2, u32::MAX, 1)
    .with_params(&[Param { name: "group", values: &[1, 2, 4, 8] }]);
