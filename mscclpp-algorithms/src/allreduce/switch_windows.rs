//! Switch all-reduce over windows: 3 stages per 32 KiB, 1/P of the message read and as much sent per rank, P chunks of scratch. Needs
//! multicast hardware.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::{BlockSync, BufferKind};
use mscclpp_macros::collective;

use crate::builtin::{BuiltinAlgorithm, OrderScope};

/// The stages of `allreduce_switch_pipeline` in one thread block, for small windows: those of different instances overlap.
///
/// Input and output may be any memory: only scratch must support multicast. Any number of ranks in one switch domain. For medium
/// messages. The order in which a switch sums floats is unspecified; all ranks get the same result.
#[collective(AllReduce, ranks = [2, 4, 8], instances = 8, reuse_resources, crate = mscclpp_core)]
pub fn allreduce_switch_windows(p: &Program) {
    let ranks = p.num_ranks();
    let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let channels = rank.memory_channels((1..ranks).map(|step| (rank.id() + step) % ranks));
        let stage = scratch[rank.id()];
        let mine = stage.chunk(rank.id());
        p.pipeline(32 << 10, 1, || {
            for part in 0..ranks {
                rank.copy(stage.chunk(part), rank.input().chunk(part), 0);
            }
            channels.handshake(0).sync(BlockSync::Both);
            switch.at(rank).reduce(mine, rank.id(), 0);
            switch.at(rank).broadcast(rank.id(), mine, 0);
            channels.handshake(0).sync(BlockSync::Both);
            for part in 0..ranks {
                rank.copy(rank.output().chunk(part), stage.chunk(part), 0);
            }
        });
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_switch_windows::algorithm, include_str!("switch_windows.rs"), |p, _| {
        allreduce_switch_windows(p)
    })
    .multicast()
    .in_order(OrderScope::Launches);
