//! Decides which of a rank's operations use the caller's memory, and which parts of it peers must access.
//!
//! Where the caller's slices are registered this makes no difference. Where they are not, peers access copies: a chunk
//! that peers read is copied in before a launch, a chunk that peers write is copied out after it, and own operations on
//! all other chunks use the caller's memory.
//!
//! # Why this is sound
//!
//! A chunk of the caller then has two locations, the caller's memory and the copy. It is *private* if own operations
//! use the former. The pass makes a chunk private only if no peer writes it, and peers read it only if no own operation
//! writes it.
//!
//! *Private chunks.* If peers do not access a private chunk, only the caller's memory is used. If they read it, no
//! operation of any rank writes it, so both locations hold the data that the caller passed: the copy is made before the
//! launch is announced, and peers read after that (*opening*).
//!
//! *Other chunks.* Every operation of any rank uses the copy. It starts with the data that the caller passed, because
//! it is copied in. Chunks that are not input are not copied in if operations write all of them: no operation of an
//! accepted plan reads such a chunk before it is written. The data that operations have written is copied out after the
//! launch has waited for the peers (*end*).
//!
//! *Operands.* An operand has one location as a whole: if one of its chunks is not private, none is, and none of the
//! chunks of operands that overlap with it.
//!
//! *Lookup.* An instruction that accesses the buffers of a peer's caller is marked with `accesses_peer_buffers`: it
//! waits until the peer has announced their location, and the peer's launch ends only after the rank has passed its
//! last such instruction.
//!
//! Operations, their order and their synchronization do not change. The validator proves all of this for a plan again:
//! with the copies as scratch, copying as operations, and each operand at the location that the pass has chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mscclpp_core::collective::CollectiveKind;

use super::intervals::Intervals;
use crate::interpret::{Opcode, Operand, ResolvedPlan, Space, Transfer};

/// Number of buffers that a rank passes: input or the only buffer of an in-place plan, output.
pub const SLOTS: usize = 2;

/// Use of a rank's memory, in chunks.
pub struct Placement {
    /// By slot: chunks that must be copied before a launch to the memory that peers access.
    pub copy_in: [Vec<Range<u64>>; SLOTS],
    /// By slot: chunks that must be copied from there after the launch.
    pub copy_out: [Vec<Range<u64>>; SLOTS],
    /// By slot: whether peers access it, and whether they write to it.
    pub peers_access: [bool; SLOTS],
    pub peers_write: [bool; SLOTS],
    /// By rank: whether this rank accesses its caller's buffers, and whether it accesses those of this rank's caller.
    pub accesses: Vec<bool>,
    pub accessed_by: Vec<bool>,
    /// Whether any rank accesses the buffers of another rank's caller: the same on all ranks.
    pub shares: bool,
}

/// Accesses to an interval.
#[derive(Clone, Copy, Default)]
struct Use {
    own_writes: bool,
    peer_reads: bool,
    peer_writes: bool,
    /// Own operations use the caller's memory.
    private: bool,
    /// Writes replace all of it.
    covered: bool,
    /// It is part of the rank's input.
    input: bool,
}

