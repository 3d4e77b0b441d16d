//! Ports, which are asynchronous to the blocks.

use mscclpp_core::plan::raw::Op;
use mscclpp_core::plan::raw::OpKind::*;

use super::{check_packets, other};
use crate::common::{With, at, check, i, input, o, op, s, to, tree};

#[test]
fn ports_transfer_in_order_asynchronously() {
    let plan = tree(2, [2, 2, 2], |rank| {
        let peer = other(rank);
        let channel = [to(rank, peer)];
        let port = |kind, chunk: u32| op(kind, &[i(chunk, 1)], &[at(rank, peer, o(chunk, 1))]).port(&channel);
        let port_sync = |kind| op(kind, &[], &[]).port(&channel);
        vec![vec![
            // The signal follows the put; the source may be overwritten only after a flush.
            op(Put, &[i(0, 1)], &[at(rank, peer, s(0, 1))]).port(&channel),
            port_sync(Flush),
            op(Copy, &[i(1, 1)], &[i(0, 1)]),
            port_sync(Signal),
            port_sync(Wait),
            op(Copy, &[s(0, 1)], &[o(0, 1)]),
            port(PutWithSignalAndFlush, 1),
            op(Copy, &[s(0, 1)], &[i(1, 1)]),
            port_sync(Wait),
        ]]
    });
    check(&plan, |rank, chunk, e, input| Some(input(other(rank), chunk, e)));
}

#[test]
fn put_with_signal_is_complete_when_its_signal_arrives() {
    let plan = tree(2, [2, 3, 2], |rank| {
        let peer = other(rank);
        let channel = [to(rank, peer)];
        vec![vec![
            op(PutWithSignal, &[i(0, 1), i(1, 1)], &[at(rank, peer, s(1, 1)), at(rank, peer, s(0, 1))])
                .port(&[channel[0], channel[0]]),
            op(Wait, &[], &[]).port(&channel),
            op(Copy, &[s(1, 1)], &[o(0, 1)]),
            op(Wait, &[], &[]).port(&channel),
            op(Copy, &[s(0, 1)], &[o(1, 1)]),
        ]]
    });
    check(&plan, |rank, chunk, e, input| (chunk < 2).then(|| input(other(rank), chunk, e)));
}

#[test]
fn ports_send_arrived_packets() {
    let plan = tree(2, [1, 1, 3], |rank| {
        let peer = other(rank);
        let channel = [to(rank, peer)];
        vec![
            vec![
                op(CopyPackets, &[i(0, 1)], &[s(0, 1)]),
                op(PutPackets, &[s(0, 1)], &[at(rank, peer, s(1, 1))]).port(&channel),
            ],
            // Waits for the packets of the peer, and sends them back.
            vec![op(ReadPutPackets, &[s(1, 1)], &[at(rank, peer, s(2, 1))]).port(&channel)],
            vec![op(UnpackPackets, &[s(2, 1)], &[o(0, 1)])],
        ]
    });
    check_packets(&plan, input);
}

#[test]
fn more_port_triggers_than_the_queue_holds() {
    let plan = tree(2, [1, 1, 0], |rank| {
        let channel = [to(rank, other(rank))];
        let mut ops: Vec<Op> =
            (0..1300).map(|_| op(Put, &[i(0, 1)], &[at(rank, other(rank), o(0, 1))]).port(&channel)).collect();
        ops.push(op(PutWithSignal, &[i(0, 1)], &[at(rank, other(rank), o(0, 1))]).port(&channel));
        ops.push(op(Wait, &[], &[]).port(&channel));
        vec![ops]
    });
    check(&plan, |rank, chunk, e, input| Some(input(other(rank), chunk, e)));
}
