//! One-shot all-reduce over nodes: 1 step, P-1 times the message sent per rank, P² chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts its input into all ranks' scratch, through memory channels within its node, over ports to other nodes, and
/// reduces what it receives with its own input, in the order of ranks.
///
/// In place or not, two nodes or more, one thread block. For messages so small that a step between nodes takes longer than
/// sending and reducing them whole.
#[collective(AllReduce, ranks = 4, ranks_per_node = 2, crate = mscclpp_core)]
pub fn allreduce_one_shot_ports(p: &Program) {
    let (ranks, per_node) = (p.num_ranks(), p.ranks_per_node());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks * ranks)).collect();
    let slot = |of: usize, from: usize| scratch[of].chunk(from * ranks..(from + 1) * ranks);
    for rank in p.ranks() {
        let (id, input) = (rank.id(), rank.input().chunk(..));
        let is_near = |peer: &usize| *peer / per_node == rank.node();
        let memory = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks).filter(|peer| is_near(peer)));
        let ports = rank.port_channels((1..ranks).map(|step| (id + step) % ranks).filter(|peer| !is_near(peer)));
        let operand = |from: usize| if from == id { input.to_any() } else { slot(id, from).to_any() };

        // The scratch may be written.
        for channel in &ports {
            channel.signal(0).sync(BlockSync::None);
        }
        for channel in &ports {
            channel.wait(0).sync(BlockSync::After);
            channel.put_with_signal(slot(channel.peer().id(), id), input, 0);
        }
        memory.handshake(0).relaxed();
        for channel in &memory {
            channel.put(slot(channel.peer().id(), id), input, 0);
        }
        memory.handshake(0);
        for channel in &ports {
            channel.wait(0).sync(BlockSync::After);
        }
        // The input may be overwritten only after it has been read.
        for channel in &ports {
            channel.flush(0);
        }
        let result = if p.in_place() { input.to_any() } else { rank.output().chunk(..).to_any() };
        let others: Vec<_> = (1..ranks).map(operand).collect();
        rank.reduce(operand(0), &others, 0).to(result);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_one_shot_ports::algorithm, include_str!("one_shot_ports.rs"), |p, _| {
        allreduce_one_shot_ports(p)
    })
    .nodes(2, u32::MAX, 1)
    .in_rank_order();
