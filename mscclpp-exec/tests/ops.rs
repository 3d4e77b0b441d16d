//! Every kind of operation on its own, under many schedules and with sizes that divide and that do not.

mod common;

use common::{With, all, at, barrier, check, i, input, o, op, pipeline, s, signal, sync, to, tree, wait};
use mscclpp_core::plan::OpKind::*;
use mscclpp_core::plan::{Op, Plan};
use mscclpp_core::vocab::ReduceOp;
use mscclpp_exec::cpu::{Options, Schedule, World};
use mscclpp_exec::{Message, Packet};

fn other(rank: u32) -> u32 {
    1 - rank
}

#[test]
fn copy_and_nop() {
    let plan = tree(1, [3, 3, 0], |_| {
        vec![vec![op(Copy, &[i(1, 2)], &[o(0, 2)]), op(Nop, &[], &[]), op(Copy, &[i(0, 1)], &[o(2, 1)])]]
    });
    check(&plan, |rank, chunk, e, input| Some(input(rank, [1, 2, 0][chunk as usize], e)));
}

#[test]
fn a_group_splits_every_reference() {
    let plan = tree(1, [3, 3, 0], |_| (0..4).map(|k| vec![op(Copy, &[i(0, 3)], &[o(0, 3)]).part(k, 4)]).collect());
    check(&plan, |rank, chunk, e, input| Some(input(rank, chunk, e)));
}

#[test]
fn puts_from_several_buffers_in_one_operation() {
    let plan = tree(2, [2, 2, 1], |rank| {
        let peer = other(rank);
        vec![vec![
            op(Copy, &[i(1, 1)], &[s(0, 1)]),
            op(Nop, &[], &[]),
            op(Put, &[i(0, 1), s(0, 1)], &[at(rank, peer, o(1, 1)), at(rank, peer, o(0, 1))]).memory(),
        ]]
    });
    check(&plan, |rank, chunk, e, input| Some(input(other(rank), 1 - chunk, e)));
}

#[test]
fn get_keeps_source_and_destination_apart() {
    let plan = tree(2, [3, 3, 0], |rank| {
        let peer = other(rank);
        vec![vec![
            op(Get, &[at(rank, peer, i(2, 1)), at(rank, peer, i(0, 1))], &[o(0, 1), o(1, 1)]).memory().ids(&[0, 0]),
        ]]
    });
    check(&plan, |rank, chunk, e, input| {
        [Some(2), Some(0), None][chunk as usize].map(|from| input(other(rank), from, e))
    });
}

#[test]
fn reductions_of_local_and_remote_data() {
    for reduce in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
        let plan = tree(3, [3, 4, 0], |rank| {
            let (next, last) = ((rank + 1) % 3, (rank + 2) % 3);
            vec![vec![
                op(Reduce, &[i(0, 1), i(1, 1), i(2, 1)], &[o(0, 1)]).by(reduce),
                op(ReduceSend, &[i(2, 1), i(0, 1)], &[o(1, 1), at(rank, next, o(2, 1))]).memory().by(reduce),
                op(ReadReduce, &[i(1, 1), at(rank, next, i(1, 1)), at(rank, last, i(1, 1))], &[o(3, 1)])
                    .memory()
                    .by(reduce),
            ]]
        });
        let combine = |a: i32, b: i32| match reduce {
            ReduceOp::Prod => a.wrapping_mul(b),
            ReduceOp::Min => a.min(b),
            ReduceOp::Max => a.max(b),
            _ => a + b,
        };
        check(&plan, |rank, chunk, e, input| {
            Some(match chunk {
                0 => combine(combine(input(rank, 0, e), input(rank, 1, e)), input(rank, 2, e)),
                1 => combine(input(rank, 2, e), input(rank, 0, e)),
                2 => combine(input((rank + 2) % 3, 2, e), input((rank + 2) % 3, 0, e)),
                _ => combine(combine(input(0, 1, e), input(1, 1, e)), input(2, 1, e)),
            })
        });
    }
}

#[test]
fn reductions_that_read_and_send() {
    let plan = tree(2, [2, 2, 0], |rank| {
        let peer = other(rank);
        let mine = o(rank, 1);
        vec![vec![
            op(ReadReduceSend, &[i(rank, 1), at(rank, peer, i(rank, 1))], &[mine, at(rank, peer, mine)]).memory(),
        ]]
    });
    check(&plan, |_, chunk, e, input| Some(input(0, chunk, e) + input(1, chunk, e)));
}

/// Both packet kinds give the same results; only how much is waited for at once differs.
fn check_packets(plan: &mscclpp_core::plan::PlanTree, expected: impl Fn(u32, usize) -> i32) {
    for packet in [Packet::LL16, Packet::LL8] {
        for schedule in common::schedules() {
            let world = common::world(plan.ranks.len() as u32, schedule);
            for count in [8, 700, 701] {
                let message = Message::of::<i32>(count).packet(packet);
                let mut case = common::Case::new(&world, &Plan::new(plan), message).expect("a plan");
                for _ in 0..3 {
                    let outputs = case.launch().unwrap_or_else(|error| panic!("{schedule:?} {packet:?}: {error}"));
                    for (rank, output) in outputs.iter().enumerate() {
                        for (index, &found) in output.iter().enumerate() {
                            assert_eq!(found, expected(rank as u32, index), "{packet:?} {count} {rank} {index}");
                        }
                    }
                }
            }
        }
    }
}

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
    // 0 packs for itself, forwards to 1 and 2, which both unpack.
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
    // Each rank sends its input to the others' slots, and reduces what arrives with its own; the four kinds in turn.
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