/// Decides for rank `own_rank`, and marks its operations in the resolved plan accordingly. Takes time linear in the
/// operations of all ranks, except for sorting.
pub fn place_in_caller_memory(program: &mut ResolvedPlan, own_rank: u32) -> Placement {
    let ranks = program.shape.ranks as usize;
    let (mut accesses, mut accessed_by) = (vec![false; ranks], vec![false; ranks]);
    let mut shares = false;
    let slots = Slots::new(program, own_rank);
    let mut uses = slots.intervals.each_ref().map(Uses::new);
    uses[0].record(&slots.intervals[0].of(&slots.input), INPUT);
    let mut parts: BTreeMap<(usize, usize, usize, u32), BTreeSet<u32>> = BTreeMap::new();
    for code in &program.agents {
        let own = code.rank == own_rank;
        let (mut loop_end, mut loop_chunks) = (0, 0);
        for at in code.start..code.end {
            let instr = &program.instrs[at as usize];
            if instr.body > 0 {
                (loop_end, loop_chunks) = (at + 1 + instr.body, instr.count);
            }
            let operands = program.srcs(instr).iter().map(|src| (src, false));
            for (operand, writes) in operands.chain(program.dsts(instr).iter().map(|dst| (dst, true))) {
                if !operand.space.is_callers() {
                    continue;
                }
                shares |= operand.rank != code.rank;
                if own && operand.rank != own_rank {
                    accesses[operand.rank as usize] = true;
                }
                if operand.rank != own_rank {
                    continue;
                }
                accessed_by[code.rank as usize] |= !own;
                let (slot, range) = slots.of(operand);
                match (own, writes) {
                    (true, true) => uses[slot].record(&range, OWN_WRITES),
                    (true, false) => {}
                    (false, true) => uses[slot].record(&range, PEER_WRITES),
                    (false, false) => uses[slot].record(&range, PEER_READS),
                }
                // The windows of all iterations cover operands that are no longer than the loop.
                // A counted operation writes a part of its chunk.
                if writes && instr.counted.is_none() && (at >= loop_end || operand.size <= loop_chunks) {
                    let (part, of) = instr.slice;
                    let found = parts.entry((slot, range.start, range.end, of)).or_default();
                    if found.insert(part) && found.len() as u32 == of {
                        uses[slot].record(&range, COVERS);
                    }
                }
            }
        }
    }
    let mut uses = uses.map(Uses::finish);
    unify_operands(program, own_rank, &slots, &mut uses);
    mark_operations(program, own_rank, &slots, &uses);
    let chunks = |which: fn(&Use) -> bool| {
        [0, 1].map(|slot| slots.intervals[slot].chunks(|interval| which(&uses[slot][interval])))
    };
    let any = |which: fn(&Use) -> bool| uses.each_ref().map(|uses| uses.iter().any(which));
    Placement {
        peers_access: any(|c| c.peer_reads || c.peer_writes),
        peers_write: any(|c| c.peer_writes),
        copy_in: chunks(|c| (c.peer_reads || c.peer_writes || !c.private) && (c.input || !c.covered)),
        copy_out: chunks(|c| !c.private && (c.own_writes || c.peer_writes)),
        accesses,
        accessed_by,
        shares,
    }
}

/// Number of accesses to each interval, by kind, as differences between neighbors: the cost of a range does not depend
/// on its length.
struct Uses(Vec<[i32; 5]>);

const OWN_WRITES: usize = 0;
const PEER_READS: usize = 1;
const PEER_WRITES: usize = 2;
const COVERS: usize = 3;
const INPUT: usize = 4;

impl Uses {
    fn new(intervals: &Intervals) -> Self {
        Self(vec![[0; 5]; intervals.len() + 1])
    }

    fn record(&mut self, intervals: &Range<usize>, what: usize) {
        self.0[intervals.start][what] += 1;
        self.0[intervals.end][what] -= 1;
    }

    fn finish(self) -> Vec<Use> {
        let mut sums = [0; 5];
        let uses = self.0.into_iter().map(|differences| {
            sums.iter_mut().zip(differences).for_each(|(sum, difference)| *sum += difference);
            let [own_writes, peer_reads, peer_writes, covered, input] = sums.map(|sum| sum > 0);
            // Both locations of a chunk that is never written are equal.
            let private = !(peer_writes || peer_reads && own_writes);
            Use { own_writes, peer_reads, peer_writes, private, covered, input }
        });
        uses.collect()
    }
}

/// An own operand has one location: if a part of it must be shared, all of it is, and so are the operands that overlap
/// with it.
fn unify_operands(program: &ResolvedPlan, own_rank: u32, slots: &Slots, uses: &mut [Vec<Use>; SLOTS]) {
    let mut operands = [Vec::new(), Vec::new()];
    each_own_operand(program, own_rank, |at| {
        let (slot, intervals) = slots.of(&program.operands[at]);
        operands[slot].push((intervals.start, intervals.end));
    });
    for (mut operands, uses) in operands.into_iter().zip(uses) {
        operands.sort_unstable();
        let mut chains: Vec<Range<usize>> = Vec::new();
        for (start, end) in operands {
            match chains.last_mut() {
                Some(chain) if start < chain.end => chain.end = chain.end.max(end),
                _ => chains.push(start..end),
            }
        }
        for chain in chains {
            let uses = &mut uses[chain];
            if uses.iter().any(|interval| !interval.private) {
                uses.iter_mut().for_each(|interval| interval.private = false);
            }
        }
    }
}

