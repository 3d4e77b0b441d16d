//! Barriers, semaphores and signals, and the effects of missing ones.

use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind::*;
use mscclpp_exec::Message;
use mscclpp_exec::cpu::{Executor, Options};

use super::other;
use crate::common::{self, With, at, barrier, check, i, input, o, op, s, signal, sync, tree, wait};

#[test]
fn barriers_join_blocks() {
    // Block k copies chunk k to scratch; after the barrier each reads another block's chunk. Twice, to reuse the
    // barrier.
    let plan = tree(1, [3, 3, 3], |_| {
        (0..3)
            .map(|k| {
                let round = |shift: u32| {
                    vec![
                        op(Copy, &[i((k + shift) % 3, 1)], &[s(k, 1)]),
                        barrier(7, 3),
                        op(Copy, &[s((k + 1) % 3, 1)], &[o(k, 1)]),
                        barrier(7, 3),
                    ]
                };
                [round(0), round(1)].concat()
            })
            .collect()
    });
    check(&plan, |rank, chunk, e, input| Some(input(rank, (chunk + 2) % 3, e)));
}

#[test]
fn semaphores_order_accesses_to_windows() {
    // One block fills two windows of scratch, the other empties them: semaphore 2 counts free ones, 0 full ones.
    let plan = tree(1, [6, 6, 2], |_| {
        let (mut fill, mut empty) = (Vec::new(), Vec::new());
        for k in 0..6 {
            fill.extend([
                op(SemaphoreAcquire, &[], &[]).ids(&[2]),
                op(Copy, &[i(k, 1)], &[s(k % 2, 1)]),
                op(SemaphoreRelease, &[], &[]).ids(&[0]),
            ]);
            empty.extend([
                op(SemaphoreAcquire, &[], &[]).ids(&[0]),
                op(Copy, &[s(k % 2, 1)], &[o(k, 1)]),
                op(SemaphoreRelease, &[], &[]).ids(&[2]),
            ]);
        }
        vec![fill, empty]
    });
    check(&plan, |rank, chunk, e, input| Some(input(rank, chunk, e)));
}

#[test]
fn relaxed_signals_count_like_others() {
    let plan = tree(2, [1, 1, 0], |rank| {
        let peer = other(rank);
        vec![vec![
            sync(RelaxedSignal, rank, &[peer]),
            sync(RelaxedWait, rank, &[peer]),
            op(Put, &[i(0, 1)], &[at(rank, peer, o(0, 1))]).memory(),
            signal(rank, &[peer]),
            wait(rank, &[peer]),
        ]]
    });
    check(&plan, |rank, chunk, e, input| Some(input(other(rank), chunk, e)));
}

#[test]
fn counters_persist_across_launches() {
    // Rank 0 signals twice per launch, rank 1 waits once: the second launch's wait consumes the first one's signal.
    let plan = tree(2, [1, 1, 0], |rank| match rank {
        0 => vec![vec![signal(0, &[1]), signal(0, &[1]), op(Copy, &[i(0, 1)], &[o(0, 1)])]],
        _ => vec![vec![wait(1, &[0]), op(Copy, &[i(0, 1)], &[o(0, 1)])]],
    });
    check(&plan, |rank, chunk, e, input| Some(input(rank, chunk, e)));
}

/// Also run with Miri, which finds no data race in it.
#[test]
fn racing_plan_yields_one_of_the_written_values() {
    // Both ranks write rank 0's output, while two of its blocks copy the output, one as packets.
    let plan = tree(2, [1, 2, 1], |rank| match rank {
        0 => vec![
            vec![op(Copy, &[i(0, 1)], &[o(0, 1)])],
            vec![op(Copy, &[o(0, 1)], &[o(1, 1)])],
            vec![op(CopyPackets, &[o(0, 1)], &[s(0, 1)]), op(UnpackPackets, &[s(0, 1)], &[o(1, 1)])],
        ],
        _ => vec![vec![op(Put, &[i(0, 1)], &[at(1, 0, o(0, 1))]).memory()]],
    });
    let options = Options::default().workers(Some(3)).parallel_from(0);
    let world = Executor::with_options(2, options);
    let (launches, count) = if cfg!(miri) { (2, 60) } else { (300, 3000) };
    let mut case = common::Case::new(&world, &Plan::new(&plan), Message::of::<i32>(count)).expect("a plan");
    for _ in 0..launches {
        let outputs = case.launch().expect("nothing waits");
        for (index, &found) in outputs[0][..count / 2].iter().enumerate() {
            assert!([input(0, index), input(1, index)].contains(&found), "{index}: {found}");
        }
    }
}
