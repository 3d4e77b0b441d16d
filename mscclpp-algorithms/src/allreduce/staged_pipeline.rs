//! Staged all-reduce in a pipeline: 3 overlapping stages per 128 KiB, 2(P-1)/P of the message sent per rank, 2P chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// One thread block puts the parts of the input into the scratch of their ranks, a second one reduces this rank's part and puts the
/// result into the scratch of all, a third one copies the other parts to the output, each for windows of every part.
///
/// In place or not, two ranks or more. Other ranks access scratch only, so that input and output may be any memory. For large messages.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, instances = 8, crate = mscclpp_core)]
pub fn allreduce_staged_pipeline(p: &Program) {
    let ranks = p.num_ranks();
    // A slot of each rank for its input, and one for its result.
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2 * ranks)).collect();
    for rank in p.ranks() {
        let (id, stage) = (rank.id(), scratch[rank.id()]);
        let peers: Vec<_> = (1..ranks).map(|step| (id + step) % ranks).collect();
        let arrived = rank.memory_channels(&peers);
        let reduced = rank.memory_channels(&peers);
        let result = |of: usize| {
            if p.in_place() { rank.input().chunk(of).to_any() } else { rank.output().chunk(of).to_any() }
        };
        // The peers have copied what the previous launch left in scratch.
        rank.memory_channels(&peers).handshake(0).relaxed();
        p.pipeline(128 << 10, 1, || {
            for channel in &arrived {
                let peer = channel.peer().id();
                channel.put(scratch[peer].chunk(id), rank.input().chunk(peer), 0);
            }
            for channel in &arrived {
                channel.signal(0).sync(BlockSync::Before);
            }

            for channel in &arrived {
                channel.wait(1).sync(BlockSync::After);
            }
            let mut sum = rank.input().chunk(id).to_any();
            for channel in &arrived {
                rank.reduce(sum, stage.chunk(channel.peer().id()), 1).to(result(id));
                sum = result(id);
            }
            for channel in &reduced {
                channel.put(scratch[channel.peer().id()].chunk(ranks + id), result(id), 1);
            }
            for channel in &reduced {
                channel.signal(1).sync(BlockSync::Before);
            }

            for channel in &reduced {
                channel.wait(2).sync(BlockSync::After);
            }
            for channel in &reduced {
                let peer = channel.peer().id();
                rank.copy(result(peer), stage.chunk(ranks + peer), 2);
            }
        });
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_staged_pipeline::algorithm, include_str!("staged_pipeline.rs"), |p, _| {
        allreduce_staged_pipeline(p)
    });