/// Marks own operands that use the caller's memory, own operations that access other callers' buffers, and own
/// operations that are exclusive.
fn mark_operations(program: &mut ResolvedPlan, own_rank: u32, slots: &Slots, uses: &[Vec<Use>; SLOTS]) {
    let ResolvedPlan { agents, instrs, operands, .. } = program;
    for code in agents.iter().filter(|code| code.rank == own_rank) {
        for instr in &mut instrs[code.start as usize..code.end as usize] {
            let all = &mut operands[instr.operands as usize..][..(instr.srcs + instr.dsts) as usize];
            instr.accesses_peer_buffers =
                all.iter().any(|operand| operand.rank != own_rank && operand.space.is_callers());
            instr.exclusive = matches!(instr.action, Opcode::Transfer(Transfer::Copy | Transfer::Reduce));
            for (number, operand) in all.iter_mut().enumerate() {
                if operand.rank != own_rank || !operand.space.is_callers() {
                    instr.exclusive = false;
                    continue;
                }
                let (slot, intervals) = slots.of(operand);
                let uses = &uses[slot][intervals];
                let written = number >= instr.srcs as usize;
                instr.exclusive &= !uses.iter().any(|interval| interval.peer_writes || written && interval.peer_reads);
                // All of its intervals are private, or none.
                if uses.first().is_none_or(|interval| interval.private) {
                    operand.space = if operand.space == Space::Input { Space::OwnInput } else { Space::OwnOutput };
                }
            }
        }
    }
}

/// Calls `f` with the index of each operand of own operations that is in this rank's caller's memory.
fn each_own_operand(program: &ResolvedPlan, own_rank: u32, mut f: impl FnMut(usize)) {
    for code in program.agents.iter().filter(|code| code.rank == own_rank) {
        for instr in &program.instrs[code.start as usize..code.end as usize] {
            let first = instr.operands as usize;
            for at in first..first + (instr.srcs + instr.dsts) as usize {
                let operand = &program.operands[at];
                if operand.rank == own_rank && operand.space.is_callers() {
                    f(at);
                }
            }
        }
    }
}

/// Location of a rank's chunks in its buffers.
struct Slots {
    intervals: [Intervals; SLOTS],
    in_place: bool,
    /// First chunk of input and output in the only buffer of an in-place plan.
    first: [u64; 2],
    /// The rank's input.
    input: Range<u64>,
}

impl Slots {
    fn new(program: &ResolvedPlan, own_rank: u32) -> Self {
        let shape = &program.shape;
        let own = |chunks: u32| u64::from(own_rank) * u64::from(chunks);
        let first = match shape.collective.kind {
            CollectiveKind::AllGather if shape.collective.in_place => [own(shape.input), 0],
            CollectiveKind::ReduceScatter if shape.collective.in_place => [0, own(shape.output)],
            _ => [0, 0],
        };
        let input = first[0]..first[0] + u64::from(shape.input);
        let mut slots = Self {
            intervals: [Intervals::default(), Intervals::default()],
            in_place: shape.collective.in_place,
            first,
            input,
        };
        let mut cuts = [vec![slots.input.clone()], Vec::new()];
        for operand in program.operands.iter().filter(|operand| operand.rank == own_rank && operand.space.is_callers())
        {
            let (slot, chunks) = slots.chunks(operand);
            cuts[slot].push(chunks);
        }
        slots.intervals = cuts.map(Intervals::new);
        slots
    }

    /// Returns the slot of an operand and its chunks there.
    fn chunks(&self, operand: &Operand) -> (usize, Range<u64>) {
        let output = matches!(operand.space, Space::Output | Space::OwnOutput) as usize;
        let start = self.first[output] + u64::from(operand.index);
        (if self.in_place { 0 } else { output }, start..start + u64::from(operand.size))
    }

    /// Returns the slot of an operand and its intervals there.
    fn of(&self, operand: &Operand) -> (usize, Range<usize>) {
        let (slot, chunks) = self.chunks(operand);
        (slot, self.intervals[slot].of(&chunks))
    }
}
