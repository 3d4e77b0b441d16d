//! Faults injected into the output of the passes: each is detected, or has no effect.

use std::collections::BTreeMap;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::BlockSync;

use super::*;
use mscclpp_base::interpret::{Opcode, Space};

/// A fault, and the pass that it affects.
struct Fault {
    pass: &'static str,
    what: String,
    plant: Box<dyn Fn(&mut RankSchedule)>,
}

/// Returns all faults of the following kinds that one rank's schedule can have.
fn faults(schedule: &RankSchedule, rank: u32) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut add = |pass, what: String, plant: Box<dyn Fn(&mut RankSchedule)>| faults.push(Fault { pass, what, plant });
    let (defer, elide, place) = ("defer_opening_waits", "elide_handshakes", "place_in_caller_memory");
    let (open, own) = ("elide_opening_handshakes", "elide_own_packets");
    for agent in schedule.agents.clone() {
        let code = schedule.program.agents[agent];
        let is_sync = |at: u32| {
            let instr = schedule.program.instrs.get(at as usize);
            instr.is_some_and(|instr| matches!(instr.action, Opcode::Signal { .. } | Opcode::Wait { .. }))
        };
        if code.start < code.end && is_sync(code.start) {
            add(elide, "one more at the start".into(), Box::new(move |s| s.program.agents[agent].start += 1));
        }
        if code.start < code.end && is_sync(code.end - 1) {
            add(elide, "one more at the end".into(), Box::new(move |s| s.program.agents[agent].end -= 1));
        }
        for at in code.start..code.end {
            let instr = schedule.program.instrs[at as usize];
            if at + 1 < code.end && matches!(instr.action, Opcode::Wait { .. }) {
                let (one, other) = (at as usize, at as usize + 1);
                let what = match schedule.program.instrs[other].action.is_port_send() {
                    true => "a wait after a send",
                    false => "a wait after another operation",
                };
                let swap = move |s: &mut RankSchedule| s.program.instrs[one..other + 1].swap(0, 1);
                add(defer, what.into(), Box::new(swap));
            }
            if matches!(instr.action, Opcode::Wait { .. } | Opcode::PortSignal) {
                let what = match instr.action {
                    Opcode::PortSignal => "a signal elided",
                    _ => "a wait elided",
                };
                let plant = move |s: &mut RankSchedule| {
                    let instr = &mut s.program.instrs[at as usize];
                    (instr.action, instr.ids) = (Opcode::Nop, 0);
                };
                add(open, what.into(), Box::new(plant));
            }
            if instr.accesses_peer_buffers {
                add(
                    place,
                    "an operation does not visit".into(),
                    Box::new(move |s| s.program.instrs[at as usize].accesses_peer_buffers = false),
                );
            }
            let packets = schedule.program.srcs(&instr).iter().map(|src| src.space == Space::Packets);
            for (number, (one, other)) in packets.clone().zip(packets.skip(1)).enumerate() {
                if one != other {
                    let at = instr.operands as usize + number;
                    add(
                        own,
                        "a source in another place".into(),
                        Box::new(move |s| s.program.operands.swap(at, at + 1)),
                    );
                }
            }
            for operand in instr.operands..instr.operands + instr.srcs + instr.dsts {
                let at = operand as usize;
                let found = schedule.program.operands[at];
                let other = match found.space {
                    Space::Input if found.rank == rank => Space::OwnInput,
                    Space::Output if found.rank == rank => Space::OwnOutput,
                    Space::OwnInput => Space::Input,
                    Space::OwnOutput => Space::Output,
                    Space::Input => Space::OwnInput,
                    Space::Output => Space::OwnOutput,
                    _ => continue,
                };
                let what = format!("an operand in {other:?} for {:?}", found.space);
                add(place, what, Box::new(move |s| s.program.operands[at].space = other));
                add(place, "an operand moved".into(), Box::new(move |s| s.program.operands[at].index += 1));
            }
        }
    }
    for peer in 0..schedule.awaited.len() {
        if schedule.awaited[peer] {
            add(elide, "a peer not awaited".into(), Box::new(move |s| s.awaited[peer] = false));
        }
        if schedule.finishes[peer] {
            add(elide, "a peer that need not finish".into(), Box::new(move |s| s.finishes[peer] = false));
        }
        if schedule.placement.accesses[peer] {
            add(place, "a peer not looked up".into(), Box::new(move |s| s.placement.accesses[peer] = false));
        }
    }
    for (number, last) in schedule.last_peer_access.iter().enumerate() {
        if last.is_some() {
            add(elide, "a block finished at once".into(), Box::new(move |s| s.last_peer_access[number] = None));
        }
    }
    for slot in 0..SLOTS {
        if schedule.placement.peers_access[slot] {
            add(place, "a slot not shared".into(), Box::new(move |s| s.placement.peers_access[slot] = false));
        }
        if !schedule.placement.copy_in[slot].is_empty() {
            add(place, "no copy in".into(), Box::new(move |s| _ = s.placement.copy_in[slot].pop()));
        }
        if !schedule.placement.copy_out[slot].is_empty() {
            add(place, "no copy out".into(), Box::new(move |s| _ = s.placement.copy_out[slot].pop()));
        }
    }
    faults
}