#[test]
fn switch_operations() {
    let peers = |rank: u32| (0..3).filter(|&peer| peer != rank).collect::<Vec<_>>();
    let plan = tree(3, [3, 6, 3], |rank| {
        let meet = || vec![signal(rank, &peers(rank)), wait(rank, &peers(rank))];
        let mut ops = vec![
            // Reduced for oneself.
            op(SwitchReduce, &[all(i(0, 1))], &[o(0, 1)]).switch(),
            // Reduced here, stored there: at another offset.
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

#[test]
fn ports_transfer_in_order_behind_the_blocks() {
    let plan = tree(2, [2, 2, 2], |rank| {
        let peer = other(rank);
        let channel = [to(rank, peer)];
        let port = |kind, chunk: u32| op(kind, &[i(chunk, 1)], &[at(rank, peer, o(chunk, 1))]).port(&channel);
        let port_sync = |kind| op(kind, &[], &[]).port(&channel);
        vec![vec![
            // The signal travels behind the put; the source may be overwritten only after a flush.
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
fn a_put_with_signal_is_there_when_its_signal_is() {
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
fn ports_send_packets_that_are_there() {
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

#[test]
fn barriers_join_blocks() {
    // Block k copies chunk k to scratch; behind the barrier each reads another block's chunk. Twice, to reuse the barrier.
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
fn semaphores_hand_over_windows() {
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
fn pipelines_end_with_their_data() {
    // Windows of every size against chunks of 16, 1200 and 1040 bytes; a loop may also span more chunks than an operation.
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
    // Windows of 32 bytes handed over one at a time, so that scratch may hold as little as one.
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
                let options = Options { scratch_pool: pool, schedule, ..Options::default() };
                let world = World::with_options(2, options);
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
    // Where nothing keeps the first block from overtaking the second, scratch is as long as the message.
    let overtaking = tree(1, [2, 2, 2], |_| {
        let into = vec![op(Copy, &[i(0, 2)], &[s(0, 2)]), op(Nop, &[], &[]), op(SemaphoreRelease, &[], &[]).ids(&[0])];
        let out = vec![op(SemaphoreAcquire, &[], &[]).ids(&[0]), op(Nop, &[], &[]), op(Copy, &[s(0, 2)], &[o(0, 2)])];
        vec![vec![pipeline(32, 2, into)], vec![pipeline(32, 2, out)]]
    });
    let overtaking = mscclpp_core::plan::PlanTree { reuse_resources: true, ..overtaking };
    for seed in 0..20 {
        let options = Options { scratch_pool: 64, schedule: Schedule::Seeded(seed), ..Options::default() };
        let world = World::with_options(1, options);
        let mut case = common::Case::new(&world, &Plan::new(&overtaking), Message::of::<i32>(1001)).expect("a plan");
        let outputs = case.launch().expect("no stall");
        assert_eq!(outputs[0], (0..1001).map(|index| input(0, index)).collect::<Vec<i32>>());
    }
    // A limit on scratch holds where it does not wrap: 2 ranks with 2 halves of 2 chunks of 2000 bytes or more.
    plan.reuse_resources = false;
    let world = World::with_options(2, Options { scratch_limit: 16_000, ..Options::default() });
    let error = world.prepare(&Plan::new(&plan), Message::of::<i32>(1001)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("needs 16128 bytes of scratch") && error.contains("limit is 16000 bytes"), "{error}");
}

#[test]
fn counters_last_over_launches() {
    // Rank 0 signals twice a launch, rank 1 waits once: the second launch's wait is answered by the first one's signal.
    let plan = tree(2, [1, 1, 0], |rank| match rank {
        0 => vec![vec![signal(0, &[1]), signal(0, &[1]), op(Copy, &[i(0, 1)], &[o(0, 1)])]],
        _ => vec![vec![wait(1, &[0]), op(Copy, &[i(0, 1)], &[o(0, 1)])]],
    });
    check(&plan, |rank, chunk, e, input| Some(input(rank, chunk, e)));
}

#[test]
fn a_custom_plan_copies_what_it_says() {
    let plan = tree(1, [2, 4, 0], |_| vec![vec![op(Copy, &[i(0, 2)], &[o(2, 2)])]]);
    check(&plan, |rank, chunk, e, input| (chunk >= 2).then(|| input(rank, chunk - 2, e)));
}

/// Also for Miri, which finds no data race in it.
#[test]
fn a_plan_that_races_gives_one_value_or_the_other() {
    // Both ranks write rank 0's output, while two blocks of it copy that on, one as packets.
    let plan = tree(2, [1, 2, 1], |rank| match rank {
        0 => vec![
            vec![op(Copy, &[i(0, 1)], &[o(0, 1)])],
            vec![op(Copy, &[o(0, 1)], &[o(1, 1)])],
            vec![op(CopyPackets, &[o(0, 1)], &[s(0, 1)]), op(UnpackPackets, &[s(0, 1)], &[o(1, 1)])],
        ],
        _ => vec![vec![op(Put, &[i(0, 1)], &[at(1, 0, o(0, 1))]).memory()]],
    });
    let options = Options { workers: Some(3), parallel_from: 0, ..Options::default() };
    let world = World::with_options(2, options);
    let (launches, count) = if cfg!(miri) { (2, 60) } else { (300, 3000) };
    let mut case = common::Case::new(&world, &Plan::new(&plan), Message::of::<i32>(count)).expect("a plan");
    for _ in 0..launches {
        let outputs = case.launch().expect("nothing waits");
        for (index, &found) in outputs[0][..count / 2].iter().enumerate() {
            assert!([input(0, index), input(1, index)].contains(&found), "{index}: {found}");
        }
    }
}
