//! Switch all-reduce in a pipeline: 3 overlapping stages per MiB, 1/P of the message read and as much sent per rank, P
//! chunks of scratch. Needs multicast hardware.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::{BlockSync, BufferKind};
use mscclpp_macros::collective;

use crate::builtin::{BuiltinAlgorithm, OrderScope};

/// One thread block copies the input to scratch, a second one has the switch reduce and deliver it, a third one copies
/// the result to the output; semaphores order their accesses to windows of 1 MiB.
///
/// Input and output may be the same memory or not, and need not support multicast: only scratch must. Any number of
/// ranks in one switch domain. For large messages. The order in which a switch sums floats is unspecified; all ranks get
/// the same result.
#[collective(AllReduce, ranks = [2, 4, 8], reuse_resources, crate = mscclpp_core)]
pub fn allreduce_switch_pipeline(p: &Program) {
    let ranks = p.num_ranks();
    let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let peers: Vec<_> = (1..ranks).map(|step| (rank.id() + step) % ranks).collect();
        let copied_in = rank.memory_channels(&peers);
        let reduced = rank.memory_channels(&peers);
        let may_reduce = rank.semaphore(0);
        let may_copy_out = rank.semaphore(0);
        let stage = scratch[rank.id()];
        let mine = stage.chunk(rank.id());
        p.pipeline(1 << 20, 1, || {
            for part in 0..ranks {
                rank.copy(stage.chunk(part), rank.input().chunk(part), 0);
            }
            copied_in.handshake(0).sync(BlockSync::Both);
            may_reduce.release(0);

            may_reduce.acquire(1).sync(BlockSync::After);
            switch.at(rank).reduce(mine, rank.id(), 1);
            switch.at(rank).broadcast(rank.id(), mine, 1);
            for channel in &reduced {
                channel.signal(1).sync(BlockSync::Before);
            }
            may_copy_out.release(1);

            may_copy_out.acquire(2);
            for channel in &reduced {
                channel.wait(2).sync(BlockSync::After);
            }
            for part in 0..ranks {
                rank.copy(rank.output().chunk(part), stage.chunk(part), 2);
            }
        });
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_switch_pipeline::algorithm, include_str!("switch_pipeline.rs"), |p, _| {
        allreduce_switch_pipeline(p)
    })
    .multicast()
    .in_order(OrderScope::Launches);
