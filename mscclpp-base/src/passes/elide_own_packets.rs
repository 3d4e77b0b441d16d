//! Reduces a rank's own contribution from where it is, instead of from packets that the rank sends to itself.
//!
//! A plan that reduces in the order of ranks has to bring the rank's own contribution between those of the others, and its
//! operations have the plain source of a reduction after the packets. So each rank packs its own contribution, and unpacks that of
//! the last rank. Executors have no such restriction: a resolved reduction combines its sources from left to right, whatever they
//! are. The pass turns
//!
//! ```text
//! pack    X -> packets S             (own contribution)
//! unpack  packets L -> D             (that of the last rank)
//! reduce  packets A, S, B, plain D -> D, ...
//! ```
//!
//! into `reduce packets A, plain X, packets B, L -> D, ...`.
//!
//! # Why this is sound
//!
//! *Contents.* S has one writer for each slice, the pack, and the reduction of the same slice in the same thread block is its only
//! reader, on any rank. No operation of any rank writes X, except the two that write D where X is D. So the reduction reads from X what the
//! pack read there; where it writes X, it reads each element before it writes it. D is written by the unpack and read
//! by the reduction with no synchronization between them, so no other operation of an accepted plan can access it there, and the
//! reduction overwrites all of it.
//!
//! *Order of the sum.* S stands at its place, and L stands where D stood: last.
//!
//! *Block syncs* between the unpack and the reduction are elided where no operation before one, up to the previous one, conflicts
//! with one after it, up to the next one.
//!
//! *Progress and counters.* The packets of L are awaited by the reduction instead of the unpack, in the same thread block. Nothing
//! else is awaited or signalled in between.
//!
//! *Scratch.* Fewer packets are written, and none is read that was not written.
//!
//! Nothing is changed in thread blocks with loops. The validator looks for the elided operations on its own, and proves the rest again.

use std::collections::{BTreeMap, BTreeSet};

use mscclpp_core::collective::CollectiveKind;

use crate::interpret::program::Instr;
use crate::interpret::{Opcode, Operand, ResolvedPlan, Space, Transfer};

/// Elides own packets in a resolved plan, in the thread blocks of all ranks. Takes time linear in the operations of all ranks, except for
/// sorting and for ranges that overlap.
pub fn elide_own_packets(program: &mut ResolvedPlan) {
    if !program.shape.packets {
        return;
    }
    let candidates: Vec<Elided> = candidates(program);
    if candidates.is_empty() {
        return;
    }
    let accesses = Accesses::new(program);
    let mut elided: Vec<Elided> = Vec::new();
    // The slices of a pack are elided together, because a reduction elsewhere could read those that remain.
    let mut by_packets: BTreeMap<(u32, u32, u32), Vec<Elided>> = BTreeMap::new();
    for one in candidates {
        by_packets.entry((one.packets.rank, one.packets.index, one.packets.size)).or_default().push(one);
    }
    for group in by_packets.into_values() {
        if accesses.allow(program, &group) {
            elided.extend(group);
        }
    }
    apply(program, &accesses, &elided);
}

/// A pack that a reduction of the same thread block makes unnecessary.
struct Elided {
    pack: u32,
    unpack: u32,
    reduce: u32,
    /// What is packed, and the packets.
    from: Operand,
    packets: Operand,
}

fn is_transfer(instr: &Instr, transfer: Transfer) -> bool {
    instr.action == Opcode::Transfer(transfer)
}

/// Returns the operations of the pattern within thread blocks, whatever other operations there are.
fn candidates(program: &ResolvedPlan) -> Vec<Elided> {
    let mut found = Vec::new();
    for code in &program.agents {
        let block = &program.instrs[code.start as usize..code.end as usize];
        if block.iter().any(|instr| instr.action == Opcode::Loop) {
            continue;
        }
        for (reduce, instr) in (code.start..).zip(block).filter(|(_, instr)| is_transfer(instr, Transfer::Reduce)) {
            let before = (code.start..reduce).zip(block);
            found.extend(own_packets(program, code.rank, before, reduce, instr));
        }
    }
    found
}

