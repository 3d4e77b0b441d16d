//! Packets: packing, reading, forwarding and reducing.

use mscclpp_core::plan::raw::Op;
use mscclpp_core::plan::raw::OpKind::*;

use super::{check_packets, other};
use crate::common::{With, at, i, input, o, op, s, tree};

#[test]
fn packets_to_the_peer_and_back_to_plain() {
    let plan = tree(2, [2, 2, 4], |rank| {
        let peer = other(rank);
        vec![
            vec![op(PutPackets, &[i(0, 2)], &[at(rank, peer, s(2, 2))]).memory()],
            vec![op(UnpackPackets, &[s(2, 2)], &[o(0, 2)])],
        ]
    });
    check_packets(&plan, |rank, index| input(other(rank), index));
}

#[test]
fn packets_are_forwarded() {
    // Rank 0 packs for itself and forwards to ranks 1 and 2, which both unpack.
    let plan = tree(3, [1, 1, 2], |rank| match rank {
        0 => vec![
            vec![op(ReadPutPackets, &[s(0, 1)], &[at(0, 1, s(1, 1)), at(0, 2, s(1, 1))]).memory()],
            vec![op(CopyPackets, &[i(0, 1)], &[s(0, 1)]), op(Copy, &[i(0, 1)], &[o(0, 1)])],
        ],
        _ => vec![vec![op(UnpackPackets, &[s(1, 1)], &[o(0, 1)])]],
    });
    check_packets(&plan, |_, index| input(0, index));
}

#[test]
fn packet_reductions() {
    // Each rank sends its input to the others' slots, and reduces the packets that arrive with its own input; the four
    // kinds in turn.
    for kind in [ReducePackets, ReduceSendPackets, ReduceCopyPackets, ReduceCopySendPackets] {
        let plan = tree(3, [1, 1, 8], |rank| {
            let (next, last) = ((rank + 1) % 3, (rank + 2) % 3);
            let sources = [i(0, 1), s(next, 1), s(last, 1)];
            let sent = at(rank, next, s(4, 1));
            let copied = s(6, 1);
            let (dsts, then): (Vec<_>, Vec<Op>) = match kind {
                ReducePackets => (vec![o(0, 1)], vec![]),
                ReduceSendPackets => (vec![o(0, 1), sent], vec![op(UnpackPackets, &[s(4, 1)], &[o(0, 1)])]),
                ReduceCopyPackets => (vec![o(0, 1), copied], vec![op(UnpackPackets, &[copied], &[o(0, 1)])]),
                _ => (
                    vec![o(0, 1), copied, sent],
                    vec![op(UnpackPackets, &[copied], &[o(0, 1)]), op(UnpackPackets, &[s(4, 1)], &[o(0, 1)])],
                ),
            };
            let mut ops = vec![
                op(PutPackets, &[i(0, 1), i(0, 1)], &[at(rank, next, s(rank, 1)), at(rank, last, s(rank, 1))]).memory(),
                op(kind, &sources, &dsts).memory(),
            ];
            ops.extend(then);
            vec![ops]
        });
        check_packets(&plan, |_, index| (0..3).map(|rank| input(rank, index)).sum());
    }
}
