//! Send-receive with packets: 1 step, twice the message sent per rank, 1 chunk of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank sends its input to the next rank as packets, as soon as that rank has unpacked the previous ones.
///
/// In place or not, two ranks or more, one thread block. For small messages.
#[collective(SendRecv, ranks = [2, 4, 8], protocol = LL, crate = mscclpp_core)]
pub fn send_recv_packets(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(1).chunk(0)).collect();
    for rank in p.ranks() {
        let next = p.rank((rank.id() + 1) % ranks);
        let previous = p.rank((rank.id() + ranks - 1) % ranks);
        let to_next = rank.memory_channel(next);
        // With two ranks next and previous are the same rank, and one channel suffices.
        let to_previous = if ranks == 2 { to_next } else { rank.memory_channel(previous) };
        to_previous.signal(0).relaxed();
        to_next.wait(0).relaxed().sync(BlockSync::After);
        to_next.put_packets(scratch[next.id()], rank.input().chunk(0), 0);
        let result = if p.in_place() { rank.input().chunk(0).to_any() } else { rank.output().chunk(0).to_any() };
        rank.unpack_packets(result, scratch[rank.id()], 0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(send_recv_packets::algorithm, include_str!("packets.rs"), |p, _| send_recv_packets(p));