/// Every fault is detected, except those without an observable effect: the schedule fuzzer, which shares nothing with
/// the checker, finds no failure with them.
#[test]
fn injected_faults_are_detected() {
    // By kind: injected, detected.
    let mut kinds: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for (name, plan, ranks, node) in built_in(&[(3, 3), (4, 2), (3, 1)]) {
        let launch = ProcessLaunch::new(ranks, node, Sharing::Staged);
        let rank = 1;
        let all = schedules(&plan, &launch).expect("it is a plan");
        for fault in faults(&all[rank as usize], rank) {
            let mut schedules = schedules(&plan, &launch).expect("it is a plan");
            (fault.plant)(&mut schedules[rank as usize]);
            let (planted, found) = kinds.entry(format!("{}: {}", fault.pass, fault.what)).or_default();
            *planted += 1;
            match validate_schedules(&plan, &mut schedules, &launch) {
                Err(_) => *found += 1,
                Ok(run) => {
                    let outcome = ScheduleFuzzer::new(&run).run(1).expect("it is small");
                    assert!(!matches!(outcome, Outcome::Failed(_)), "{name}, {}: {outcome:?}", fault.what);
                }
            }
        }
    }
    println!("{kinds:#?}");
    for (kind, (planted, found)) in &kinds {
        assert!(*found > 0, "of {planted} faults `{kind}` none is found");
    }
    // Kinds that can never be omitted.
    for kind in [
        ": one more at the start",
        ": one more at the end",
        ": a source in another place",
        ": an operand moved",
        ": a slot not shared",
        ": no copy out",
    ] {
        let (_, (planted, found)) = kinds.iter().find(|(name, _)| name.ends_with(kind)).expect("it was planted");
        assert_eq!(planted, found, "{kind}");
    }
}

/// A rank sends data that no operation reads to a rank of another node, and then data to a third rank, which reports to
/// the first one. The report ends the launch, so its wait is elided, and the launch progresses only if a wait serves
/// the connections.
#[test]
fn final_wait_that_does_not_serve_connections_is_detected() {
    let plan = dead_put();
    let schedules_of = |launch: &ProcessLaunch| schedules(&plan, launch).expect("it is a plan");
    let mut launch = ProcessLaunch::new(4, 2, Sharing::Registered);
    assert!(schedules_of(&launch)[2].finishes[3], "the wait is elided");
    process::Writer::write(&plan, &schedules_of(&launch), &launch).expect("it runs");
    launch.waits_move_connections = false;
    let found = process::Writer::write(&plan, &schedules_of(&launch), &launch).expect_err("it hangs").to_string();
    assert_eq!(
        found,
        "rank 2: waits for peers at the end of a launch without polling its connections, while rank 0 may send to it"
    );
}

fn dead_put() -> PlanTree {
    let mut spec = AlgoSpec::new("dead put", CollectiveKind::Custom { input: 1, output: 1 }, 4);
    spec.ranks_per_node = 2;
    let program = Program::new(spec);
    let [r0, r2, r3] = [0, 2, 3].map(|rank| program.rank(rank));
    let scratch = r2.scratch(1);
    let (to_2, from_0) = (r0.port_channel(r2), r2.port_channel(r0));
    let (to_3, of_3) = (r0.port_channel(r3), r3.port_channel(r0));
    let (report, reported) = (r3.memory_channel(r2), r2.memory_channel(r3));
    from_0.signal(0);
    of_3.signal(0);
    to_2.wait(0);
    to_3.wait(0).sync(BlockSync::After);
    to_2.put(scratch.chunk(0), r0.input().chunk(0), 0);
    to_2.flush(0);
    to_3.put_with_signal_and_flush(r3.output().chunk(0), r0.input().chunk(0), 0);
    of_3.wait(0).sync(BlockSync::After);
    report.signal(0);
    reported.wait(0);
    lower(&program.finish().expect("a program")).expect("a plan")
}
