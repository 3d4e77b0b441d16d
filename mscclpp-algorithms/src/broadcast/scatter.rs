//! Broadcast by scattering: 2 steps, 2(P-1)/P of the message sent by the root and (P-1)/P by every other rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// The root puts one chunk into each rank; every rank, including the root, puts its chunk into all others.
///
/// In place or not, two ranks or more, any root, one thread block. No rank sends the whole message more than twice,
/// however many there are.
#[collective(Broadcast, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn broadcast_scatter(p: &Program) {
    let root = p.rank(p.root());
    for rank in p.ranks() {
        let id = rank.id();
        // The neighbor first, so that the ranks write to different peers at a time.
        let channels = rank.memory_channels((1..p.num_ranks()).map(|step| (id + step) % p.num_ranks()));
        let result = |of: usize, index: usize| {
            if p.in_place() {
                p.rank(of).input().chunk(index).to_any()
            } else {
                p.rank(of).output().chunk(index).to_any()
            }
        };
        channels.handshake(0).relaxed();
        if id == root.id() {
            for channel in &channels {
                let peer = channel.peer().id();
                channel.put(result(peer, peer), rank.input().chunk(peer), 0);
                channel.signal(0).sync(BlockSync::Before);
            }
            if !p.in_place() {
                rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
            }
        }
        for channel in &channels {
            if channel.peer() == root {
                channel.wait(0).sync(BlockSync::After);
            }
        }
        let mine = if id == root.id() { rank.input().chunk(id).to_any() } else { result(id, id) };
        for channel in &channels {
            // The root has the message already.
            if channel.peer() != root {
                channel.put(result(channel.peer().id(), id), mine, 0);
            }
        }
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(broadcast_scatter::algorithm, include_str!("scatter.rs"), |p, _| broadcast_scatter(p));
