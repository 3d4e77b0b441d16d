//! Send-receive around a ring: 1 step, the whole message sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank sends its input to the next rank, through port channels, so that it works within and between nodes.
///
/// Out of place, two ranks or more, one thread block.
#[collective(SendRecv, ranks = [2, 4, 8], instances = 4, crate = mscclpp_core)]
pub fn send_recv(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let next = p.rank((rank.id() + 1) % ranks);
        let previous = p.rank((rank.id() + ranks - 1) % ranks);
        // With two ranks both channels lead to the same peer, and the k-th channels of the two pair up: the upper rank
        // makes them in the opposite order, so that the channel to the next rank pairs with the one from the previous
        // rank.
        let upper_of_two = ranks == 2 && rank.id() == 1;
        let first = rank.port_channel(if upper_of_two { previous } else { next });
        let second = rank.port_channel(if upper_of_two { next } else { previous });
        let (to_next, to_previous) = if upper_of_two { (second, first) } else { (first, second) };

        to_previous.signal(0).sync(BlockSync::None);
        to_next.wait(0).sync(BlockSync::After);
        // The input may be overwritten after the flush, when it has been read.
        to_next.put_with_signal_and_flush(next.output().chunk(..), rank.input().chunk(..), 0);
        to_previous.wait(0).sync(BlockSync::None);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(send_recv::algorithm, include_str!("ring.rs"), |p, _| send_recv(p))
        .with_buffer_mode(BufferMode::OutOfPlace)
        .nodes(1, u32::MAX, 1);
