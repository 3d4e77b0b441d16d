//! Hierarchical all-reduce: 4 steps, (G-1)/G of the message read and as much sent within the node and 2(N-1)/P sent between
//! nodes per rank (N nodes of G ranks), N-1 chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// The ranks of a node reduce their parts over the node; every rank and its counterparts on the other nodes share out
/// the part's chunks, reduce them and exchange the results; the ranks of a node exchange their parts.
///
/// In place or not, two nodes or more, one thread block. Every chunk is reduced by one rank, so all ranks get bitwise
/// equal results. For large messages.
#[collective(AllReduce, ranks = 16, ranks_per_node = 8, crate = mscclpp_core)]
pub fn allreduce_hierarchical(p: &Program) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    let partners = nodes - 1;
    // One part per rank of the node, with one chunk per node.
    let part = |local: usize| local * nodes..(local + 1) * nodes;
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(partners)).collect();
    for rank in p.ranks() {
        let (id, local, input, slots) = (rank.id(), rank.local_id(), rank.input(), scratch[rank.id()]);
        let first = rank.node() * per_node;
        let memory = rank.memory_channels((1..per_node).map(|step| first + (local + step) % per_node));
        let port = rank.port_channels((1..nodes).map(|step| (id + step * per_node) % ranks));
        let result = |of: usize, range: std::ops::Range<usize>| {
            if p.in_place() {
                p.rank(of).input().chunk(range).to_any()
            } else {
                p.rank(of).output().chunk(range).to_any()
            }
        };
        // The chunk of this rank's part that a node reduces.
        let share = |node: usize| local * nodes + node..local * nodes + node + 1;

        // The scratch may be written, and inputs may be read.
        for channel in &port {
            channel.signal(0).sync(BlockSync::None);
        }
        memory.handshake(0).relaxed();
        let mut sum = input.chunk(part(local)).to_any();
        for channel in &memory {
            channel.reduce(sum, channel.peer().input().chunk(part(local)), 0).to(result(id, part(local)));
            sum = result(id, part(local));
        }
        // With one rank per node no input was read, and the sums so far are the inputs.
        let so_far = |range: std::ops::Range<usize>| {
            if memory.is_empty() { input.chunk(range).to_any() } else { result(id, range) }
        };

        for (step, channel) in port.iter().enumerate() {
            let partner = channel.peer();
            channel.wait(0).sync(BlockSync::After);
            channel.put_with_signal(scratch[partner.id()].chunk(step), so_far(share(partner.node())), 0);
        }
        let mine = result(id, share(rank.node()));
        let mut sum = so_far(share(rank.node()));
        for (step, channel) in port.iter().enumerate() {
            channel.wait(0).sync(BlockSync::After);
            // The partner `step` nodes on is the one for whom this rank is that far from the other side.
            rank.reduce(sum, slots.chunk(partners - 1 - step), 0).to(mine);
            sum = mine;
        }
        // The result of a partner's chunk arrives where the chunk was sent from.
        for channel in &port {
            channel.put_with_signal(result(channel.peer().id(), share(rank.node())), mine, 0);
        }
        for channel in &port {
            channel.wait(0).sync(BlockSync::After);
        }

        for channel in &memory {
            channel.put(result(channel.peer().id(), part(local)), result(id, part(local)), 0);
        }
        memory.handshake(0);
        for channel in &port {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_hierarchical::algorithm, include_str!("hierarchical.rs"), |p, _| {
        allreduce_hierarchical(p)
    })
    .nodes(2, u32::MAX, 1);
