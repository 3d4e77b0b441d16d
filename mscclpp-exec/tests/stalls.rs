//! Plans that stall end in a report of what each thread block waits for, and the executor remains usable.

use crate::common::{With, at, barrier, i, o, op, pipeline, s, signal, tree, wait, world};
use mscclpp_core::plan::raw::OpKind::{self, *};
use mscclpp_core::plan::{
    Plan,
    raw::{Op, PlanTree},
};
use mscclpp_core::types::ChannelKind;
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::error::{BlockedThreadBlock, Stall, UnblockedBy, WaitsFor};
use mscclpp_exec::{DataType, Error, Message};

/// Returns the report of a plan, which must be the same under every schedule and in a second launch.
#[track_caller]
fn stall(tree: &PlanTree) -> Stall {
    let mut reports: Vec<Stall> = Vec::new();
    for schedule in crate::common::schedules() {
        let world = world(tree.ranks.len() as u32, schedule);
        let mut run = world.prepare(&Plan::new(tree), Message::of::<i32>(40)).expect("a plan that can be prepared");
        let mut buffers = run.buffers().expect("memory");
        for launch in 1..3 {
            let Err(Error::Stalled(stall)) = run.launch_buffers(&mut buffers) else {
                panic!("{schedule:?}: the plan does not stall");
            };
            assert_eq!(stall.launch, launch);
            reports.push(Stall { launch: 1, ..*stall });
        }
    }
    for report in &mut reports {
        // Flags of packets count launches.
        for blocked in &mut report.blocked {
            if let WaitsFor::Packet { expected, .. } = &mut blocked.waits_for {
                *expected = 1;
            }
        }
    }
    assert!(reports.iter().all(|report| *report == reports[0]), "{reports:#?}");
    reports.swap_remove(0)
}

/// Returns the report of a plan in which the waits depend on the schedule.
#[track_caller]
fn one_stall(tree: &PlanTree) -> Stall {
    let world = Executor::new(tree.ranks.len() as u32);
    let mut run = world.prepare(&Plan::new(tree), Message::of::<i32>(40)).expect("a plan that can be prepared");
    match run.launch_buffers(&mut run.buffers().expect("memory")) {
        Err(Error::Stalled(stall)) => *stall,
        other => panic!("{other:?}"),
    }
}

fn by(rank: u32, block: u32, op: u32, kind: OpKind) -> UnblockedBy {
    UnblockedBy::Operation { rank, block, op, kind, location: None }
}

#[test]
fn cycle_of_waits_is_reported() {
    let plan = tree(2, [1, 1, 0], |rank| vec![vec![wait(rank, &[1 - rank]), signal(rank, &[1 - rank])]]);
    let stall = stall(&plan);
    assert_eq!((stall.plan.as_str(), stall.num_blocks, stall.blocked.len()), ("by hand", 2, 2));
    let expected = BlockedThreadBlock {
        rank: 0,
        block: 0,
        op: 0,
        kind: Wait,
        iteration: None,
        location: None,
        waits_for: WaitsFor::Signal { channel: ChannelKind::Memory, id: 0, peer: 1, expected: 1, seen: 0 },
        unblocked_by: by(1, 0, 1, Signal),
    };
    assert_eq!(stall.blocked[0], expected);
    assert_eq!(
        stall.to_string(),
        "plan `by hand` stalled in launch 1: 2 of 2 thread blocks are blocked forever\n  \
         rank 0 / thread block 0 / operation 0 (wait) waits for a signal of rank 1 on its memory channel 0: expected \
         1, found 0; rank 1 / thread block 0 / operation 1 (signal) would unblock it, but was not reached\n  \
         rank 1 / thread block 0 / operation 0 (wait) waits for a signal of rank 0 on its memory channel 0: expected \
         1, found 0; rank 0 / thread block 0 / operation 1 (signal) would unblock it, but was not reached"
    );
}

#[test]
fn wait_without_releaser_is_listed_first() {
    // Rank 0 waits for rank 1, which waits for rank 2, which has ended.
    let plan = tree(3, [1, 1, 0], |rank| match rank {
        0 => vec![vec![wait(0, &[1])]],
        1 => vec![vec![wait(1, &[2]), signal(1, &[0])]],
        _ => vec![vec![signal(2, &[0])]],
    });
    let stall = stall(&plan);
    let found: Vec<_> = stall.blocked.iter().map(|blocked| (blocked.rank, &blocked.unblocked_by)).collect();
    assert_eq!(found, [(1, &UnblockedBy::Nothing), (0, &by(1, 0, 1, Signal))]);
}

#[test]
fn semaphores_and_barriers() {
    let plan = tree(1, [1, 1, 0], |_| {
        vec![
            vec![op(SemaphoreAcquire, &[], &[]).ids(&[1, 0]), barrier(5, 2)],
            vec![op(SemaphoreAcquire, &[], &[]).ids(&[1]), op(SemaphoreRelease, &[], &[]).ids(&[0])],
            vec![barrier(5, 2)],
        ]
    });
    let stall = one_stall(&plan);
    // Block 0 takes the only unit of semaphore 1 and waits for block 1 to release one of semaphore 0; block 1 waits for
    // that unit.
    let waits = |block: u32| stall.blocked.iter().find(|blocked| blocked.block == block).expect("it waits");
    assert_eq!(waits(0).waits_for, WaitsFor::Semaphore { id: 0, value: 0 });
    assert_eq!(waits(0).unblocked_by, by(0, 1, 1, SemaphoreRelease));
    assert_eq!(waits(1).waits_for, WaitsFor::Semaphore { id: 1, value: 0 });
    assert_eq!(waits(1).unblocked_by, UnblockedBy::Nothing);
    assert_eq!(waits(2).waits_for, WaitsFor::Barrier { id: 5, arrived: 1, expected: 2 });
    assert_eq!(waits(2).unblocked_by, by(0, 0, 1, Barrier));
}