/// Returns the pack and the unpack whose results a reduction reads, if both can be elided as far as its thread block goes.
/// `before`: the instructions before it.
fn own_packets<'a>(
    program: &ResolvedPlan,
    rank: u32,
    before: impl DoubleEndedIterator<Item = (u32, &'a Instr)> + Clone,
    reduce: u32,
    instr: &Instr,
) -> Option<Elided> {
    let [packets @ .., plain] = program.srcs(instr) else { return None };
    let is_local = |operand: &Operand| operand.rank == rank && operand.space != Space::Packets;
    let has_packets = !packets.is_empty() && packets.iter().all(|packets| packets.space == Space::Packets);
    if !has_packets || !is_local(plain) || !program.dsts(instr).contains(plain) {
        return None;
    }
    let pair = |instr: &Instr| match (program.srcs(instr), program.dsts(instr)) {
        (&[src], &[dst]) => Some((src, dst)),
        _ => None,
    };
    let same_slice = |other: &Instr| other.slice == instr.slice;
    // Directly before the reduction, or before packs.
    let passed = |instr: &Instr| {
        let is_pack = is_transfer(instr, Transfer::Pack) && program.srcs(instr).iter().all(|src| src != plain);
        is_pack || instr.action == Opcode::Nop
    };
    let (unpack, unpacks) = before.clone().rev().find(|(_, instr)| !passed(instr))?;
    let is_unpack = is_transfer(unpacks, Transfer::Unpack) && same_slice(unpacks);
    pair(unpacks).filter(|(_, dst)| is_unpack && dst == plain)?;
    before.rev().find_map(|(pack, packs)| {
        let (from, to) = pair(packs).filter(|_| is_transfer(packs, Transfer::Pack) && same_slice(packs))?;
        let is_own = is_local(&from) && to.rank == rank && packets.iter().filter(|&other| *other == to).count() == 1;
        is_own.then_some(Elided { pack, unpack, reduce, from, packets: to })
    })
}

/// An access of an instruction to chunks.
#[derive(Clone, Copy)]
struct Access {
    instr: u32,
    first: u32,
    end: u32,
    writes: bool,
}

/// All accesses to each memory of each rank.
struct Accesses {
    of: BTreeMap<(u32, u8), Vec<Access>>,
    /// Whether inputs and outputs are the same memory, chunk by chunk, and whether they are in another way.
    is_one_buffer: bool,
    is_shifted: bool,
}

impl Accesses {
    fn new(program: &ResolvedPlan) -> Self {
        let collective = &program.shape.collective;
        let is_shifted = matches!(collective.kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter);
        let is_one_buffer = collective.in_place;
        let mut accesses = Self { of: BTreeMap::new(), is_one_buffer, is_shifted: is_shifted && is_one_buffer };
        for at in program.agents.iter().flat_map(|code| code.start..code.end) {
            let instr = &program.instrs[at as usize];
            let srcs = program.srcs(instr).iter().map(|src| (src, false));
            for (operand, writes) in srcs.chain(program.dsts(instr).iter().map(|dst| (dst, true))) {
                let Operand { index, size, .. } = *operand;
                let access = Access { instr: at, first: index, end: index.saturating_add(size), writes };
                accesses.of.entry(accesses.memory(operand)).or_default().push(access);
            }
        }
        accesses
    }

    fn memory(&self, operand: &Operand) -> (u32, u8) {
        let space = if self.is_one_buffer && operand.space == Space::Output { Space::Input } else { operand.space };
        (operand.rank, space as u8)
    }

    /// Returns the accesses to any chunk of an operand.
    fn to<'a>(&'a self, operand: &'a Operand) -> impl Iterator<Item = Access> + 'a {
        let Operand { index, size, .. } = *operand;
        let all = self.of.get(&self.memory(operand)).into_iter().flatten().copied();
        all.filter(move |access| access.first < index.saturating_add(size) && index < access.end)
    }

    /// Returns whether the slices of packets may be elided: no other operation accesses the packets, and none changes what is packed.
    fn allow(&self, program: &ResolvedPlan, group: &[Elided]) -> bool {
        let packs: BTreeSet<u32> = group.iter().map(|one| one.pack).collect();
        let reduces: BTreeSet<u32> = group.iter().map(|one| one.reduce).collect();
        // Each of its own slice, which nothing else reads.
        let slices: BTreeSet<(u32, u32)> = group.iter().map(|one| program.instrs[one.pack as usize].slice).collect();
        let are_alone = [packs.len(), reduces.len(), slices.len()].iter().all(|&number| number == group.len())
            && slices.iter().all(|slice| slices.iter().all(|other| other.1 == slice.1));
        are_alone
            && group.iter().all(|one| {
                let mut others = self.to(&one.packets);
                let mut writers = self.to(&one.from).filter(|access| access.writes);
                let writes_from = |access: Access| {
                    let is_own = group.iter().any(|one| access.instr == one.reduce || access.instr == one.unpack);
                    is_own && program.dsts(&program.instrs[access.instr as usize]).contains(&one.from)
                };
                let is_callers = one.from.space.is_callers();
                others.all(
                    |access| {
                        if access.writes { packs.contains(&access.instr) } else { reduces.contains(&access.instr) }
                    },
                ) && writers.all(writes_from)
                    && !(self.is_shifted && is_callers)
            })
    }

