//! Direct send-receive: 1 step, the whole message sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank puts its input into the next rank's output.
///
/// Out of place, two ranks or more, one thread block. For large messages.
#[collective(SendRecv, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn send_recv_direct(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let next = p.rank((rank.id() + 1) % ranks);
        let previous = p.rank((rank.id() + ranks - 1) % ranks);
        let to_next = rank.memory_channel(next);
        // With two ranks next and previous are the same rank, and one channel suffices.
        let to_previous = if ranks == 2 { to_next } else { rank.memory_channel(previous) };
        to_previous.signal(0).relaxed();
        to_next.wait(0).relaxed().sync(BlockSync::After);
        to_next.put(next.output().chunk(..), rank.input().chunk(..), 0);
        to_next.signal(0).sync(BlockSync::Before);
        to_previous.wait(0).sync(BlockSync::After);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(send_recv_direct::algorithm, include_str!("direct.rs"), |p, _| send_recv_direct(p))
        .with_buffer_mode(BufferMode::OutOfPlace);
