//! A resolved plan in the form in which the device reads it. Nothing here depends on a message's size: it is uploaded
//! once.

use super::abi;
use crate::interpret::program::{Instr, Opcode, ResolvedPlan, Space, UNPAIRED};

/// Bytes from one counter to the next, so that signals of different channels never share a sector.
const SPACING: u64 = 64;

/// Numbers of the opcodes in `kernels/window.h`.
pub(super) mod action {
    pub(in crate::cuda) const NOP: u8 = 0;
    pub(in crate::cuda) const COPY: u8 = 1;
    pub(in crate::cuda) const PACK: u8 = 2;
    pub(in crate::cuda) const UNPACK: u8 = 3;
    pub(in crate::cuda) const FORWARD: u8 = 4;
    pub(in crate::cuda) const REDUCE: u8 = 5;
    pub(in crate::cuda) const PORT: u8 = 6;
    pub(in crate::cuda) const PORT_FORWARD: u8 = 7;
    pub(in crate::cuda) const SWITCH: u8 = 8;
    pub(in crate::cuda) const SWITCH_FORWARD: u8 = 9;
    pub(in crate::cuda) const SIGNAL: u8 = 10;
    pub(in crate::cuda) const PORT_SIGNAL: u8 = 11;
    pub(in crate::cuda) const WAIT: u8 = 12;
    pub(in crate::cuda) const FLUSH: u8 = 13;
    pub(in crate::cuda) const ACQUIRE: u8 = 14;
    pub(in crate::cuda) const RELEASE: u8 = 15;
    pub(in crate::cuda) const BLOCK_SYNC: u8 = 16;
    pub(in crate::cuda) const LOOP: u8 = 17;
}

/// Bits of the flags in `kernels/window.h`.
mod flag {
    pub(super) const RELAXED: u8 = 1;
    pub(super) const THEN_SIGNAL: u8 = 2;
    pub(super) const THEN_FLUSH: u8 = 4;
    pub(super) const USES_PACKETS: u8 = 8;
}

/// Byte offsets of a plan's counters in one allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    channels: u64,
    semaphores: u64,
    barriers: u64,
}

impl Counters {
    pub(super) fn new(program: &ResolvedPlan) -> Self {
        Self {
            channels: program.channels.len() as u64,
            semaphores: program.semaphores.len() as u64,
            barriers: program.barriers.len() as u64,
        }
    }

    /// Returns the bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        (2 * self.channels + self.semaphores + self.barriers + 1) * SPACING
    }

    /// Returns the offset of the signals that arrived at a channel; where a channel has no pair, of a counter that is
    /// never read.
    pub(super) fn inbound(&self, channel: u32) -> u64 {
        if channel == UNPAIRED { self.bytes() - SPACING } else { u64::from(channel) * SPACING }
    }

    /// Returns the offset of the waits begun at a channel.
    fn expected(&self, channel: u32) -> u64 {
        (self.channels + u64::from(channel)) * SPACING
    }

    fn semaphore(&self, number: u32) -> u64 {
        (2 * self.channels + u64::from(number)) * SPACING
    }

    fn barrier(&self, number: u32) -> u64 {
        (2 * self.channels + self.semaphores + u64::from(number)) * SPACING
    }

    /// Returns the counters before the first launch.
    pub(super) fn initial(&self, program: &ResolvedPlan) -> Vec<u64> {
        let mut values = vec![0_u64; (self.bytes() / 8) as usize];
        for (number, semaphore) in program.semaphores.iter().enumerate() {
            values[(self.semaphore(number as u32) / 8) as usize] = semaphore.initial.cast_unsigned();
        }
        values
    }
}

/// Tables that are the same on all devices of a plan.
pub(super) struct Tables {
    pub(super) instrs: Vec<abi::Instr>,
    pub(super) operands: Vec<abi::Operand>,
    waits: Waits,
}

impl Tables {
    pub(super) fn new(program: &ResolvedPlan) -> Self {
        let operands = program.operands.iter().map(|operand| abi::Operand {
            rank: operand.rank,
            index: operand.index,
            size: operand.size,
            space: operand.space as u32,
        });
        Self { instrs: instrs(program), operands: operands.collect(), waits: Waits::new(program) }
    }