    /// Returns whether threads have to synchronize between two lists of operations: some of these are no transfers, or one writes what
    /// another accesses. `sources`: of an operation.
    fn conflict(
        &self,
        program: &ResolvedPlan,
        before: &[u32],
        after: &[u32],
        sources: impl Fn(u32) -> Vec<Operand>,
    ) -> bool {
        let of = |at: &u32| {
            let instr = &program.instrs[*at as usize];
            (sources(*at), program.dsts(instr), matches!(instr.action, Opcode::Transfer(_)))
        };
        let overlap = |one: &Operand, other: &Operand| {
            let is_one = self.memory(one) == self.memory(other) || self.is_shifted && one.rank == other.rank;
            is_one && one.index < other.index + other.size && other.index < one.index + one.size
        };
        let any =
            |one: &[Operand], other: &[Operand]| one.iter().any(|one| other.iter().any(|other| overlap(one, other)));
        let after: Vec<_> = after.iter().map(of).collect();
        before.iter().map(of).any(|(srcs, dsts, is_transfer)| {
            let writes = after.iter().any(|(others, written, _)| any(dsts, others) || any(dsts, written));
            let reads = after.iter().any(|(_, written, _)| any(&srcs, written));
            !is_transfer || writes || reads
        }) || after.iter().any(|(_, _, is_transfer)| !is_transfer)
    }
}

