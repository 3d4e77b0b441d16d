//! Reports what each thread block waits for in a stalled launch.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use super::launch::Launch;
use super::program::{Block, Instr, Opcode, Operand, ResolvedPlan, Space, Transfer, UNPAIRED};
use super::state::AgentState;
use crate::error::{BlockedThreadBlock, Stall, UnblockedBy, WaitsFor};
use crate::message::PacketType;

impl Launch<'_> {
    /// Returns the report of a stall.
    ///
    /// `waiting`: thread blocks that have not finished, by their index in the resolved plan, and their states.
    /// `others`: thread blocks with unknown states, with the earliest ones that are possible. `absent`: ranks that have
    /// not started the launch.
    pub fn stall(&self, waiting: &[(u32, AgentState)], others: &[(u32, AgentState)], absent: &[u32]) -> Stall {
        let releases = Releases::new(self.program, waiting.iter().chain(others));
        let mut blocked: Vec<BlockedThreadBlock> =
            waiting.iter().map(|(agent, state)| self.blocked(*agent, state, &releases, absent)).collect();
        blocked.sort_by_key(|blocked| blocked.unblocked_by != UnblockedBy::Nothing);
        Stall {
            plan: self.program.plan.name().to_owned(),
            launch: self.number,
            num_blocks: self.program.agents.len(),
            blocked,
        }
    }

    fn blocked(&self, agent: u32, state: &AgentState, releases: &Releases, absent: &[u32]) -> BlockedThreadBlock {
        let Block { rank, block, end, .. } = self.program.agents[agent as usize];
        let instr = &self.program.instrs[state.at.instr.min(end - 1) as usize];
        let (waits_for, released) = match self.waits_for(agent, instr, state, releases) {
            Some((waits_for, released)) => (waits_for, released_by(self.program, released)),
            None => (WaitsFor::Peers { ranks: absent.to_vec() }, UnblockedBy::PeerStart),
        };
        BlockedThreadBlock {
            rank,
            block,
            op: instr.op,
            kind: instr.kind,
            iteration: (state.loop_end != 0).then_some(state.at.iteration),
            location: self.program.plan.location(rank, block, instr.op),
            waits_for,
            unblocked_by: released,
        }
    }

    /// Returns what the operation waits for, and the operation that would release it; `None` if it is blocked until
    /// peers have started.
    fn waits_for(
        &self,
        agent: u32,
        instr: &Instr,
        state: &AgentState,
        releases: &Releases,
    ) -> Option<(WaitsFor, Option<Op>)> {
        let id = self.program.ids(instr).get(state.at.number as usize).copied().unwrap_or_default();
        let found = match instr.action {
            _ if self.peer_buffers_blocked && instr.accesses_peer_buffers => return None,
            // It has not started to wait.
            Opcode::Wait { .. } | Opcode::Barrier if !state.at.waiting => return None,
            Opcode::Wait { .. } => {
                let channel = &self.program.channels[id as usize];
                let waits_for = WaitsFor::Signal {
                    channel: channel.kind,
                    id: channel.id,
                    peer: channel.peer,
                    expected: state.ticket,
                    seen: self.counters.inbound(id).load(Relaxed),
                };
                (waits_for, releases.by(Key::Channel(id), agent))
            }
            Opcode::Acquire => {
                let (number, value) = (self.program.semaphores[id as usize].id, &self.counters.semaphores[id as usize]);
                let waits_for = WaitsFor::Semaphore { id: number, value: value.load(Relaxed) };
                (waits_for, releases.by(Key::Semaphore(id), agent))
            }
            Opcode::Barrier => {
                let id = self.program.ids(instr)[0];
                let round = state.ticket.saturating_sub(u64::from(instr.count));
                let arrived = self.counters.barriers[id as usize].load(Relaxed).saturating_sub(round) as u32;
                let number = self.program.barriers[id as usize].id;
                let waits_for = WaitsFor::Barrier { id: number, arrived, expected: instr.count };
                (waits_for, releases.by(Key::Barrier(id), agent))
            }
            _ => match self.missing_packet(instr, state) {
                Some((operand, waits_for)) => (waits_for, releases.packets(&operand, agent)),
                None if instr.action.is_port() => (WaitsFor::Proxy, None),
                None => return None,
            },
        };
        Some(found)
    }

    /// Returns the first packet for which an operation still waits.
    fn missing_packet(&self, instr: &Instr, state: &AgentState) -> Option<(Operand, WaitsFor)> {
        let srcs = self.program.srcs(instr);
        let one = instr.action == Opcode::Transfer(Transfer::Unpack);
        let srcs = if one { srcs.get(state.at.number as usize..=state.at.number as usize)? } else { srcs };
        srcs.iter().filter(|src| src.space == Space::Packets).find_map(|src| {
            let window = self.window(instr, src.size, state);
            let at = window.start + state.at.done.min(window.len);
            let (span, _) = self.span(src, at, self.params.grain);
            let missing = (0..span.len() / 8).find(|&i| span.flag(i) != self.flag)?;
            let bytes = if self.params.message.packet == PacketType::LL8 { 4 } else { 8 };
            let waits_for = WaitsFor::Packet {
                chunk: src.index,
                packet: (at + 4 * missing as u64) / bytes,
                expected: self.flag,
                seen: span.flag(missing),
            };
            Some((*src, waits_for))
        })
    }
}

