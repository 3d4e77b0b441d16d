//! Hierarchical all-reduce in a pipeline: 3 overlapping stages per 256 KiB, (G-1)/G of the message read and as much sent within the
//! node and 2(N-1)/P sent between nodes per rank (N nodes of G ranks), N-1 chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// The steps of `allreduce_hierarchical`, each in a thread block of its own, for windows of every chunk: while one window is exchanged
/// between nodes, the next one is reduced within the node and the previous one delivered there.
///
/// In place or not, two nodes or more of two ranks or more, three thread blocks, two port channels to each counterpart. Every chunk
/// is reduced by one rank, so all ranks get bitwise equal results. For large messages.
#[collective(AllReduce, ranks = 16, ranks_per_node = 8, crate = mscclpp_core)]
pub fn allreduce_hierarchical_pipeline(p: &Program) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    let partners = nodes - 1;
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(partners)).collect();
    for rank in p.ranks() {
        let (id, local, slots) = (rank.id(), rank.local_id(), scratch[rank.id()]);
        let first = rank.node() * per_node;
        let neighbors: Vec<_> = (1..per_node).map(|step| first + (local + step) % per_node).collect();
        // Those on which the first thread block waits, and those of the last one.
        let memory = rank.memory_channels(&neighbors);
        let delivered = rank.memory_channels(&neighbors);
        let counterparts: Vec<_> = (1..nodes).map(|step| (id + step * per_node) % ranks).collect();
        let partial = rank.port_channels(&counterparts);
        let total = rank.port_channels(&counterparts);
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
                let mut sum = rank.input().chunk(share(node)).to_any();
                for channel in &memory {
                    let mine = result(id, share(node));
                    channel.reduce(sum, channel.peer().input().chunk(share(node)), 0).to(mine);
                    sum = mine;
                }
            }
            for (step, channel) in partial.iter().enumerate() {
                let partner = channel.peer();
                channel.put_with_signal(scratch[partner.id()].chunk(step), result(id, share(partner.node())), 0);
            }
            reduced.release(0);

            reduced.acquire(1);
            let mine = result(id, share(rank.node()));
            for (step, channel) in partial.iter().enumerate() {
                channel.wait(1).sync(BlockSync::After);
                // The partner `step` nodes on is the one for whom this rank is that far from the other side.
                rank.reduce(mine, slots.chunk(partners - 1 - step), 1).to(mine);
            }
            // The result of a partner's chunk arrives where the chunk was sent from.
            for channel in &total {
                channel.put_with_signal(result(channel.peer().id(), share(rank.node())), mine, 1);
            }
            exchanged.release(1);

            exchanged.acquire(2);
            for channel in &total {
                channel.wait(2).sync(BlockSync::After);
            }
            for node in 0..nodes {
                for channel in &memory {
                    channel.put(result(channel.peer().id(), share(node)), result(id, share(node)), 2);
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
pub(crate) const ENTRY: BuiltinAlgorithm = BuiltinAlgorithm::new(
    allreduce_hierarchical_pipeline::algorithm,
    include_str!("hierarchical_pipeline.rs"),
    |p, _| allreduce_hierarchical_pipeline(p),
)
.nodes(2, u32::MAX, 2);