/// Drops the packs and unpacks, and writes the sources of the reductions.
fn apply(program: &mut ResolvedPlan, accesses: &Accesses, elided: &[Elided]) {
    let mut dropped: BTreeSet<u32> = elided.iter().flat_map(|one| [one.pack, one.unpack]).collect();
    let by_reduce: BTreeMap<u32, &Elided> = elided.iter().map(|one| (one.reduce, one)).collect();
    let sources = |at: u32| {
        let mut srcs = program.srcs(&program.instrs[at as usize]).to_vec();
        if let Some(one) = by_reduce.get(&at) {
            let last = program.srcs(&program.instrs[one.unpack as usize])[0];
            for src in &mut srcs {
                match *src {
                    packets if packets == one.packets => *src = one.from,
                    packets if packets.space == Space::Packets => {}
                    _ => *src = last,
                }
            }
        }
        srcs
    };
    for code in &program.agents {
        let reduces = by_reduce.range(code.start..code.end);
        let syncs: Vec<u32> = reduces.flat_map(|(_, one)| one.unpack + 1..one.reduce).collect();
        for sync in syncs.into_iter().filter(|&at| program.instrs[at as usize].action == Opcode::Nop) {
            let is_end = |at: &u32| program.instrs[*at as usize].action == Opcode::Nop && !dropped.contains(at);
            let before: Vec<u32> = (code.start..sync).rev().take_while(|at| !is_end(at)).collect();
            let after: Vec<u32> = (sync + 1..code.end).take_while(|at| !is_end(at)).collect();
            let kept = |list: Vec<u32>| -> Vec<u32> { list.into_iter().filter(|at| !dropped.contains(at)).collect() };
            if !accesses.conflict(program, &kept(before), &kept(after), sources) {
                dropped.insert(sync);
            }
        }
    }
    let (mut instrs, mut operands) =
        (Vec::with_capacity(program.instrs.len()), Vec::with_capacity(program.operands.len()));
    let mut loops = Vec::with_capacity(program.loops.len());
    let mut agents = program.agents.clone();
    for code in &mut agents {
        let start = instrs.len() as u32;
        for at in (code.start..code.end).filter(|at| !dropped.contains(at)) {
            let mut instr = program.instrs[at as usize];
            if instr.action == Opcode::Loop {
                loops.push(instrs.len() as u32);
            }
            let first = operands.len() as u32;
            operands.extend(sources(at));
            operands.extend_from_slice(program.dsts(&instr));
            instr.operands = first;
            instrs.push(instr);
        }
        (code.start, code.end) = (start, instrs.len() as u32);
    }
    (program.instrs, program.operands) = (instrs.into(), operands);
    (program.agents, program.loops) = (agents, loops);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret::resolve;
    use mscclpp_algorithms as algorithms;
    use mscclpp_core::plan::Plan;

    /// Returns by rank the numbers of packs, unpacks and sources that are packets, and the positions of plain sources of reductions.
    fn summary(program: &ResolvedPlan) -> Vec<(usize, usize, Vec<usize>)> {
        let mut found = vec![(0, 0, Vec::new()); program.shape.ranks as usize];
        for code in &program.agents {
            let of_rank = &mut found[code.rank as usize];
            for at in code.start..code.end {
                let instr = &program.instrs[at as usize];
                of_rank.0 += usize::from(is_transfer(instr, Transfer::Pack));
                of_rank.1 += usize::from(is_transfer(instr, Transfer::Unpack));
                if is_transfer(instr, Transfer::Reduce) {
                    let srcs = program.srcs(instr).iter().enumerate();
                    of_rank.2.extend(srcs.filter(|(_, src)| src.space != Space::Packets).map(|(at, _)| at));
                }
            }
        }
        found
    }

    #[test]
    fn own_contribution_stands_at_its_place_on_every_rank() {
        for (name, group) in [("allreduce_one_shot_packets", 1), ("allreduce_one_shot_packets", 4)] {
            for (ranks, in_place) in [(2, false), (3, true), (8, false), (8, true)] {
                let algorithm = algorithms::find(name).expect("it is in the library");
                let arguments = algorithm.arguments([("group", group)]).expect("it has a group");
                let mut spec = algorithm.spec(ranks, ranks);
                spec.collective.in_place = in_place;
                let tree = algorithm.compile_tree(spec, &arguments).expect("it compiles");
                let mut program = resolve(&Plan::new(&tree)).expect("it can be run");
                elide_own_packets(&mut program);
                for (rank, (packs, unpacks, plain)) in summary(&program).into_iter().enumerate() {
                    // The packs for the other ranks, as one operation.
                    assert_eq!((packs, unpacks), (group, 0), "{name} on {ranks}, {in_place}, rank {rank}");
                    assert_eq!(plain, vec![rank; group], "{name} on {ranks}, {in_place}, rank {rank}");
                }
            }
        }
    }

    /// Rank 0 packs its contribution, rank 1 does not have to. `OTHER`: further operations of rank 1.
    const PLAN: &str = "plan own\ncollective allreduce\nranks 2\nprotocol LL\ndouble_scratch
rank 0 (input 2, output 2, scratch 4) {
  block 0:
    uses channels memory rank 1
    ppkt memory rank 1 scratch[0..2] <- input[0..2]
    cpkt scratch[0..2] <- input[0..2]
    upkt output[0..2] <- scratch[2..4]
    nop
    repkt sum output[0..2] <- output[0..2], scratch[0..2]
}
rank 1 (input 2, output 2, scratch 4) {
  block 0:
    uses channels memory rank 0
    ppkt memory rank 0 scratch[2..4] <- input[0..2]
    repkt sum output[0..2] <- input[0..2], scratch[0..2]
}
";

    #[test]
    fn packets_that_others_access_and_sources_that_change_stay() {
        let packs = |from: &str, to: &str| {
            let text = PLAN.replacen(from, to, 1);
            assert!(from == to || text != PLAN, "{from}");
            let tree = mscclpp_core::plan::text::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let mut program = resolve(&Plan::new(&tree)).expect("it can be run");
            elide_own_packets(&mut program);
            summary(&program)[0].0
        };
        assert_eq!(packs("", ""), 1, "that for the other rank");
        let own = "    cpkt scratch[0..2] <- input[0..2]\n";
        let unpack = "    upkt output[0..2] <- scratch[2..4]\n";
        for (from, to) in [
            // The packets are read again, in part, or written again.
            ("    nop\n", "    nop\n    upkt input[0..1] <- scratch[1..2]\n"),
            ("    nop\n", "    nop\n    cpkt scratch[1..2] <- input[0..1]\n"),
            // Their source changes on this rank, or by another one.
            (own, &format!("{own}    nop\n    copy input[1..2] <- output[0..1]\n    nop\n")),
            ("    ppkt memory rank 0", "    put memory rank 0 input[0..1] <- output[0..1]\n    ppkt memory rank 0"),
            // The sum is read before the reduction.
            ("    nop\n", "    nop\n    copy input[0..2] <- output[0..2]\n"),
            // Other parts of the chunks.
            (unpack, "    upkt output[0..2] <- scratch[2..4] slice 0/2\n"),
            (own, "    cpkt scratch[0..2] <- input[0..2] slice 0/2\n"),
            (own, "    cpkt scratch[0..1] <- input[0..1]\n    cpkt scratch[1..2] <- input[1..2]\n"),
            // In another order.
            (&format!("{own}{unpack}"), &format!("{unpack}    cpkt scratch[0..2] <- output[0..2]\n")),
        ] {
            assert!(packs(from, to) > 1, "{to}");
        }
    }
}