#[test]
fn missing_packets_are_reported() {
    let plan = tree(2, [2, 2, 2], |rank| match rank {
        // The second chunk is sent only after a wait.
        0 => vec![vec![
            op(PutPackets, &[i(0, 1)], &[at(0, 1, s(0, 1))]).memory(),
            wait(0, &[1]),
            op(PutPackets, &[i(1, 1)], &[at(0, 1, s(1, 1))]).memory(),
        ]],
        _ => vec![vec![op(UnpackPackets, &[s(0, 2)], &[o(0, 2)]), signal(1, &[0])]],
    });
    let stall = stall(&plan);
    let unpack = &stall.blocked[1];
    assert_eq!((unpack.rank, unpack.kind), (1, UnpackPackets));
    // 20 elements per chunk are 80 bytes, that is 10 packets of 8 bytes.
    assert_eq!(unpack.waits_for, WaitsFor::Packet { chunk: 0, packet: 10, expected: 1, seen: 0 });
    assert_eq!(unpack.unblocked_by, by(0, 0, 2, PutPackets));
    assert_eq!(stall.blocked[0].unblocked_by, by(1, 0, 1, Signal));
}

#[test]
fn loops_name_their_iteration() {
    let plan = tree(2, [1, 1, 0], |rank| match rank {
        0 => vec![vec![pipeline(64, 1, vec![wait(0, &[1])])]],
        _ => vec![vec![signal(1, &[0]), signal(1, &[0])]],
    });
    let stall = stall(&plan);
    // 160 bytes make three windows of 64.
    assert_eq!((stall.blocked[0].op, stall.blocked[0].iteration), (1, Some(2)));
    let WaitsFor::Signal { expected, seen, .. } = stall.blocked[0].waits_for else { panic!("{stall}") };
    assert_eq!((expected, seen), (3, 2));
}

#[test]
fn crossed_channels() {
    // Signals on channel 0, waits on channel 1: the right number, but on the wrong channel.
    let mut plan = tree(2, [1, 1, 0], |rank| vec![vec![signal(rank, &[1 - rank]), wait(rank, &[1 - rank])]]);
    for rank in 0..2 {
        let peer = 1 - rank as u32;
        plan.ranks[rank].channels[0] = mscclpp_core::plan::raw::ChannelTable::Memory(vec![peer, peer]);
        plan.ranks[rank].blocks[0].channels[0].1 = vec![0, 1].into();
        plan.ranks[rank].blocks[0].ops[1].ids[0] = 1;
    }
    let stall = stall(&plan);
    assert_eq!(stall.blocked.len(), 2);
    assert!(stall.blocked.iter().all(|blocked| blocked.unblocked_by == UnblockedBy::Nothing));
}

#[test]
fn many_blocked_blocks_are_abbreviated_only_in_texts() {
    let plan = tree(2, [1, 1, 0], |rank| (0..20).map(|_| vec![wait(rank, &[1 - rank])]).collect());
    let stall = one_stall(&plan);
    assert_eq!(stall.blocked.len(), 40);
    let text = stall.to_string();
    assert_eq!(text.lines().count(), 1 + 8 + 1);
    assert!(text.ends_with("and 32 more"), "{text}");
    let diagnostic = Error::Stalled(Box::new(stall)).diagnostic().to_string();
    assert!(diagnostic.contains("[M0401 stalled]") && diagnostic.contains("and 32 more"), "{diagnostic}");
}

/// A ring: each rank forwards its data after a signal; stalls if rank 0 does not start without one.
fn ring(ranks: u32, starts: bool) -> PlanTree {
    tree(ranks, [1, 1, 0], |rank| {
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let mut ops: Vec<Op> = Vec::new();
        if rank > 0 || !starts {
            ops.push(wait(rank, &[last]));
        }
        ops.push(op(Put, &[i(0, 1)], &[at(rank, next, o(0, 1))]).memory());
        ops.push(signal(rank, &[next]));
        if rank == 0 && starts {
            ops.push(wait(rank, &[last]));
        }
        vec![ops]
    })
}

#[test]
fn long_chain_of_waits_is_no_stall_in_any_schedule() {
    for workers in [1, 2, 3, 4] {
        let world = Executor::with_options(40, Options::default().workers(Some(workers)).parallel_from(0));
        for (starts, launches) in [(true, 400), (false, 20), (true, 50)] {
            let mut run = world.prepare(&Plan::new(&ring(40, starts)), Message::of::<i32>(1)).expect("a plan");
            let mut buffers = run.buffers().expect("memory");
            for _ in 0..launches {
                match run.launch_buffers(&mut buffers) {
                    Ok(()) => assert!(starts),
                    Err(Error::Stalled(stall)) => assert!(!starts && stall.blocked.len() == 40, "{stall}"),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

#[test]
fn stall_does_not_affect_other_plans() {
    let world = Executor::with_options(2, Options::default().schedule(Schedule::Seeded(3)));
    let message = Message::new(DataType::F32, 64);
    let mut good = world.prepare(&Plan::new(&ring(2, true)), message).expect("a plan");
    let mut bad = world.prepare(&Plan::new(&ring(2, false)), message).expect("a plan");
    let mut buffers = good.buffers().expect("memory");
    for _ in 0..3 {
        good.launch_buffers(&mut buffers).expect("it goes on");
        assert!(matches!(bad.launch_buffers(&mut buffers), Err(Error::Stalled(_))));
    }
}
