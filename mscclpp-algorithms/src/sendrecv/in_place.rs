//! Send-receive in place: 1 step and a copy, the whole message sent per rank, 1 chunk of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank sends its input into the next rank's scratch, through port channels, and copies the received data over
/// the data that it has sent.
///
/// In place, two ranks or more on any number of nodes, one thread block.
#[collective(SendRecv, ranks = [2, 4, 8], in_place, crate = mscclpp_core)]
pub fn send_recv_in_place(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(1).chunk(0)).collect();
    for rank in p.ranks() {
        let next = p.rank((rank.id() + 1) % ranks);
        let previous = p.rank((rank.id() + ranks - 1) % ranks);
        let to_next = rank.port_channel(next);
        // With two ranks next and previous are the same rank, and one channel suffices.
        let to_previous = if ranks == 2 { to_next } else { rank.port_channel(previous) };
        to_previous.signal(0).sync(BlockSync::None);
        to_next.wait(0).sync(BlockSync::After);
        to_next.put_with_signal_and_flush(scratch[next.id()], rank.input().chunk(0), 0);
        to_previous.wait(0).sync(BlockSync::After);
        rank.copy(rank.input().chunk(0), scratch[rank.id()], 0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(send_recv_in_place::algorithm, include_str!("in_place.rs"), |p, _| send_recv_in_place(p))
        .with_buffer_mode(BufferMode::InPlace)
        .nodes(1, u32::MAX, 1);
