//! Finds the channel at which a signal arrives.

use super::program::Channel;

/// Pairs channel k from a to b with channel k from b to a, of the same kind, counted in the order of their numbers.
pub(super) fn pair_channels(channels: &mut [Channel]) {
    // Sorted by the two ranks, the kind and the direction; positions come last, so numbers ascend within each group.
    let mut order: Vec<(u64, u64)> = channels
        .iter()
        .enumerate()
        .map(|(at, channel)| {
            let (low, high) = (channel.rank.min(channel.peer), channel.rank.max(channel.peer));
            let upwards = u64::from(channel.rank == low);
            (u64::from(low) << 32 | u64::from(high), (channel.kind as u64) << 33 | upwards << 32 | at as u64)
        })
        .collect();
    order.sort_unstable();
    let group = |&(ranks, rest): &(u64, u64)| (ranks, rest >> 33);
    for entries in order.chunk_by(|left, right| group(left) == group(right)) {
        let (down, up) = entries.split_at(entries.partition_point(|entry| entry.1 >> 32 & 1 == 0));
        for (&(_, down), &(_, up)) in down.iter().zip(up) {
            let (down, up) = (down as u32, up as u32);
            channels[down as usize].pair = up;
            channels[up as usize].pair = down;
        }
    }
}

#[cfg(test)]
mod tests {
    use mscclpp_core::types::ChannelKind::{self, Memory, Port};

    use super::*;
    use crate::interpret::program::UNPAIRED;

    #[test]
    fn kth_channels_of_two_ranks_are_paired() {
        let channel = |rank, kind: ChannelKind, id, peer| Channel { rank, kind, id, peer, pair: UNPAIRED };
        let mut channels = [
            channel(0, Memory, 0, 1),
            channel(0, Memory, 1, 2),
            channel(0, Memory, 2, 1),
            channel(0, Port, 0, 1),
            channel(1, Memory, 0, 0),
            channel(1, Port, 0, 2),
            channel(1, Port, 1, 0),
            channel(1, Memory, 1, 0),
            channel(1, Memory, 2, 0),
        ];
        pair_channels(&mut channels);
        assert_eq!(channels.map(|c| c.pair), [4, UNPAIRED, 7, 6, 0, UNPAIRED, 3, 2, UNPAIRED]);
    }
}
