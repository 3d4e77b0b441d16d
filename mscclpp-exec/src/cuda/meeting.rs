//! Where devices meet: at the beginning and at the end of every launch.
//!
//! On one device a launch is one kernel: all ranks begin together, and the next launch begins when all have finished. On several
//! devices each runs a kernel of its own, so the same is brought about by operations around those of the plan. They are
//! ordinary signals, waits and barriers, which advance on the device like all others. So no device touches memory of another
//! one before that one has begun the launch, nor after its kernel has finished: for every plan, wrong ones included, and
//! also where launches of different sizes or plans follow one another.

use mscclpp_core::plan::OpKind;
use mscclpp_core::vocab::ChannelKind;

use crate::interpret::program::{Action, Barrier, Channel, Code, Instr, Program};

/// Puts the meetings around a program's operations. `device_of`: by rank.
pub(super) fn add_meetings(program: &mut Program, device_of: &[u32]) {
    let agents = with_every_device(program, device_of);
    let devices = device_of.iter().max().map_or(0, |&last| last + 1);
    let on = |device: u32| agents.iter().filter(move |code| device_of[code.rank as usize] == device);
    let leaders: Vec<_> = (0..devices).map(|device| on(device).next().map_or((0, 0), key)).collect();
    let counts: Vec<_> = (0..devices).map(|device| on(device).count() as u32).collect();
    let first_barrier = program.barriers.len() as u32;
    let id = program.barriers.iter().map(|barrier| barrier.id + 1).max().unwrap_or(0);
    program.barriers.extend((0..devices).map(|_| Barrier { id }));
    let first_channel = add_channels(program, &leaders);

    let mut writer = Writer { instrs: Vec::with_capacity(program.instrs.len() + 4 * agents.len()), ids: Vec::new() };
    let mut loops = Vec::with_capacity(program.loops.len());
    let mut operand = 0;
    for mut code in agents {
        let device = device_of[code.rank as usize];
        let others = devices - 1;
        let ways = || (0..others).map(|other| first_channel + device * others + other);
        let leads = leaders[device as usize] == key(&code);
        let body = &program.instrs[code.start as usize..code.end as usize];
        code.start = writer.instrs.len() as u32;
        let next_op = body.last().map_or(0, |last| last.op + 1);
        // Operands lie in the order of the operations.
        let added = |kind, action, operands| Instr { kind, action, op: next_op, operands, ..Instr::NOTHING };
        let signal = |operands| added(OpKind::Signal, Action::Signal { relaxed: false }, operands);
        let wait = |operands| added(OpKind::Wait, Action::Wait { relaxed: false }, operands);
        let count = counts[device as usize];
        let barrier = |operands| Instr { count, ..added(OpKind::Barrier, Action::Barrier, operands) };
        if leads {
            writer.push(signal(operand), ways());
            writer.push(wait(operand), ways());
        }
        writer.push(barrier(operand), [first_barrier + device]);
        for instr in body {
            if instr.action == Action::Loop {
                loops.push(writer.instrs.len() as u32);
            }
            writer.push(*instr, program.ids(instr).iter().copied());
        }
        operand = body.last().map_or(operand, |last| last.operands + last.srcs + last.dsts);
        writer.push(barrier(operand), [first_barrier + device]);
        if leads {
            writer.push(signal(operand), ways());
            writer.push(wait(operand), ways());
        }
        code.end = writer.instrs.len() as u32;
        program.agents.push(code);
    }
    (program.instrs, program.ids, program.loops) = (writer.instrs, writer.ids, loops);
}

/// Rank and thread block.
fn key(code: &Code) -> (u32, u32) {
    (code.rank, code.block)
}

