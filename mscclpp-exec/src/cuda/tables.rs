//! A resolved plan in the form in which the device reads it. Nothing here depends on a message's size: it is uploaded
//! once.

use mscclpp_base::interpret::program::{Instr, Opcode, ResolvedPlan, Space, Transfer, UNPAIRED};
use mscclpp_cuda::abi;

/// Bytes from one counter to the next, so that signals of different channels never share a sector.
const SPACING: u64 = 64;

/// Byte offsets of a plan's counters in one allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    channels: u64,
    semaphores: u64,
    barriers: u64,
    /// Ranks whose counts are exchanged.
    counts: u64,
}

impl Counters {
    pub(super) fn new(program: &ResolvedPlan) -> Self {
        Self {
            channels: program.channels.len() as u64,
            semaphores: program.semaphores.len() as u64,
            barriers: program.barriers.len() as u64,
            counts: if program.is_counted { program.shape.ranks.into() } else { 0 },
        }
    }

    /// Returns the bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.count_area(self.counts as u32)
    }

    /// Returns the offset of a rank's area for the exchange of counts (`kernels/counts.h`).
    pub(super) fn count_area(&self, rank: u32) -> u64 {
        let line = u64::from(abi::COUNT_LINE);
        let row = (u64::from(abi::COUNT_HEAD) + self.counts).next_multiple_of(line);
        let words = line + self.counts * (2 * row + 3 * self.counts);
        self.unused() + SPACING + u64::from(rank) * (8 * words).next_multiple_of(SPACING)
    }

    /// Returns the offset of a counter that is never read.
    fn unused(&self) -> u64 {
        (2 * self.channels + self.semaphores + self.barriers) * SPACING
    }

    /// Returns the offset of the signals that arrived at a channel; where a channel has no pair, of a counter that is
    /// never read.
    pub(super) fn inbound(&self, channel: u32) -> u64 {
        if channel == UNPAIRED { self.unused() } else { u64::from(channel) * SPACING }
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
        self.after(program, 0)
    }

    /// Returns the counters after a number of launches.
    pub(super) fn after(&self, program: &ResolvedPlan, launches: u64) -> Vec<u64> {
        let mut values = vec![0_u64; (self.bytes() / 8) as usize];
        for (number, semaphore) in program.semaphores.iter().enumerate() {
            values[(self.semaphore(number as u32) / 8) as usize] = semaphore.initial.cast_unsigned();
        }
        // A wait computes the signals that it expects from the number of launches, if each launch has equally many.
        for (channel, &per_launch) in (0..).zip(&Waits::new(program).per_launch) {
            values[(self.inbound(channel) / 8) as usize] = launches * u64::from(per_launch);
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
            space: operand.space.into(),
        });
        Self { instrs: instrs(program), operands: operands.collect(), waits: Waits::new(program) }
    }

    /// Returns the thread blocks of a device, by their numbers in the resolved plan, ascending. `queues`: the ranks that have a queue to the host's proxy.
    pub(super) fn blocks(program: &ResolvedPlan, numbers: &[u32], queues: &[u32]) -> Vec<abi::Block> {
        let blocks = numbers.iter().map(|&number| {
            let code = &program.agents[number as usize];
            let first = &program.instrs[code.start as usize];
            let last = &program.instrs[code.end as usize - 1];
            let mut slices = program.instrs[code.start as usize..code.end as usize].iter().map(|instr| instr.slice);
            let (slice_index, slice_of) = slices.find(|&(_, of)| of > 1).unwrap_or((0, 1));
            abi::Block {
                rank: code.rank,
                block: code.block,
                first: code.start,
                end: code.end,
                operands: first.operands + program.repeated_srcs(first),
                operands_end: last.operands + last.srcs + last.dsts,
                ids: first.first_id,
                ids_end: last.first_id + last.ids,
                fifo: queues.partition_point(|&rank| rank < code.rank) as u32,
                shape: 0,
                slice_index,
                slice_of,
            }
        });
        blocks.collect()
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
pub(super) fn switch_opcode(opcode: abi::Opcode) -> abi::Opcode {
    if opcode == abi::Opcode::FORWARD { abi::Opcode::SWITCH_FORWARD } else { abi::Opcode::SWITCH }
}

/// Returns all operations, each with the header of the loop that contains it, and with the number of operations that the
/// instruction cache holds from it on.
fn instrs(program: &ResolvedPlan) -> Vec<abi::Instr> {
    let mut instrs: Vec<_> = program.instrs.iter().map(|instr| lower(program, instr)).collect();
    for header in 0..instrs.len() {
        if instrs[header].opcode == abi::Opcode::LOOP {
            let body = header + 1..header + 1 + instrs[header].body as usize;
            instrs[body].iter_mut().for_each(|instr| instr.loop_header = header as u32 + 1);
        }
    }
    for code in &program.agents {
        for at in code.start as usize..code.end as usize {
            instrs[at].cached = cached(&instrs[at..code.end as usize]);
        }
    }
    instrs
}

/// Returns the number of operations, from the first one on, of which the instruction cache holds all operands and ids;
/// at least 1.
pub(super) fn cached(instrs: &[abi::Instr]) -> u32 {
    let (operand, id) = (instrs[0].operands, instrs[0].first_id);
    let fits = |instr: &&abi::Instr| {
        instr.operands + instr.srcs + instr.dsts - operand <= abi::CACHED_OPERANDS
            && instr.first_id + instr.ids - id <= abi::CACHED_IDS
    };
    (instrs.iter().take(abi::CACHED_INSTRS as usize).take_while(fits).count() as u32).max(1)
}

/// Returns an operation as the device reads it, without the loop that contains it. A copy of one source to several
/// destinations is a reduction of that source alone, which is loaded once and stored unchanged; packs of one source have it
/// once.
pub(super) fn lower(program: &ResolvedPlan, instr: &Instr) -> abi::Instr {
    let repeated = program.repeated_srcs(instr);
    let is_copy = instr.action == Opcode::Transfer(Transfer::Copy);
    let is_counted_put = instr.counted.is_some() && matches!(instr.action, Opcode::Port { .. });
    let action = if is_counted_put { Opcode::Transfer(Transfer::CopyCounted) } else { instr.action };
    let opcode = if repeated > 0 && is_copy { abi::Opcode::REDUCE } else { abi::Opcode(action.on_device()) };
    let flag = |set: bool, flag| if set { flag } else { 0 };
    let flags = match instr.action {
        Opcode::Port { .. } if is_counted_put => abi::FLAG_PORT,
        Opcode::Port { signal, flush } => flag(signal, abi::FLAG_THEN_SIGNAL) | flag(flush, abi::FLAG_THEN_FLUSH),
        Opcode::Signal { relaxed } => flag(relaxed, abi::FLAG_RELAXED),
        _ => 0,
    };
    let mut operands = program.srcs(instr).iter().chain(program.dsts(instr));
    let packets = operands.any(|operand| operand.space == Space::Packets);
    let first_srcs = (0..32).zip(&program.srcs(instr)[repeated as usize..]);
    let (count, body) = instr.counted.map_or((instr.count, instr.body), |count| (count.sender, count.receiver));
    let is_sized = instr.counted.is_none();
    let is_packed = program.is_packed() && (!is_sized || instr.action == Opcode::ExchangeCounts);
    let packet_srcs = first_srcs.fold(0, |mask, (at, src)| mask | u32::from(src.space == Space::Packets) << at);
    abi::Instr {
        opcode,
        reduce: instr.reduce.into(),
        flags: flags | flag(packets, abi::FLAG_USES_PACKETS) | flag(is_packed, abi::FLAG_PACKED),
        kind: instr.kind as u8,
        cached: 0,
        operands: instr.operands + repeated,
        srcs: instr.srcs - repeated,
        dsts: instr.dsts,
        first_id: instr.first_id,
        ids: instr.ids,
        slice_index: instr.slice.0,
        slice_of: instr.slice.1,
        count: if opcode == abi::Opcode::REDUCE { packet_srcs } else { count },
        body,
        // The device finds out how many bytes of a counted chunk there are.
        size: program.srcs(instr).first().filter(|_| is_sized).map_or(0, |src| src.size),
        unit: instr.unit,
        loop_header: 0,
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

#[cfg(test)]
mod tests {
    use mscclpp_algorithms as algorithms;

    use super::*;
    use mscclpp_base::interpret::{Transfer, resolve};

    #[test]
    fn all_gather_loads_its_input_once_for_all_peers() {
        for ranks in [2, 4, 8] {
            let plans = algorithms::allgather_all_pairs::algorithm().plans();
            let plan = plans.iter().find(|plan| plan.num_ranks() == ranks).expect("it is embedded");
            let program = resolve(plan).expect("it is resolved");
            let transfers = program.instrs.iter().filter(|instr| instr.action == Opcode::Transfer(Transfer::Copy));
            let lowered: Vec<abi::Instr> = transfers.map(|instr| lower(&program, instr)).collect();
            assert!(!lowered.is_empty());
            for instr in lowered {
                assert_eq!((instr.srcs, instr.dsts), (1, ranks - 1));
                assert_eq!(instr.opcode, if ranks == 2 { abi::Opcode::COPY } else { abi::Opcode::REDUCE });
                // The source and the destinations follow one another.
                let destinations = &program.operands[instr.operands as usize + 1..][..instr.dsts as usize];
                assert!(destinations.iter().all(|dst| dst.rank != program.operands[instr.operands as usize].rank));
            }
        }
    }

    #[test]
    fn copies_of_different_sources_stay_copies() {
        let plans = algorithms::allgather_pull::algorithm().plans();
        let program = resolve(&plans[plans.len() - 1]).expect("it is resolved");
        let transfers =
            program.instrs.iter().filter(|instr| instr.action == Opcode::Transfer(Transfer::Copy) && instr.srcs > 1);
        let lowered: Vec<abi::Instr> = transfers.map(|instr| lower(&program, instr)).collect();
        assert!(!lowered.is_empty());
        assert!(lowered.iter().all(|instr| instr.opcode == abi::Opcode::COPY && instr.srcs == instr.dsts));
    }

    #[test]
    fn instruction_cache_has_exactly_the_operations_that_fit() {
        let instr = |operands, srcs, first_id, ids| abi::Instr {
            operands,
            srcs,
            first_id,
            ids,
            ..bytemuck::Zeroable::zeroed()
        };
        // All operands and ids but one of each are those of the first operation.
        let of_two = |operands, ids| cached(&[instr(0, operands - 1, 0, ids - 1), instr(operands - 1, 1, ids - 1, 1)]);
        assert_eq!(of_two(abi::CACHED_OPERANDS, abi::CACHED_IDS), 2);
        assert_eq!(of_two(abi::CACHED_OPERANDS + 1, abi::CACHED_IDS), 1);
        assert_eq!(of_two(abi::CACHED_OPERANDS, abi::CACHED_IDS + 1), 1);
        assert_eq!(cached(&[instr(0, abi::CACHED_OPERANDS + 1, 0, 0)]), 1);
        assert_eq!(cached(&vec![instr(0, 0, 0, 0); abi::CACHED_INSTRS as usize + 1]), abi::CACHED_INSTRS);
    }
}
