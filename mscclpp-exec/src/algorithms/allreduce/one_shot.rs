//! One-shot all-reduce: 1 step, P-1 times the message read per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::vocab::Sync;
use mscclpp_macros::collective;

use crate::algorithms::shipped::{Placement, Shipped};
use crate::select::Combined;

/// Every rank reads everybody's input and reduces all of it.
///
/// Out of place, two ranks or more, one thread block. For messages so small that a step takes longer than to reduce them
/// everywhere. Each rank begins with its own input, so floating-point results may differ between more than two ranks in the
/// last bit.
#[collective(AllReduce, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn allreduce_one_shot(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let peers: Vec<_> = (1..ranks).map(|step| p.rank((rank.id() + step) % ranks)).collect();
        let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(Sync::After);
        }
        let result = rank.output().chunk(..).any();
        let mut sum = rank.input().chunk(..).any();
        for (channel, peer) in channels.iter().zip(&peers) {
            channel.reduce(sum, peer.input().chunk(..), 0).to(result);
            sum = result;
        }
        // The peers may have their inputs back.
        for channel in &channels {
            channel.signal(0).sync(Sync::Before);
        }
        for channel in &channels {
            channel.wait(0);
        }
    }
}

/// What the registry knows of it.
pub(in crate::algorithms) const ENTRY: Shipped =
    Shipped::new(allreduce_one_shot::algorithm, include_str!("one_shot.rs"), |p, _| allreduce_one_shot(p))
        .placed(Placement::OutOfPlace)
        .in_own_order(Combined::Ranks);