/// Takes a program's thread blocks, and adds one without operations for each device that has none: what its ranks hand in may
/// be used by others all the same.
fn with_every_device(program: &mut Program, device_of: &[u32]) -> Vec<Code> {
    let mut agents = std::mem::take(&mut program.agents);
    let mut seen: Vec<u32> = agents.iter().map(|code| device_of[code.rank as usize]).collect();
    for (rank, &device) in (0..).zip(device_of) {
        if !seen.contains(&device) {
            seen.push(device);
            // Behind what ranks before it have, so that all tables are in the order of the thread blocks.
            let at = agents.partition_point(|code| code.rank < rank);
            let start = at.checked_sub(1).map_or(0, |before| agents[before].end);
            let proxy = program.proxies.partition_point(|&other| other < rank) as u32;
            agents.insert(at, Code { rank, block: 0, start, end: start, proxy });
        }
    }
    agents
}

/// A channel from each device to each other one, in this order. Returns: the number of the first one.
fn add_channels(program: &mut Program, leaders: &[(u32, u32)]) -> u32 {
    let first = program.channels.len() as u32;
    let others = leaders.len() as u32 - 1;
    let mut next: Vec<u32> = leaders
        .iter()
        .map(|&(rank, _)| program.channels.iter().filter(|channel| channel.rank == rank).count() as u32)
        .collect();
    for (from, &(rank, _)) in (0_u32..).zip(leaders) {
        for (to, &(peer, _)) in (0_u32..).zip(leaders).filter(|&(to, _)| to != from) {
            // The way back is in the other's row, which leaves itself out.
            let pair = first + to * others + if from < to { from } else { from - 1 };
            program.channels.push(Channel { rank, kind: ChannelKind::Memory, id: next[from as usize], peer, pair });
            next[from as usize] += 1;
        }
    }
    first
}

/// Operations and their ids, as they are written anew.
struct Writer {
    instrs: Vec<Instr>,
    ids: Vec<u32>,
}

impl Writer {
    fn push(&mut self, mut instr: Instr, ids: impl IntoIterator<Item = u32>) {
        instr.first_id = self.ids.len() as u32;
        self.ids.extend(ids);
        instr.ids = self.ids.len() as u32 - instr.first_id;
        self.instrs.push(instr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms;
    use crate::interpret::lower;
    use mscclpp_core::plan::Plan;

    #[test]
    fn tables_stay_in_order_and_signals_have_waits() {
        for algorithm in algorithms::all().iter().filter(|algorithm| algorithm.supports(4, 4)) {
            let arguments = algorithm.arguments([]).expect("defaults");
            let tree = algorithm.compile(algorithm.spec(4, 4), &arguments).expect("it compiles");
            let before = lower(&Plan::new(&tree)).expect("it is a plan");
            for device_of in [[0, 0, 1, 1], [0, 1, 2, 3], [0, 1, 0, 1]] {
                let mut program = lower(&Plan::new(&tree)).expect("it is a plan");
                add_meetings(&mut program, &device_of);
                let (mut at, mut operands, mut ids) = (0, 0, 0);
                for code in &program.agents {
                    assert_eq!(code.start, at);
                    at = code.end;
                    for instr in &program.instrs[code.start as usize..code.end as usize] {
                        assert_eq!((instr.operands, instr.first_id), (operands, ids), "{}", algorithm.name());
                        operands += instr.srcs + instr.dsts;
                        ids += instr.ids;
                    }
                }
                let kept = |instr: &&Instr| program.loops.iter().any(|&at| program.instrs[at as usize].op == instr.op);
                assert_eq!(program.loops.len(), before.loops.len());
                assert!(before.loops.iter().map(|&at| &before.instrs[at as usize]).all(|instr| kept(&instr)));
                for (number, channel) in (0..).zip(&program.channels).skip(before.channels.len()) {
                    let pair = &program.channels[channel.pair as usize];
                    assert_eq!((pair.pair, pair.rank, pair.peer), (number, channel.peer, channel.rank));
                    let uses = |action: Action| {
                        let all = program.instrs.iter().filter(|instr| instr.action == action);
                        all.filter(|instr| program.ids(instr).contains(&number)).count()
                    };
                    let of = [Action::Signal { relaxed: false }, Action::Wait { relaxed: false }].map(uses);
                    assert_eq!(of, [2, 2], "at the beginning and at the end");
                }
            }
        }
    }
}
