//! Which channel a signal arrives at.

use super::program::{Channel, NOWHERE};

/// Pairs channel k from a to b with channel k from b to a, of the same kind, counted in the order of their numbers.
pub(super) fn pair_channels(channels: &mut [Channel]) {
    // By rank, peer and kind; numbers ascend within each.
    let key = |channel: &Channel| (channel.rank, channel.peer, channel.kind as u8);
    let mut order: Vec<u32> = (0..channels.len() as u32).collect();
    order.sort_by_key(|&at| key(&channels[at as usize]));
    let mut start = 0;
    while start < order.len() {
        let first = &channels[order[start] as usize];
        let (this, other) = (key(first), (first.peer, first.rank, first.kind as u8));
        let len = order[start..].iter().take_while(|&&at| key(&channels[at as usize]) == this).count();
        let peers = order.partition_point(|&at| key(&channels[at as usize]) < other);
        for k in 0..len {
            let pair = order.get(peers + k).filter(|&&at| key(&channels[at as usize]) == other);
            channels[order[start + k] as usize].pair = pair.copied().unwrap_or(NOWHERE);
        }
        start += len;
    }
}

#[cfg(test)]
mod tests {
    use mscclpp_core::vocab::ChannelKind::{self, Memory, Port};

    use super::*;

    #[test]
    fn the_k_th_channels_pair_up() {
        let channel = |rank, kind: ChannelKind, id, peer| Channel { rank, kind, id, peer, pair: NOWHERE };
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
        assert_eq!(channels.map(|c| c.pair), [4, NOWHERE, 7, 6, 0, NOWHERE, 3, 2, NOWHERE]);
    }
}
