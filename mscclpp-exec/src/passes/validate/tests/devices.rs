//! Launch barriers: those of the pass hold, those with a fault do not.

use super::*;
use crate::interpret::Action;
use crate::interpret::program::Instr;

#[test]
fn built_in_algorithms_run_as_proved_on_devices() {
    let mut validated = 0;
    for (name, plan, ranks, node) in built_in(&MACHINES) {
        for launch in DeviceLaunch::variants(ranks, node) {
            validate_devices(&plan, &launch).unwrap_or_else(|invalid| panic!("{name}, {launch:?}: {invalid}"));
            validated += 1;
        }
    }
    println!("{validated} plans and ways to put ranks on devices");
    assert!(validated > 200);
}

/// Takes operations out, or puts them elsewhere, and keeps the tables right.
fn edit(program: &mut Program, mut edit: impl FnMut(u32, u32, &mut Vec<Instr>)) {
    let mut instrs = Vec::new();
    for code in &mut program.agents {
        let mut own = program.instrs[code.start as usize..code.end as usize].to_vec();
        edit(code.rank, code.block, &mut own);
        code.start = instrs.len() as u32;
        instrs.append(&mut own);
        code.end = instrs.len() as u32;
    }
    program.instrs = instrs;
}

#[test]
fn planted_faults_in_launch_barriers_are_found() {
    let algorithm = algorithms::find("allreduce_all_pairs").expect("it is in the library");
    let plan =
        algorithm.compile(algorithm.spec(4, 4), &algorithm.arguments([]).expect("defaults")).expect("it compiles");
    for launch in DeviceLaunch::variants(4, 4) {
        let added = |program: &Program, instr: &Instr| {
            let first = lower(&Plan::new(&plan)).expect("it is a plan");
            match instr.action {
                Action::Barrier => program.ids(instr)[0] as usize >= first.barriers.len(),
                Action::Signal { .. } | Action::Wait { .. } => program.ids(instr)[0] as usize >= first.channels.len(),
                _ => false,
            }
        };
        let fresh = || with_launch_barriers(&plan, &launch).expect("it is a plan");
        let is_found = |what: &str, program: Program| {
            let found = validate_launch_barriers(&plan, &program, &launch);
            assert!(found.is_err(), "{what}, {launch:?}");
        };
        validate_launch_barriers(&plan, &fresh(), &launch).expect("nothing is planted");
        for is_end in [false, true] {
            // Device 0 and device 1 do not synchronize: their signals and waits are gone on both sides.
            let mut program = fresh();
            let before = fresh();
            let between = |id: u32| {
                let channel = before.channels[id as usize];
                let mut pair = [channel.rank, channel.peer].map(|rank| launch.devices[rank as usize]);
                pair.sort_unstable();
                pair == [0, 1]
            };
            let ids: Vec<u32> = before.ids.clone();
            let mut kept_ids = ids.clone();
            edit(&mut program, |_, _, own| {
                let middle = own.len() / 2;
                for (at, instr) in own.iter_mut().enumerate() {
                    let is_sync = matches!(instr.action, Action::Signal { .. } | Action::Wait { .. });
                    if is_sync && added(&before, instr) && (at > middle) == is_end {
                        let range = instr.first_id as usize..(instr.first_id + instr.ids) as usize;
                        let kept: Vec<u32> = ids[range.clone()].iter().copied().filter(|&id| !between(id)).collect();
                        instr.ids = kept.len() as u32;
                        kept_ids[range.start..range.start + kept.len()].copy_from_slice(&kept);
                    }
                }
            });
            program.ids = kept_ids;
            is_found("two devices do not synchronize", program);
            // A block goes past the barrier of its device.
            let mut program = fresh();
            edit(&mut program, |rank, block, own| {
                let barriers: Vec<usize> = (0..own.len())
                    .filter(|&at| added(&before, &own[at]) && own[at].action == Action::Barrier)
                    .collect();
                let at = if is_end { barriers[barriers.len() - 1] } else { barriers[0] };
                if launch.devices[rank as usize] == 0 {
                    if (rank, block) == (0, 1) {
                        own.remove(at);
                    } else {
                        own[at].count -= 1;
                    }
                }
            });
            is_found("a block passes the barrier of its device", program);
            // The first block lets the others go before it has waited, or waits for other devices before the others are done.
            let mut program = fresh();
            edit(&mut program, |_, _, own| {
                let is_barrier = |at: &usize| added(&before, &own[*at]) && own[*at].action == Action::Barrier;
                let barriers: Vec<usize> = (0..own.len()).filter(is_barrier).collect();
                let leads = own.iter().any(|instr| instr.action != Action::Barrier && added(&before, instr));
                if leads && is_end {
                    let barrier = own.remove(barriers[barriers.len() - 1]);
                    own.push(barrier);
                } else if leads {
                    let barrier = own.remove(barriers[0]);
                    own.insert(0, barrier);
                }
            });
            is_found("the barrier of the device and that of all devices are in the wrong order", program);
        }
    }
}
