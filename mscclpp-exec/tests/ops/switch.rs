//! Operations on the ranks of a switch.

use mscclpp_core::plan::raw::OpKind::*;

use crate::common::{With, all, check, i, o, op, s, signal, tree, wait};

#[test]
fn switch_operations() {
    let peers = |rank: u32| (0..3).filter(|&peer| peer != rank).collect::<Vec<_>>();
    let plan = tree(3, [3, 6, 3], |rank| {
        let meet = || vec![signal(rank, &peers(rank)), wait(rank, &peers(rank))];
        let mut ops = vec![
            // Reduced into this rank's output only.
            op(SwitchReduce, &[all(i(0, 1))], &[o(0, 1)]).switch(),
            // Reduced here, stored on all ranks at another offset.
            op(SwitchReduceBroadcast, &[all(i(rank, 1))], &[all(o(3 + rank, 1))]).switch(),
        ];
        if rank == 1 {
            ops.push(op(SwitchBroadcast, &[i(2, 1)], &[all(o(1, 1))]).switch());
        }
        ops.push(op(CopyPackets, &[i(1, 1)], &[s(0, 1)]));
        if rank == 2 {
            ops.push(op(SwitchBroadcastPackets, &[s(0, 1)], &[all(s(1, 1))]).switch());
        }
        ops.push(op(UnpackPackets, &[s(1, 1)], &[o(2, 1)]));
        ops.extend(meet());
        vec![ops]
    });
    check(&plan, |_, chunk, e, input| {
        let sum = |chunk| (0..3).map(|rank| input(rank, chunk, e)).sum();
        Some(match chunk {
            0 => sum(0),
            1 => input(1, 2, e),
            2 => input(2, 1, e),
            _ => sum(chunk - 3),
        })
    });
}
