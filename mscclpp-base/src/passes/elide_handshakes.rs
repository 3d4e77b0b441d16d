//! Elides handshakes that the launch protocol already provides.
//!
//! Many plans begin with a signal to each peer and a wait for its signal, which establish that both ranks have started,
//! and end with such a pair, which establishes that both have finished. A launch across processes establishes both for
//! every plan: a rank observes that its peers have started, and waits for them to finish. So these signals and waits
//! are elided on both sides; each would cost a round trip of a cache line.
//!
//! # What is elided
//!
//! Whole signals, waits and block syncs at the very beginning and the very end of thread blocks, on memory channels
//! between ranks of one node. Signal k of a channel matches wait k, so equally many signals and waits are elided, from
//! the beginning or from the end. Nothing is elided on a channel that is used in a loop or has unequal numbers of
//! signals and waits. Operations in loops stay, including those without an effect, because a block that ended inside of
//! a loop would leave it after one iteration.
//!
//! # Why this is sound
//!
//! *Order.* A wait at the beginning of a block orders the operations after it after everything that precedes the
//! signal: only elided operations of the peer's block, and the peer's actions before its launch. The peer's start
//! implies the same, and the first operation that is not exclusive waits for that start ([`ElidedHandshakes::started`],
//! *opening*). A wait at the end orders the end of the launch, and with it the next launch, after everything that
//! precedes the signal in the peer's block. If a signal at the end of a block was elided, the peer announces that it
//! has finished only after the whole block ([`ElidedHandshakes::signalled`]), and the launch waits for that
//! ([`ElidedHandshakes::finished`], *end*). Between an elided wait and the end of its block there are only elided
//! operations, so no operation of the launch relied on it.
//!
//! *Visibility.* Announcements are released and acquired, like signals that are not relaxed.
//!
//! *Counters.* Both ends of a channel omit equally many increments.
//!
//! *Progress.* No cycle of waits arises: a start is announced before any wait, and an end waits for peers that have
//! announced that they finished, which they do without waiting for any end. But while a thread block waited, its rank
//! also served its connections to other nodes. That the wait of the launch does so too is an invariant of the executor
//! (4 in [`passes`](super)): without it a plan with an elided wait can hang although the plan itself cannot.
//!
//! The validator proves the first three for a plan again, and names the plans that rely on the last.

use std::collections::BTreeMap;

use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::types::ChannelKind;

use crate::interpret::program::Instr;
use crate::interpret::{Block, Opcode, ResolvedPlan};

/// Order that the launch protocol must establish instead of the elided signals.
pub struct ElidedHandshakes {
    /// By rank: peers that must have started before the first operation that is not exclusive.
    pub started: Vec<bool>,
    /// By rank: peers that must have finished before the launch ends.
    pub finished: Vec<bool>,
    /// By thread block of the resolved plan: whether a signal at its end was elided, so that it has finished only after
    /// its last operation.
    pub signalled: Vec<bool>,
}

/// Elides handshakes in a resolved plan that rank `me` executes. `same_node`: whether two ranks are on one node.
pub fn elide_handshakes(program: &mut ResolvedPlan, me: u32, same_node: impl Fn(u32, u32) -> bool) -> ElidedHandshakes {
    let ranks = program.shape.ranks as usize;
    let mut elided = ElidedHandshakes {
        started: vec![false; ranks],
        finished: vec![false; ranks],
        signalled: vec![false; program.agents.len()],
    };
    let elidable = elidable(program, same_node);
    let at_start = count_elidable(program, &elidable, End::Start);
    for (agent, &n) in at_start.iter().enumerate() {
        let code = program.agents[agent];
        if code.rank == me {
            record_peers(program, code.start..code.start + n, is_wait, &mut elided.started);
        }
        program.agents[agent].start += n;
    }
    let at_end = count_elidable(program, &elidable, End::End);
    for (agent, &n) in at_end.iter().enumerate() {
        let code = program.agents[agent];
        if code.rank == me {
            record_peers(program, code.end - n..code.end, is_wait, &mut elided.finished);
            let elided_ops = &program.instrs[(code.end - n) as usize..code.end as usize];
            elided.signalled[agent] = elided_ops.iter().any(|instr| is_signal(instr.action));
        }
        program.agents[agent].end -= n;
    }
    for (code, &n) in program.agents.iter().zip(&at_start) {
        if code.rank == me && n > 0 {
            // Before all peers have started, only exclusive operations may run.
            let code = &mut program.instrs[code.start as usize..code.end as usize];
            if let Some(first) = code.iter_mut().find(|instr| !instr.exclusive) {
                first.accesses_peer_buffers = true;
            }
        }
    }
    elided
}

/// An end of thread blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Start,
    End,
}

fn is_signal(action: Opcode) -> bool {
    matches!(action, Opcode::Signal { .. })
}

