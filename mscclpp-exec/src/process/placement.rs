//! Which of a rank's operations can use the caller's memory, and what of it peers must see.
//!
//! Where the caller's slices are shared this makes no difference. Where they are not, peers see copies: a chunk that peers read
//! is copied in before a launch, one that peers write is copied out after it, and all else stays where it is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mscclpp_core::collective::CollectiveKind;

use crate::interpret::{Program, Space};

/// What a rank hands in: input or the one buffer of an in-place plan, output.
pub(super) const SLOTS: usize = 2;

/// How a rank's memory is used, in chunks.
pub(super) struct Placement {
    /// By slot: what must be copied to memory that peers see before a launch.
    pub(super) copy_in: [Vec<Range<u64>>; SLOTS],
    /// By slot: what must be copied from there after it.
    pub(super) copy_out: [Vec<Range<u64>>; SLOTS],
    /// By slot: whether peers access it, and whether they write to it.
    pub(super) touched: [bool; SLOTS],
    pub(super) peers_write: [bool; SLOTS],
    /// By rank: whose callers' buffers this rank accesses, and who accesses those of this rank's caller.
    pub(super) visits: Vec<bool>,
    pub(super) visited_by: Vec<bool>,
    /// Whether any rank accesses what another one's caller has handed in: the same on all ranks.
    pub(super) shares: bool,
}

/// What is done to a chunk.
#[derive(Clone, Copy, Default)]
struct Use {
    own_writes: bool,
    peer_reads: bool,
    peer_writes: bool,
    /// Own operations use the caller's memory.
    private: bool,
    /// Writes leave nothing of it as it was.
    covered: bool,
    /// It is part of the rank's input.
    input: bool,
}

/// Decides for rank `me`, and marks its operations in the program accordingly.
pub(super) fn place(program: &mut Program, me: u32) -> Placement {
    let ranks = program.shape.ranks as usize;
    let (mut visits, mut visited_by) = (vec![false; ranks], vec![false; ranks]);
    let mut shares = false;
    let slots = Slots::new(program, me);
    let mut uses = slots.chunks.map(|chunks| vec![Use::default(); chunks as usize]);
    for chunk in slots.range(Space::Input, 0, program.shape.input).1 {
        uses[0][chunk as usize].input = true;
    }
    let mut parts: BTreeMap<(usize, u64, u64, u32), BTreeSet<u32>> = BTreeMap::new();
    for code in &program.agents {
        let own = code.rank == me;
        let mut loop_end = 0;
        for at in code.start..code.end {
            let instr = &program.instrs[at as usize];
            if instr.body > 0 {
                loop_end = at + 1 + instr.body;
            }
            let operands = program.srcs(instr).iter().map(|src| (src, false));
            for (operand, writes) in operands.chain(program.dsts(instr).iter().map(|dst| (dst, true))) {
                if !operand.space.is_callers() {
                    continue;
                }
                shares |= operand.rank != code.rank;
                if own && operand.rank != me {
                    visits[operand.rank as usize] = true;
                }
                if operand.rank != me {
                    continue;
                }
                visited_by[code.rank as usize] |= !own;
                let (slot, range) = slots.range(operand.space, operand.index, operand.size);
                for chunk in range.clone() {
                    let chunk = &mut uses[slot][chunk as usize];
                    chunk.own_writes |= own && writes;
                    chunk.peer_reads |= !own && !writes;
                    chunk.peer_writes |= !own && writes;
                }
                if writes && at >= loop_end {
                    let (part, of) = instr.slice;
                    let found = parts.entry((slot, range.start, range.end, of)).or_default();
                    found.insert(part);
                    if found.len() as u32 == of {
                        uses[slot][range.start as usize..range.end as usize].iter_mut().for_each(|c| c.covered = true);
                    }
                }
            }
        }
    }
    for chunk in uses.iter_mut().flatten() {
        let touched = chunk.peer_reads || chunk.peer_writes;
        // What nobody writes is the same in both places.
        chunk.private = !touched || !(chunk.own_writes || chunk.peer_writes);
    }
    settle(program, me, &slots, &mut uses);
    mark(program, me, &slots, &uses);
    let ranges = |which: &dyn Fn(&Use) -> bool| uses.each_ref().map(|uses| ranges(uses, which));
    let any = |which: fn(&Use) -> bool| uses.each_ref().map(|uses| uses.iter().any(which));
    Placement {
        touched: any(|c| c.peer_reads || c.peer_writes),
        peers_write: any(|c| c.peer_writes),
        copy_in: ranges(&|c| (c.peer_reads || c.peer_writes || !c.private) && (c.input || !c.covered)),
        copy_out: ranges(&|c| !c.private && (c.own_writes || c.peer_writes)),
        visits,
        visited_by,
        shares,
    }
}

