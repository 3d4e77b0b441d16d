//! Pipelined loops, and scratch that launches share.

use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind::*;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_exec::Message;
use mscclpp_exec::cpu::{Executor, Options, Schedule};

use super::{check_packets, other};
use crate::common::{self, With, at, check, i, input, o, op, pipeline, s, signal, tree, wait};

#[test]
fn pipelines_end_at_the_end_of_their_data() {
    // Windows of every size with chunks of 16, 1200 and 1040 bytes; a loop may also span more chunks than an operation.
    for unit in [16, 48, 64, 400, 1 << 20] {
        let plan = tree(2, [2, 2, 4], |rank| {
            let peer = other(rank);
            let body = vec![
                op(Put, &[i(0, 2)], &[at(rank, peer, s(0, 2))]).memory(),
                signal(rank, &[peer]),
                wait(rank, &[peer]),
                op(Copy, &[s(0, 2)], &[o(0, 2)]),
            ];
            vec![vec![pipeline(unit, 2, body)]]
        });
        check(&plan, |rank, chunk, e, input| Some(input(other(rank), chunk, e)));
        let groups = tree(1, [2, 2, 0], |_| {
            (0..3).map(|k| vec![pipeline(unit, 2, vec![op(Copy, &[i(0, 2)], &[o(0, 2)]).part(k, 3)])]).collect()
        });
        check(&groups, |rank, chunk, e, input| Some(input(rank, chunk, e)));
        // An in-place reduction in a loop adds every element once.
        let packets = tree(2, [1, 1, 2], |rank| {
            let peer = other(rank);
            let body = vec![
                op(PutPackets, &[i(0, 1)], &[at(rank, peer, s(0, 1))]).memory(),
                op(ReducePackets, &[i(0, 1), s(0, 1)], &[o(0, 1)]),
            ];
            vec![vec![pipeline(unit, 2, body)]]
        });
        check_packets(&packets, |_, index| input(0, index) + input(1, index));
    }
}

#[test]
fn scratch_is_double_and_wraps() {
    // Windows of 32 bytes are transferred one at a time, so that scratch may hold as little as one.
    let mut plan = tree(2, [2, 2, 2], |rank| {
        let peer = other(rank);
        let body = vec![
            op(Put, &[i(0, 2)], &[at(rank, peer, s(0, 2))]).memory(),
            signal(rank, &[peer]),
            wait(rank, &[peer]),
            op(Copy, &[s(0, 2)], &[o(0, 2)]),
            signal(rank, &[peer]),
            wait(rank, &[peer]),
        ];
        vec![vec![pipeline(32, 2, body)]]
    });
    for (double, reuse) in [(true, false), (false, true), (true, true)] {
        (plan.double_scratch, plan.reuse_resources) = (double, reuse);
        for pool in [64, 100, 1 << 20] {
            for schedule in [Schedule::RoundRobin, Schedule::Seeded(1)] {
                let options = Options::default().scratch_pool(pool).schedule(schedule);
                let world = Executor::with_options(2, options);
                let mut case = common::Case::new(&world, &Plan::new(&plan), Message::of::<i32>(1001)).expect("a plan");
                for _ in 0..3 {
                    let outputs = case.launch().expect("no stall");
                    for (rank, output) in outputs.iter().enumerate() {
                        let expected: Vec<i32> = (0..1001).map(|index| input(1 - rank as u32, index)).collect();
                        assert_eq!(*output, expected, "{double} {reuse} {pool}");
                    }
                }
            }
        }
    }
    // Where no synchronization keeps the first block from overtaking the second, scratch is as long as the message.
    let overtaking = tree(1, [2, 2, 2], |_| {
        let into = vec![op(Copy, &[i(0, 2)], &[s(0, 2)]), op(Nop, &[], &[]), op(SemaphoreRelease, &[], &[]).ids(&[0])];
        let out = vec![op(SemaphoreAcquire, &[], &[]).ids(&[0]), op(Nop, &[], &[]), op(Copy, &[s(0, 2)], &[o(0, 2)])];
        vec![vec![pipeline(32, 2, into)], vec![pipeline(32, 2, out)]]
    });
    let overtaking = PlanTree { reuse_resources: true, ..overtaking };
    for seed in 0..20 {
        let options = Options::default().scratch_pool(64).schedule(Schedule::Seeded(seed));
        let world = Executor::with_options(1, options);
        let mut case = common::Case::new(&world, &Plan::new(&overtaking), Message::of::<i32>(1001)).expect("a plan");
        let outputs = case.launch().expect("no stall");
        assert_eq!(outputs[0], (0..1001).map(|index| input(0, index)).collect::<Vec<i32>>());
    }
    // A limit on scratch applies where it does not wrap: 2 ranks with 2 halves of 2 chunks of 2000 bytes or more.
    plan.reuse_resources = false;
    let world = Executor::with_options(2, Options::default().scratch_limit(16_000));
    let error = world.prepare(&Plan::new(&plan), Message::of::<i32>(1001)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("needs 16128 bytes of scratch") && error.contains("limit is 16000 bytes"), "{error}");
}