fn is_wait(action: Opcode) -> bool {
    matches!(action, Opcode::Wait { .. })
}

/// Returns by channel whether signals that arrive there may be elided.
fn elidable(program: &ResolvedPlan, same_node: impl Fn(u32, u32) -> bool) -> Vec<bool> {
    let (mut signals, mut waits) = (vec![0_u64; program.channels.len()], vec![0_u64; program.channels.len()]);
    let mut in_loop = vec![false; program.channels.len()];
    for code in &program.agents {
        let mut loop_end = 0;
        for at in code.start..code.end {
            let instr = &program.instrs[at as usize];
            if instr.action == Opcode::Loop {
                loop_end = at + 1 + instr.body;
            }
            for &channel in program.ids(instr) {
                let receiver = if is_signal(instr.action) {
                    program.channels[channel as usize].pair as usize
                } else if is_wait(instr.action) {
                    channel as usize
                } else {
                    continue;
                };
                // A signal without a receiver stays.
                if let Some(in_loop) = in_loop.get_mut(receiver) {
                    *in_loop |= at < loop_end;
                    if is_signal(instr.action) { signals[receiver] += 1 } else { waits[receiver] += 1 }
                }
            }
        }
    }
    let channels = program.channels.iter().enumerate();
    let elidable = channels.map(|(at, channel)| {
        channel.kind == ChannelKind::Memory
            && same_node(channel.rank, channel.peer)
            && !in_loop[at]
            && signals[at] == waits[at]
    });
    elidable.collect()
}

/// Returns by thread block how many operations at an end can be elided.
fn count_elidable(program: &ResolvedPlan, elidable: &[bool], end: End) -> Vec<u32> {
    let outside_loops = |code: &Block| match end {
        // A loop is not elided itself, and prevents the elision of all that follows.
        End::Start => code.end - code.start,
        End::End => code.end - after_loops(program, code),
    };
    let mut counts: Vec<u32> = program.agents.iter().map(outside_loops).collect();
    // By channel, whether an operation waits there or signals to there.
    let arrivals = |instr: &Instr| {
        let (is_wait, action) = (is_wait(instr.action), instr.action);
        program.ids(instr).iter().map(move |&channel| match action {
            Opcode::Signal { .. } => (program.channels[channel as usize].pair as usize, is_wait),
            _ => (channel as usize, is_wait),
        })
    };
    let instr = |agent: usize, i: u32| {
        let code = program.agents[agent];
        &program.instrs[if end == End::Start { code.start + i } else { code.end - 1 - i } as usize]
    };
    let is_elidable = |instr: &Instr| {
        // What another pass elided has no action, and stays.
        let is_known = instr.kind == OpKind::Nop || is_signal(instr.action) || is_wait(instr.action);
        is_known && arrivals(instr).all(|(at, _)| elidable.get(at).is_some_and(|elidable| *elidable))
    };
    for (agent, count) in counts.iter_mut().enumerate() {
        *count = (0..*count).take_while(|&i| is_elidable(instr(agent, i))).count() as u32;
    }
    loop {
        let mut totals = vec![[0_u64; 2]; elidable.len()];
        for (agent, &count) in counts.iter().enumerate() {
            for (at, is_wait) in (0..count).flat_map(|i| arrivals(instr(agent, i))) {
                totals[at][usize::from(is_wait)] += 1;
            }
        }
        // Of what has no counterpart, the operations that are furthest from the end of the thread block stay, and so all beyond them.
        let balanced = |(agent, &count): (usize, &u32)| {
            let mut seen = BTreeMap::<_, u64>::new();
            let stays = |&i: &u32| {
                arrivals(instr(agent, i)).fold(false, |stays, (at, is_wait)| {
                    let [own, other] = [is_wait, !is_wait].map(|kind| totals[at][usize::from(kind)]);
                    let seen = seen.entry((at, is_wait)).or_default();
                    *seen += 1;
                    stays || *seen <= own.saturating_sub(other)
                })
            };
            (0..count).rev().filter(stays).last().unwrap_or(count)
        };
        let balanced: Vec<u32> = counts.iter().enumerate().map(balanced).collect();
        if balanced == counts {
            return balanced;
        }
        counts = balanced;
    }
}

/// Returns the index of the first operation after all loops of a thread block.
fn after_loops(program: &ResolvedPlan, code: &Block) -> u32 {
    let mut instrs = (code.start..code.end).map(|at| (at, &program.instrs[at as usize]));
    let last = instrs.rfind(|(_, instr)| instr.action == Opcode::Loop);
    last.map_or(code.start, |(at, instr)| at + 1 + instr.body)
}