    /// Returns the thread blocks of a device, by their numbers in the resolved plan, ascending, followed by an entry
    /// for the end of the tables. `queues`: the ranks that have a queue to the host's proxy.
    pub(super) fn agents(program: &ResolvedPlan, numbers: &[u32], queues: &[u32]) -> Vec<abi::Agent> {
        let agents = numbers.iter().map(|&number| {
            let code = &program.agents[number as usize];
            let first = &program.instrs[code.start as usize];
            abi::Agent {
                rank: code.rank,
                block: code.block,
                first: code.start,
                end: code.end,
                operands: first.operands,
                ids: first.first_id,
                fifo: queues.partition_point(|&rank| rank < code.rank) as u32,
                reserved: 0,
            }
        });
        let end = abi::Agent {
            operands: program.operands.len() as u32,
            ids: program.ids.len() as u32,
            ..bytemuck::Zeroable::zeroed()
        };
        agents.chain([end]).collect()
    }

    /// Returns the counters that operations of a device's thread blocks signal or wait for; entries of other devices
    /// are unspecified. `own`: address of that device's counters, `of`: address of a rank's counters, both as that
    /// device sees them.
    pub(super) fn ids(
        &self,
        program: &ResolvedPlan,
        counters: &Counters,
        numbers: &[u32],
        own: u64,
        of: impl Fn(u32) -> u64,
    ) -> Vec<abi::Id> {
        let mut ids: Vec<abi::Id> = vec![bytemuck::Zeroable::zeroed(); program.ids.len()];
        for code in numbers.iter().map(|&number| &program.agents[number as usize]) {
            for instr in &program.instrs[code.start as usize..code.end as usize] {
                for (number, &id) in program.ids(instr).iter().enumerate() {
                    let at = instr.first_id as usize + number;
                    let base = match signalled(program, instr, id) {
                        Some(pair) => of(program.channels[pair as usize].rank),
                        None => own,
                    };
                    ids[at] = id_of(program, counters, (own, base), instr, id, self.waits.of(at, id));
                }
            }
        }
        ids
    }
}

/// Returns the channel at whose end a signal arrives; `None` if the operation does not signal, or the channel has no
/// pair.
fn signalled(program: &ResolvedPlan, instr: &Instr, id: u32) -> Option<u32> {
    match instr.action {
        Opcode::Acquire | Opcode::Release | Opcode::Barrier | Opcode::Wait { .. } => None,
        _ => Some(program.channels[id as usize].pair).filter(|&pair| pair != UNPAIRED),
    }
}

/// Returns the opcode that replaces another one where there are multicast addresses.
pub(super) fn switch_opcode(action: u8) -> u8 {
    if action == action::FORWARD { action::SWITCH_FORWARD } else { action::SWITCH }
}

/// Returns all operations, each with the loop around it.
fn instrs(program: &ResolvedPlan) -> Vec<abi::Instr> {
    let mut instrs: Vec<_> = program.instrs.iter().map(|instr| lower(program, instr)).collect();
    for header in 0..instrs.len() {
        if instrs[header].action == action::LOOP {
            let body = header + 1..header + 1 + instrs[header].body as usize;
            instrs[body].iter_mut().for_each(|instr| instr.around = header as u32 + 1);
        }
    }
    instrs
}

