//! A call as words, which one thread stores and others load while it makes the next calls.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use mscclpp_base::dtype::DataType;
use mscclpp_base::message::PacketType;
use mscclpp_select::{Backend, OrderPolicy, Request};

/// Number of words of a call.
pub(super) const WORDS: usize = 5;

/// The collectives that have no further values, by code - 1. Code 0 is a barrier.
const COLLECTIVES: [CollectiveKind; 8] = [
    CollectiveKind::AllReduce,
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllToAll,
    CollectiveKind::SendRecv,
    CollectiveKind::Broadcast,
    CollectiveKind::Reduce,
    CollectiveKind::AllToAllV,
];
/// Order policies have two bits.
const _: () = assert!(OrderPolicy::ALL.len() == 4);
const CUSTOM: u8 = 9;
const TEST: u8 = 10;

/// Returns the words of a call: its request, `None` for a barrier, and the number of its source location.
#[inline]
pub(super) fn encode(request: Option<&Request>, place: u32) -> [u64; WORDS] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let Some(request) = request else { return [0, 0, 0, 0, pair(0, place)] };
    let (collective, counts) = match request.collective {
        CollectiveKind::AllReduce => (1, 0),
        CollectiveKind::AllGather => (2, 0),
        CollectiveKind::ReduceScatter => (3, 0),
        CollectiveKind::AllToAll => (4, 0),
        CollectiveKind::SendRecv => (5, 0),
        CollectiveKind::Broadcast => (6, 0),
        CollectiveKind::Reduce => (7, 0),
        CollectiveKind::AllToAllV => (8, 0),
        CollectiveKind::Custom { input, output } => (CUSTOM, pair(input, output)),
        CollectiveKind::Test { input, output } => (TEST, pair(input, output)),
    };
    let flags = u8::from(request.in_place)
        | u8::from(request.registered) << 1
        | u8::from(request.multicast) << 2
        | u8::from(request.virtual_ranks) << 3
        | u8::from(request.backend == Backend::Cuda) << 4
        | (request.order as u8) << 5
        | u8::from(request.packet == PacketType::LL8) << 7;
    let op = request.op.map_or(0, |op| op as u8 + 1);
    [
        request.bytes,
        counts,
        pair(request.root, request.num_ranks),
        pair(request.ranks_per_node, request.alignment),
        pair(u32::from_le_bytes([collective, request.dtype as u8, op, flags]), place),
    ]
}

/// Returns the call that words describe; `None` for words that [`encode`] does not return.
pub(super) fn decode(words: [u64; WORDS]) -> Option<(Option<Request>, u32)> {
    let pair = |word: u64| (word as u32, (word >> 32) as u32);
    let [bytes, counts, ranks, nodes, codes] = words;
    let (codes, place) = pair(codes);
    let [collective, dtype, op, flags] = codes.to_le_bytes();
    let (input, output) = pair(counts);
    let collective = match collective {
        0 => return Some((None, place)),
        CUSTOM => CollectiveKind::Custom { input, output },
        TEST => CollectiveKind::Test { input, output },
        code => *COLLECTIVES.get(usize::from(code) - 1)?,
    };
    let flag = |bit: u8| flags >> bit & 1 != 0;
    let ((root, num_ranks), (ranks_per_node, alignment)) = (pair(ranks), pair(nodes));
    let request = Request {
        collective,
        bytes,
        dtype: *DataType::ALL.get(usize::from(dtype))?,
        // Only the text of a failure has it.
        element_name: None,
        op: if op == 0 { None } else { Some(*ReduceOp::ALL.get(usize::from(op) - 1)?) },
        root,
        num_ranks,
        ranks_per_node,
        // Calls are recorded before their devices are considered.
        max_blocks: u32::MAX,
        machine: None,
        in_place: flag(0),
        registered: flag(1),
        alignment,
        multicast: flag(2),
        order: OrderPolicy::ALL[usize::from(flags >> 5 & 3)],
        packet: if flag(7) { PacketType::LL8 } else { PacketType::LL16 },
        backend: if flag(4) { Backend::Cuda } else { Backend::Cpu },
        virtual_ranks: flag(3),
    };
    Some((Some(request), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_decoded_as_they_were_encoded() {
        assert_eq!(decode(encode(None, 7)), Some((None, 7)));
        let further = [CollectiveKind::Custom { input: 3, output: 9 }, CollectiveKind::Test { input: 0, output: 1 }];
        let mut number = 0;
        for collective in COLLECTIVES.into_iter().chain(further) {
            for &dtype in DataType::ALL {
                for op in [None].into_iter().chain(ReduceOp::ALL.map(Some)) {
                    number += 1;
                    let request = Request {
                        op,
                        root: number,
                        ranks_per_node: 5,
                        alignment: 1 << (number % 32),
                        in_place: number % 2 == 0,
                        registered: number % 3 == 0,
                        multicast: number % 5 == 0,
                        order: OrderPolicy::ALL[number as usize % OrderPolicy::ALL.len()],
                        packet: if number % 7 == 0 { PacketType::LL8 } else { PacketType::LL16 },
                        virtual_ranks: number % 11 == 0,
                        backend: if number % 13 == 0 { Backend::Cuda } else { Backend::Cpu },
                        ..Request::new(collective, number + 1, dtype, u64::MAX - u64::from(number))
                    };
                    assert_eq!(decode(encode(Some(&request), number)), Some((Some(request), number)));
                }
            }
        }
    }

    #[test]
    fn other_words_are_no_call() {
        for (byte, value) in [(0, TEST + 1), (1, 200), (2, 6)] {
            let mut codes = 1_u32.to_le_bytes();
            codes[byte] = value;
            assert_eq!(decode([0, 0, 0, 0, u32::from_le_bytes(codes).into()]), None);
        }
    }
}