/// Records the peers of the operations of one kind.
fn record_peers(
    program: &ResolvedPlan,
    range: std::ops::Range<u32>,
    kind: impl Fn(Opcode) -> bool,
    peers: &mut [bool],
) {
    for instr in &program.instrs[range.start as usize..range.end as usize] {
        for &channel in program.ids(instr).iter().filter(|_| kind(instr.action)) {
            peers[program.channels[channel as usize].peer as usize] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use mscclpp_core::collective::CollectiveKind;
    use mscclpp_core::dsl;
    use mscclpp_core::plan::Plan;
    use mscclpp_core::spec::AlgoSpec;

    use super::*;
    use crate::interpret::resolve;
    use mscclpp_algorithms as algorithms;

    fn shipped(name: &str) -> ResolvedPlan {
        let algorithm = algorithms::find(name).expect("it is in the library");
        let tree = algorithm.compile_tree(algorithm.spec(3, 3), &[]).expect("it compiles");
        resolve(&Plan::new(&tree)).expect("it can be run")
    }

    /// Returns the number of signals and waits of all ranks.
    fn syncs(program: &ResolvedPlan) -> usize {
        let codes = program.agents.iter();
        let instrs = codes.flat_map(|code| &program.instrs[code.start as usize..code.end as usize]);
        instrs.filter(|instr| is_signal(instr.action) || is_wait(instr.action)).count()
    }

    #[test]
    fn handshakes_at_both_ends_are_elided() {
        for name in ["allreduce_all_pairs", "allreduce_one_shot", "reducescatter_all_pairs"] {
            let mut program = shipped(name);
            let before = syncs(&program);
            let elided = elide_handshakes(&mut program, 1, |_, _| true);
            assert!(before > 0 && syncs(&program) == 0, "{name}: {before}, then {}", syncs(&program));
            assert_eq!(elided.started, [true, false, true], "{name}");
            assert_eq!(elided.finished, [true, false, true], "{name}");
        }
    }

    #[test]
    fn handshakes_of_a_rank_without_other_operations_are_elided() {
        let algorithm = algorithms::find("broadcast_pull").expect("it is in the library");
        let mut spec = algorithm.spec(3, 3);
        spec.collective.in_place = true;
        let plan = Plan::new(&algorithm.compile_tree(spec, &[]).expect("it compiles"));
        for (rank, peers) in [(0, [false, true, true]), (2, [true, false, false])] {
            let mut program = resolve(&plan).expect("it can be run");
            let elided = elide_handshakes(&mut program, rank, |_, _| true);
            assert_eq!((syncs(&program), &elided.started[..], &elided.finished[..]), (0, &peers[..], &peers[..]));
        }
    }

    #[test]
    fn exclusive_operations_do_not_wait_for_peers() {
        let accesses = |name| -> Vec<bool> {
            let mut program = shipped(name);
            crate::passes::place_in_caller_memory::place_in_caller_memory(&mut program, 1);
            elide_handshakes(&mut program, 1, |_, _| true);
            let code = program.agents.iter().find(|code| code.rank == 1).expect("a thread block");
            program.instrs[code.start as usize..code.end as usize]
                .iter()
                .map(|instr| instr.accesses_peer_buffers)
                .collect()
        };
        // The rank's own chunk is copied to a location that no rank reads; then the chunks of two peers are read.
        assert_eq!(accesses("allgather_pull")[..2], [false, true]);
        // The memory that peers write may not be accessed before they have started.
        assert_eq!(accesses("allreduce_all_pairs").first(), Some(&true));
    }

    #[test]
    fn handshakes_across_nodes_or_in_the_middle_are_kept() {
        let mut program = shipped("allreduce_all_pairs");
        let before = syncs(&program);
        let elided = elide_handshakes(&mut program, 1, |_, _| false);
        assert_eq!(syncs(&program), before);
        assert!(elided.started.iter().chain(&elided.finished).chain(&elided.signalled).all(|elided| !elided));
        // The signals of a ring in its middle announce data.
        let mut program = shipped("allreduce_ring");
        elide_handshakes(&mut program, 1, |_, _| true);
        assert!(syncs(&program) > 0);
    }

    #[test]
    fn signals_without_matching_waits_are_kept() {
        let program = dsl::Program::new(AlgoSpec::new("plan", CollectiveKind::AllReduce, 2));
        let channels: Vec<_> = program.ranks().map(|rank| rank.memory_channel(program.rank(1 - rank.id()))).collect();
        channels[0].signal(0);
        channels[1].wait(0);
        channels[1].wait(0);
        let tree = mscclpp_core::lower::lower(&program.finish().expect("a program")).expect("a plan");
        let mut program = resolve(&Plan::new(&tree)).expect("it can be run");
        let before = syncs(&program);
        elide_handshakes(&mut program, 0, |_, _| true);
        assert_eq!(syncs(&program), before);
    }
}