/// Returns an operation that would have unblocked a thread block, in the form of a report.
pub fn released_by(program: &ResolvedPlan, op: Option<Op>) -> UnblockedBy {
    op.map_or(UnblockedBy::Nothing, |(agent, at)| {
        let (Block { rank, block, .. }, instr) = (program.agents[agent as usize], &program.instrs[at as usize]);
        let place = program.plan.location(rank, block, instr.op);
        UnblockedBy::Operation { rank, block, op: instr.op, kind: instr.kind, location: place }
    })
}

/// Something for which a thread block can wait, by its index in the resolved plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Channel(u32),
    Semaphore(u32),
    Barrier(u32),
}

/// An agent and one of its instructions.
pub type Op = (u32, u32);

/// Operations that have not been executed and would unblock a thread block.
pub struct Releases {
    ops: BTreeMap<Key, Vec<Op>>,
    /// Operations that write packets.
    packets: Vec<(Operand, Op)>,
}

/// Number of operations kept per key: one suffices, and a second one in case the first belongs to the waiting agent
/// itself.
const MAX_OPS_PER_KEY: usize = 2;

impl Releases {
    /// Collects the operations of thread blocks that have not finished, given their states.
    pub fn new<'s>(program: &ResolvedPlan, waiting: impl Iterator<Item = &'s (u32, AgentState)>) -> Self {
        let mut releases = Self { ops: BTreeMap::new(), packets: Vec::new() };
        for (agent, state) in waiting {
            let code = &program.agents[*agent as usize];
            let again = state.loop_end != 0 && state.at.iteration.saturating_add(1) < state.trips;
            let first = if again { state.loop_start } else { state.at.instr };
            for at in first..code.end {
                let instr = &program.instrs[at as usize];
                let op = (*agent, at);
                let begun = at == state.at.instr && !again;
                let mut add = |key| {
                    let ops = releases.ops.entry(key).or_default();
                    if ops.len() < MAX_OPS_PER_KEY && ops.last().is_none_or(|last| last.0 != op.0) {
                        ops.push(op);
                    }
                };
                let signals = matches!(
                    instr.action,
                    Opcode::Signal { .. } | Opcode::PortSignal | Opcode::Port { signal: true, .. }
                );
                for &id in program.ids(instr) {
                    let pair = program.channels.get(id as usize).map_or(UNPAIRED, |channel| channel.pair);
                    match instr.action {
                        _ if signals && pair != UNPAIRED => add(Key::Channel(pair)),
                        Opcode::Release => add(Key::Semaphore(id)),
                        // A thread block that has arrived does not arrive again.
                        Opcode::Barrier if !begun => add(Key::Barrier(id)),
                        _ => {}
                    }
                }
                let packets = program.dsts(instr).iter().filter(|dst| dst.space == Space::Packets);
                releases.packets.extend(packets.map(|dst| (*dst, op)));
            }
        }
        releases
    }

    /// Returns the operation that would have unblocked a waiting agent.
    pub fn by(&self, key: Key, waiting: u32) -> Option<Op> {
        let ops = self.ops.get(&key)?;
        ops.iter().find(|op| op.0 != waiting).or(ops.first()).copied()
    }

    /// Returns the operation that would have written packets for which an agent waits.
    pub fn packets(&self, of: &Operand, waiting: u32) -> Option<Op> {
        let covers =
            |dst: &Operand| dst.rank == of.rank && dst.index < of.index + of.size && of.index < dst.index + dst.size;
        self.packets.iter().find(|(dst, op)| op.0 != waiting && covers(dst)).map(|(_, op)| *op)
    }
}
