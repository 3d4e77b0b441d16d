//! The reference's send-receive.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;

/// Every rank sends to the rank one group of `mask + 1` ranks further on.
///
/// The input may be overwritten before the proxy has read it. The library's own form waits for the proxy.
pub(crate) fn send_recv(p: &Program, mask: usize) {
    let ranks = p.num_ranks();
    let group = mask + 1;
    for rank in p.ranks() {
        let next = p.rank((rank.id() + group) % ranks);
        let previous = p.rank((rank.id() + ranks - group) % ranks);
        // With two groups both channels are to the same rank, and the channel to the next must pair with the one from
        // the previous.
        let swapped = next.id() == previous.id() && rank.id() > next.id();
        let first = rank.port_channel(if swapped { previous } else { next });
        let second = rank.port_channel(if swapped { next } else { previous });
        let (to_next, to_previous) = if swapped { (second, first) } else { (first, second) };
        to_previous.signal(0).sync(BlockSync::None);
        to_next.wait(0).sync(BlockSync::After);
        to_next.put_with_signal(next.output().chunk(..), rank.input().chunk(..), 0);
        to_previous.wait(0).sync(BlockSync::None);
    }
}
