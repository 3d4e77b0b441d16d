//! Pulled broadcast: 1 step, the whole message read per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank reads the root's message.
///
/// In place or not, two ranks or more, any root, one thread block. The root waits for the others only if they read the memory of its
/// caller, and not a copy of it.
#[collective(Broadcast, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn broadcast_pull(p: &Program) {
    let root = p.rank(p.root());
    let message = root.input().chunk(..);
    for rank in p.ranks() {
        let is_root = rank.id() == root.id();
        let peers = p.ranks().filter(|peer| peer.id() != rank.id() && (is_root || peer.id() == root.id()));
        let channels = rank.memory_channels(peers);
        channels.handshake(0).relaxed();
        if is_root && !p.in_place() {
            rank.copy(rank.output().chunk(..), message, 0);
        }
        for channel in &channels {
            if !is_root {
                let result =
                    if p.in_place() { rank.input().chunk(..).to_any() } else { rank.output().chunk(..).to_any() };
                channel.get(result, message, 0);
            }
        }
        // The message has been read and may be overwritten.
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(broadcast_pull::algorithm, include_str!("pull.rs"), |p, _| broadcast_pull(p));
