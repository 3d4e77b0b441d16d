//! A long sequence of mixed calls.

use std::panic;
use std::sync::Barrier;

use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;

use crate::resources::Resources;
use crate::{alone, rounds};

/// Makes mixed calls on four ranks. Compares the resources after a third of them, when the caches of prepared calls are
/// nearly full, and at the end.
fn soak(calls: u64) {
    let _alone = alone();
    let meeting = Barrier::new(4);
    let rank = |comm: Communicator| {
        let mut early = None;
        let mut shared = comm.alloc::<f32>(1 << 12).expect("a little memory");
        let mut dice = 1_u64;
        for call in 0..calls {
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // More kinds and sizes than a communicator caches.
            let len = 4 * (1 + (dice >> 40) as usize % 100);
            let me = comm.rank() as f32;
            let mut x = vec![me; len];
            match (dice >> 33) % 6 {
                0 => comm.all_reduce_in_place(&mut x, ReduceOp::Sum).map(|()| assert_eq!(x[len - 1], 6.0)),
                1 => comm.broadcast_in_place(&mut x, 2).map(|()| assert_eq!(x[0], 2.0)),
                2 => comm.all_to_all_in_place(&mut x).map(|()| assert_eq!(x[len - 1], 3.0)),
                3 => comm.reduce_in_place(&mut x, ReduceOp::Max, 1).map(|()| assert!(me != 1.0 || x[0] == 3.0)),
                4 => comm
                    .all_to_all_v(&x, &[len, 0, 0, 0])
                    .map(|got| assert_eq!(got.elements.len(), if me == 0.0 { 4 * len } else { 0 })),
                _ => {
                    shared[..len].fill(me);
                    comm.all_reduce_in_place(&mut shared[..len], ReduceOp::Sum).map(|()| assert_eq!(shared[0], 6.0))
                }
            }
            .unwrap_or_else(|error| panic!("call {call}: {error}"));
            if call == calls / 3 {
                // All ranks are between the same calls.
                meeting.wait();
                if comm.rank() == 0 {
                    early = early.or_else(|| Some(Resources::now()));
                }
                meeting.wait();
            }
        }
        meeting.wait();
        let checked = early.map(|early| panic::catch_unwind(|| early.check(16 << 20, &format!("{calls} calls"))));
        meeting.wait();
        checked.map_or(Ok(()), |checked| checked).unwrap_or_else(|panic| panic::resume_unwind(panic));
    };
    let comms = Communicator::local(4).expect("a group");
    std::thread::scope(|scope| comms.into_iter().for_each(|comm| drop(scope.spawn(|| rank(comm)))));
}

#[test]
fn few_calls_leave_nothing() {
    soak(3_000);
}

#[test]
#[ignore = "takes minutes"]
fn many_calls_leave_nothing() {
    soak(rounds::number("MSCCLPP_SOAK_CALLS").unwrap_or(1_000_000));
}
