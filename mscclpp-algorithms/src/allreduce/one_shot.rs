//! One-shot all-reduce: 1 step, P-1 times the message read per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::OrderScope;
use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank reads the inputs of all ranks and reduces them, in the order of ranks.
///
/// Out of place, two ranks or more, one thread block. For messages so small that a step takes longer than reducing them
/// on every rank. All ranks get bitwise equal results.
#[collective(AllReduce, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn allreduce_one_shot(p: &Program) {
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed();
        let result = rank.output().chunk(..).to_any();
        // The order of the first two operands does not matter, so rank 1 begins with its own input.
        let first = rank.id() <= 1;
        let mut sum = rank.input().chunk(..).to_any();
        for channel in &channels {
            let peer = channel.peer();
            if !first && peer.id() == 0 {
                channel.get(result, peer.input().chunk(..), 0);
            } else {
                channel.reduce(sum, peer.input().chunk(..), 0).to(result);
            }
            sum = result;
            if !first && peer.id() + 1 == rank.id() {
                rank.barrier([0]);
                rank.reduce(sum, rank.input().chunk(..), 0);
            }
            // Keeps the steps separate on all ranks: fused steps would round once instead of twice.
            rank.barrier([0]);
        }
        // The peers' inputs have been read and may be overwritten.
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_one_shot::algorithm, include_str!("one_shot.rs"), |p, _| allreduce_one_shot(p))
        .with_buffer_mode(BufferMode::OutOfPlace)
        .in_order(OrderScope::FirstTwo);