/// Returns an operation as the device reads it, without the loop around it.
pub(super) fn lower(program: &ResolvedPlan, instr: &Instr) -> abi::Instr {
    let (action, flags) = match instr.action {
        Opcode::Nop => (action::NOP, 0),
        Opcode::Copy => (action::COPY, 0),
        Opcode::Pack => (action::PACK, 0),
        Opcode::Unpack => (action::UNPACK, 0),
        Opcode::Forward => (action::FORWARD, 0),
        Opcode::Reduce => (action::REDUCE, 0),
        Opcode::Port { signal, flush } => {
            let then = |set: bool, flag| if set { flag } else { 0 };
            (action::PORT, then(signal, flag::THEN_SIGNAL) | then(flush, flag::THEN_FLUSH))
        }
        Opcode::PortForward => (action::PORT_FORWARD, 0),
        Opcode::Signal { relaxed } => (action::SIGNAL, if relaxed { flag::RELAXED } else { 0 }),
        Opcode::PortSignal => (action::PORT_SIGNAL, 0),
        Opcode::Wait { .. } => (action::WAIT, 0),
        Opcode::Flush => (action::FLUSH, 0),
        Opcode::Acquire => (action::ACQUIRE, 0),
        Opcode::Release => (action::RELEASE, 0),
        Opcode::Barrier => (action::BLOCK_SYNC, 0),
        Opcode::Loop => (action::LOOP, 0),
    };
    let mut operands = program.srcs(instr).iter().chain(program.dsts(instr));
    let packets = operands.any(|operand| operand.space == Space::Packets);
    abi::Instr {
        action,
        reduce: instr.reduce as u8,
        flags: flags | if packets { flag::USES_PACKETS } else { 0 },
        kind: instr.kind as u8,
        op: instr.op,
        operands: instr.operands,
        srcs: instr.srcs,
        dsts: instr.dsts,
        first_id: instr.first_id,
        ids: instr.ids,
        slice_index: instr.slice.0,
        slice_of: instr.slice.1,
        count: instr.count,
        body: instr.body,
        size: program.srcs(instr).first().map_or(0, |src| src.size),
        unit: instr.unit,
        around: 0,
        src_group: 0,
        dst_group: 0,
    }
}

fn id_of(
    program: &ResolvedPlan,
    counters: &Counters,
    (own, base): (u64, u64),
    instr: &Instr,
    id: u32,
    (per_launch, ordinal): (u32, u32),
) -> abi::Id {
    let (counter, expected, number) = match instr.action {
        Opcode::Acquire | Opcode::Release => (counters.semaphore(id), 0, program.semaphores[id as usize].id),
        Opcode::Barrier => (counters.barrier(id), 0, program.barriers[id as usize].id),
        Opcode::Wait { .. } => (counters.inbound(id), own + counters.expected(id), id),
        // Signals increment the counter at the other end.
        _ => (counters.inbound(program.channels[id as usize].pair), 0, id),
    };
    abi::Id { counter: base + counter, expected, per_launch, ordinal, number, reserved: 0 }
}

/// Waits that need no counter in memory: those on a channel whose waits are all in one thread block and outside of
/// loops. The value that the k-th wait of a launch expects follows from the number of launches.
struct Waits {
    /// Per channel: waits in a launch; 0 if they must be counted.
    per_launch: Vec<u32>,
    /// Per id: the ordinal among its channel's waits, from 1.
    ordinals: Vec<u32>,
}

impl Waits {
    fn new(program: &ResolvedPlan) -> Self {
        let channels = program.channels.len();
        let mut waits = Self { per_launch: vec![0; channels], ordinals: vec![0; program.ids.len()] };
        let mut owner = vec![UNPAIRED; channels];
        let mut counted = vec![false; channels];
        for (agent, code) in program.agents.iter().enumerate() {
            let mut loop_end = code.start;
            for at in code.start..code.end {
                let instr = &program.instrs[at as usize];
                if instr.action == Opcode::Loop {
                    loop_end = at + 1 + instr.body;
                }
                if !matches!(instr.action, Opcode::Wait { .. }) {
                    continue;
                }
                for (number, &id) in program.ids(instr).iter().enumerate() {
                    let channel = id as usize;
                    counted[channel] |= at < loop_end || owner[channel] != UNPAIRED && owner[channel] != agent as u32;
                    owner[channel] = agent as u32;
                    waits.per_launch[channel] += 1;
                    waits.ordinals[instr.first_id as usize + number] = waits.per_launch[channel];
                }
            }
        }
        for (per_launch, counted) in waits.per_launch.iter_mut().zip(counted) {
            if counted {
                *per_launch = 0;
            }
        }
        waits
    }

    /// Returns the number of waits of the channel in a launch, and the ordinal of the id at a position; zeros if they
    /// are counted.
    fn of(&self, at: usize, channel: u32) -> (u32, u32) {
        match (self.per_launch.get(channel as usize), self.ordinals.get(at)) {
            (Some(&per_launch), Some(&ordinal)) if per_launch > 0 => (per_launch, ordinal),
            _ => (0, 0),
        }
    }
}
