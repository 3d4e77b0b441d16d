//! Staged all-to-all-v: 1 exchange of counts, then 1 step, the sent bytes written per rank, P chunks of scratch; on several nodes 2 P.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank puts its part for each rank into that rank's scratch, and copies what it has received to its output.
///
/// On any number of nodes, through ports between them. One thread block per rank: the first one exchanges counts, and a barrier tells
/// the others. Other ranks access scratch only, so that input and output may be any memory.
#[collective(AllToAllV, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn alltoallv_staged(p: &Program) {
    let ranks = p.num_ranks();
    let is_on_one_node = p.num_nodes() == 1;
    // What arrives, then what ports send.
    let chunks = if is_on_one_node { ranks } else { 2 * ranks };
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(chunks)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        rank.exchange_counts(0);
        rank.barrier(0..ranks);
        for step in 0..ranks {
            let peer = p.rank((id + step) % ranks);
            let (to, from) = (rank.output().chunk(peer.id()), rank.input().chunk(peer.id()));
            if step == 0 {
                rank.copy_counted(to, from, rank, rank, step);
                continue;
            }
            let theirs = scratch[peer.id()].chunk(id);
            if peer.node() == rank.node() {
                let channel = rank.memory_channel(peer);
                channel.put_counted(theirs, from, rank, peer, step);
                channel.handshake(step).sync(BlockSync::Both);
                rank.copy_counted(to, scratch[id].chunk(peer.id()), peer, rank, step);
            } else {
                let channel = rank.port_channel(peer);
                let outgoing = scratch[id].chunk(ranks + peer.id());
                rank.copy_counted(outgoing, from, rank, peer, step);
                channel.put_counted(theirs, outgoing, rank, peer, step);
                channel.handshake(step).sync(BlockSync::Both);
                rank.copy_counted(to, scratch[id].chunk(peer.id()), peer, rank, step);
                // The next launch overwrites what is sent.
                channel.flush(step);
            }
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoallv_staged::algorithm, include_str!("staged.rs"), |p, _| alltoallv_staged(p))
        .with_buffer_mode(BufferMode::OutOfPlace)
        .nodes(1, u32::MAX, 1);
