//! Hierarchical all-reduce with packets: 3 steps, 4(G-1)/G of the message sent within the node and 2(N-1)/G between nodes
//! per rank (N nodes of G ranks), 2P + N² chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::OrderScope;
use crate::builtin::{BuiltinAlgorithm, Param};

/// The ranks of a node reduce their parts over the node; every rank exchanges its part with its counterparts on all other
/// nodes and reduces it over the nodes; the ranks of a node exchange the results.
///
/// In place or not, two nodes or more of two ranks or more. Thread block 0 sends between nodes; a group of `group` blocks serves
/// each peer, and all of them reduce together. Without handshakes, so it needs double scratch. Each node adds its own sum
/// last, so floating-point results may differ between nodes in the last bit. For small messages.
#[collective(
    AllReduce, ranks = 16, ranks_per_node = 8, in_place, params(group = [1]), protocol = LL, auto_sync = false,
    double_scratch, reuse_resources, crate = mscclpp_core
)]
pub fn allreduce_hierarchical_packets(p: &Program, group: usize) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    // One part per rank of the node, with one chunk per node.
    let part = |index: usize| index * nodes..(index + 1) * nodes;
    // Slots of scratch: one part from each peer, one from each node, one result from each peer.
    let (from_nodes, results) = (per_node, per_node + nodes);
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2 * ranks + nodes * nodes)).collect();
    let blocks = 1 + (per_node - 1) * group;
    let everyone = p.thread_block_group(1..blocks);
    let groups: Vec<_> = (0..per_node - 1).map(|i| p.thread_block_group(1 + i * group..1 + (i + 1) * group)).collect();

    for rank in p.ranks() {
        let (id, local) = (rank.id(), rank.local_id());
        let slots = scratch[id];
        let on_node: Vec<_> = p.ranks().filter(|peer| peer.node() == rank.node() && peer.id() != id).collect();
        let across: Vec<_> = p.ranks().filter(|peer| peer.local_id() == local && peer.id() != id).collect();
        let memory: Vec<_> = on_node.iter().map(|&peer| rank.memory_channel(peer)).collect();
        let port: Vec<_> = across.iter().map(|&partner| rank.port_channel(partner)).collect();
        let result_of = |index: usize| {
            if p.in_place() {
                rank.input().chunk(part(index)).to_any()
            } else {
                rank.output().chunk(part(index)).to_any()
            }
        };
        let mine = result_of(local);

        for (i, peer) in on_node.iter().enumerate() {
            let theirs = rank.input().chunk(part(peer.local_id()));
            memory[i].put_packets(scratch[peer.id()].chunk(part(local)), theirs, &groups[i]);
        }
        let arrived: Vec<_> = on_node.iter().map(|peer| slots.chunk(part(peer.local_id()))).collect();
        rank.reduce_packets(rank.input().chunk(part(local)), arrived, &everyone).to(mine);
        // The slot that a rank would fill for itself holds its result as packets.
        let reduced = slots.chunk(part(local));
        rank.copy_packets(reduced, mine, &everyone);
        rank.barrier(0..blocks);

        for (i, partner) in across.iter().enumerate() {
            port[i].put_packets(scratch[partner.id()].chunk(part(from_nodes + rank.node())), reduced, 0);
        }
        let arrived: Vec<_> = across.iter().map(|partner| slots.chunk(part(from_nodes + partner.node()))).collect();
        rank.reduce_packets(mine, arrived, &everyone);
        let result = slots.chunk(part(from_nodes + rank.node()));
        rank.copy_packets(result, mine, &everyone);

        for (i, peer) in on_node.iter().enumerate() {
            memory[i].read_put_packets(scratch[peer.id()].chunk(part(results + local)), result, &groups[i]);
        }
        for (i, peer) in on_node.iter().enumerate() {
            rank.unpack_packets(result_of(peer.local_id()), slots.chunk(part(results + peer.local_id())), &groups[i]);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm = BuiltinAlgorithm::new(
    allreduce_hierarchical_packets::algorithm,
    include_str!("hierarchical_packets.rs"),
    |p, arguments| allreduce_hierarchical_packets(p, arguments[0]),
)
.nodes(2, u32::MAX, 2)
.with_params(&[Param { name: "group", values: &[1, 2, 4, 8] }])
.blocks_per_peer(1)
.in_order(OrderScope::Nodes);
