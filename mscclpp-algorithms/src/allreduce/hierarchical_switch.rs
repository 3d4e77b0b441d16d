//! Hierarchical all-reduce with switches: 3 overlapping stages per 256 KiB, 1/G of the message read and as much sent within the node
//! and 2(N-1)/P sent between nodes per rank (N nodes of G ranks), N-1 chunks of scratch. Needs multicast hardware.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::{BlockSync, BufferKind};
use mscclpp_macros::collective;

use crate::builtin::{BuiltinAlgorithm, OrderScope};

/// The steps of `allreduce_hierarchical_pipeline`, where the switch of a node reduces the parts of its ranks, and delivers the results to
/// all of them.
///
/// In place or not, two nodes or more of two ranks or more, each in one switch domain, three thread blocks, two port channels to each
/// counterpart. The order in which a switch sums floats is unspecified; all ranks get the same result. For large messages.
#[collective(AllReduce, ranks = 16, ranks_per_node = 8, crate = mscclpp_core)]
pub fn allreduce_hierarchical_switch(p: &Program) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    let partners = nodes - 1;
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(partners)).collect();
    let mut inputs = Vec::new();
    let mut outputs = Vec::new();
    for node in 0..nodes {
        inputs.push(p.switch_channel(node * per_node..(node + 1) * per_node, BufferKind::Input));
        if !p.in_place() {
            outputs.push(p.switch_channel(node * per_node..(node + 1) * per_node, BufferKind::Output));
        }
    }
    for rank in p.ranks() {
        let (id, local, slots) = (rank.id(), rank.local_id(), scratch[rank.id()]);
        let first = rank.node() * per_node;
        let neighbors: Vec<_> = (1..per_node).map(|step| first + (local + step) % per_node).collect();
        // Those of the first thread block, and those of the last one.
        let memory = rank.memory_channels(&neighbors);
        let delivered = rank.memory_channels(&neighbors);
        let counterparts: Vec<_> = (1..nodes).map(|step| (id + step * per_node) % ranks).collect();
        let partial = rank.port_channels(&counterparts);
        let total = rank.port_channels(&counterparts);
        let input = inputs[rank.node()].at(rank);
        let output = if p.in_place() { input } else { outputs[rank.node()].at(rank) };
        let result = |of: usize, chunk: usize| {
            if p.in_place() {
                p.rank(of).input().chunk(chunk).to_any()
            } else {
                p.rank(of).output().chunk(chunk).to_any()
            }
        };
        // The chunk of this rank's part that a node reduces.
        let share = |node: usize| local * nodes + node;
        let may_put = rank.semaphore(0);
        let reduced = rank.semaphore(0);
        let exchanged = rank.semaphore(0);

        // The scratch may be written, and inputs may be read.
        for channel in &partial {
            channel.signal(0).sync(BlockSync::None);
        }
        memory.handshake(0).relaxed();
        for channel in &partial {
            channel.wait(1);
        }
        may_put.release(1);
        may_put.acquire(0);

        p.pipeline(256 << 10, 1, || {
            for node in 0..nodes {
                input.reduce(result(id, share(node)), share(node), 0);
            }
            for (step, channel) in partial.iter().enumerate() {
                let partner = channel.peer();
                channel.put_with_signal(scratch[partner.id()].chunk(step), result(id, share(partner.node())), 0);
            }
            reduced.release(0);

            reduced.acquire(1);
            // The sum stays in the scratch: ports read it while the switch already stores the results.
            let sum = slots.chunk(partners - 1);
            for (step, channel) in partial.iter().enumerate() {
                channel.wait(1).sync(BlockSync::After);
                // The partner `step` nodes on is the one for whom this rank is that far from the other side.
                if step == 0 {
                    rank.reduce(sum, result(id, share(rank.node())), 1);
                } else {
                    rank.reduce(sum, slots.chunk(partners - 1 - step), 1);
                }
            }
            // The result of a partner's chunk arrives where the chunk was sent from.
            for channel in &total {
                channel.put_with_signal(result(channel.peer().id(), share(rank.node())), sum, 1);
            }
            exchanged.release(1);

            exchanged.acquire(2);
            for channel in &total {
                channel.wait(2).sync(BlockSync::After);
            }
            for node in 0..nodes {
                if node == rank.node() {
                    output.broadcast(share(node), slots.chunk(partners - 1), 2);
                } else {
                    output.broadcast(share(node), result(id, share(node)), 2);
                }
            }
        });
        delivered.handshake(2);
        for channel in &partial {
            channel.flush(0);
        }
        for channel in &total {
            channel.flush(1);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_hierarchical_switch::algorithm, include_str!("hierarchical_switch.rs"), |p, _| {
        allreduce_hierarchical_switch(p)
    })
    .nodes(2, u32::MAX, 2)
    .multicast()
    .in_order(OrderScope::Launches);