/// An own operand lies in one place: if a part of it must be shared, all of it is.
fn settle(program: &Program, me: u32, slots: &Slots, uses: &mut [Vec<Use>; SLOTS]) {
    let mut changed = true;
    while changed {
        changed = false;
        each_own_operand(program, me, |at| {
            let operand = &program.operands[at];
            let (slot, range) = slots.range(operand.space, operand.index, operand.size);
            let uses = &mut uses[slot][range.start as usize..range.end as usize];
            let private = uses.iter().filter(|chunk| chunk.private).count();
            if private != 0 && private != uses.len() {
                uses.iter_mut().for_each(|chunk| chunk.private = false);
                changed = true;
            }
        });
    }
}

/// Marks own operands that use the caller's memory, and own operations that access other callers'.
fn mark(program: &mut Program, me: u32, slots: &Slots, uses: &[Vec<Use>; SLOTS]) {
    let mut own = Vec::new();
    each_own_operand(program, me, |at| own.push(at));
    for at in own {
        let operand = &mut program.operands[at];
        let (slot, mut range) = slots.range(operand.space, operand.index, operand.size);
        if range.all(|chunk| uses[slot][chunk as usize].private) {
            operand.space = if operand.space == Space::Input { Space::OwnInput } else { Space::OwnOutput };
        }
    }
    for code in program.agents.iter().filter(|code| code.rank == me) {
        for instr in &mut program.instrs[code.start as usize..code.end as usize] {
            let operands = &program.operands[instr.operands as usize..][..(instr.srcs + instr.dsts) as usize];
            instr.visits = operands.iter().any(|operand| operand.rank != me && operand.space.is_callers());
        }
    }
}

/// Positions of the operands of own operations that lie in the own caller's memory.
fn each_own_operand(program: &Program, me: u32, mut f: impl FnMut(usize)) {
    for code in program.agents.iter().filter(|code| code.rank == me) {
        for instr in &program.instrs[code.start as usize..code.end as usize] {
            let first = instr.operands as usize;
            for at in first..first + (instr.srcs + instr.dsts) as usize {
                let operand = &program.operands[at];
                if operand.rank == me && operand.space.is_callers() {
                    f(at);
                }
            }
        }
    }
}

fn ranges(uses: &[Use], which: impl Fn(&Use) -> bool) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for at in (0..uses.len() as u64).filter(|&at| which(&uses[at as usize])) {
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

/// Where a rank's chunks lie in what it hands in.
struct Slots {
    chunks: [u64; SLOTS],
    in_place: bool,
    /// First chunk of input and output in the one buffer of an in-place plan.
    first: [u64; 2],
}

impl Slots {
    fn new(program: &Program, me: u32) -> Self {
        let shape = &program.shape;
        let (input, output) = (u64::from(shape.input), u64::from(shape.output));
        if !shape.collective.in_place {
            return Self { chunks: [input, output], in_place: false, first: [0, 0] };
        }
        let first = match shape.collective.kind {
            CollectiveKind::AllGather => [u64::from(me) * input, 0],
            CollectiveKind::ReduceScatter => [0, u64::from(me) * output],
            _ => [0, 0],
        };
        Self { chunks: [(first[0] + input).max(first[1] + output), 0], in_place: true, first }
    }

    /// The slot and the chunks in it of a range of chunks of a space.
    fn range(&self, space: Space, index: u32, size: u32) -> (usize, Range<u64>) {
        let output = matches!(space, Space::Output | Space::OwnOutput) as usize;
        let start = self.first[output] + u64::from(index);
        (if self.in_place { 0 } else { output }, start..start + u64::from(size))
    }
}
