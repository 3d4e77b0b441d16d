//! The accesses of a plan's operations, as parts of ranges that are cut.

use std::collections::{BTreeMap, BTreeSet};

use super::cut::{Component, Cut, Entry};
use crate::access::{Access, accesses};
use crate::counts::Counts;
use crate::model::{Space, memory_number};
use crate::place::{LocatedOp, canonical_buffer, each_of};
use crate::symmetry::Symmetry;
use crate::view::View;
use mscclpp_plan::collective::ChunkCounts;
use mscclpp_plan::raw::{Flow, PlanTree, Slice};
use mscclpp_plan::types::BufferKind;

/// A slice of a range of chunks, or a whole range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// Number of the buffer.
    pub(super) memory: usize,
    /// The first chunk of the range.
    pub(super) start: u64,
    pub(super) cut: Cut,
    pub(super) member: u32,
}

impl Part {
    fn end(&self) -> u64 {
        self.start + u64::from(self.cut.len)
    }

    /// Returns whether it is empty at some sizes.
    pub(super) fn may_be_empty(&self) -> bool {
        self.cut.may_be_empty(self.member)
    }

    /// Returns the units at which it begins and ends, with this many per chunk.
    pub(super) fn extent(&self, units: u64) -> (u64, u64) {
        let begin = |member: u64| self.start * units + self.cut.begin(member, units);
        (begin(self.member.into()), begin(u64::from(self.member) + 1))
    }
}

/// The begins of two connected ranges, by buffer and chunk, and their number of chunks.
type Move = ((usize, u64), (usize, u64), u32);

/// An operation's access to a part.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PartAccess {
    part: Part,
    packets: bool,
    write: bool,
    /// Unit and span of the loop.
    body: Option<(u64, u32)>,
}

/// All parts that the operations of a plan access.
#[derive(Default)]
pub(super) struct Parts {
    /// Each once, in order.
    pub(super) parts: Vec<Part>,
    /// Ranges between which operations move data, the first chunk of the one to the first chunk of the other.
    moves: Vec<Move>,
    /// The same for slices that one thread block accesses one after the other.
    known: Vec<Move>,
    /// Per thread block, the slices that it accesses, in any buffer. Each set once.
    pub(super) lengths: Vec<Vec<(Cut, u32)>>,
    /// In order of the parts.
    accesses_of_parts: Vec<PartAccess>,
    pub(super) has_packets: bool,
    /// Whether all ranges are equal or disjoint, and each counts as one chunk.
    are_apart: bool,
    /// Connected packets, and whether they are written: those that overlap in one buffer, directly or not, counted from
    /// the first chunk. Only if some are cut unevenly.
    pub(super) packets: Vec<Vec<(Part, bool)>>,
}

/// Maximum number of chunks of all ranges that are examined separately.
const MAX_CHUNKS: u64 = 1 << 21;

/// Returns the cut of an operation's ranges of some length, with the number of its member and the offset of its first chunk.
pub(super) fn cut(slice: Option<Slice>, len: u32) -> (Cut, u32, u64) {
    match slice.filter(|slice| slice.count > 1) {
        None => (Cut { len, of: 1 }, 0, 0),
        Some(Slice { index, count: of }) if len.is_multiple_of(of) => {
            let each = len / of;
            (Cut { len: each, of: 1 }, 0, u64::from(index) * u64::from(each))
        }
        Some(Slice { index, count: of }) => (Cut { len, of }, index, 0),
    }
}

impl Parts {
    /// Collects the parts of the first ranks of a plan.
    pub(super) fn of(view: View, symmetry: Option<&Symmetry>, own: usize) -> Self {
        let plan = view.plan;
        let mut all = Self::default();
        let mut chunks = symmetry.map(|symmetry| symmetry.chunks.iter().copied());
        let (mut lengths, mut last, mut block) = (Vec::new(), BTreeMap::new(), (0, 0));
        let mut touched: Vec<(Access, Part)> = Vec::new();
        each_of(view, 0..own, &mut |at| {
            if block != (at.rank, at.block) {
                all.lengths.push(once_each(std::mem::take(&mut lengths)));
                last.clear();
                block = (at.rank, at.block);
            }
            touched.clear();
            accesses(plan, &at, &mut |effect| {
                let (buffer, start) = canonical_buffer(plan, effect.owner, effect.buffer, effect.range.index);
                let start = chunks.as_mut().map_or(Some(start), Iterator::next).unwrap_or(start);
                let memory = memory_number(effect.owner % own as u32, Space::of(buffer, effect.packets));
                let (cut, member, offset) = cut(at.op.slice, effect.range.size);
                if lengths.last() != Some(&(cut, member)) {
                    lengths.push((cut, member));
                }
                all.has_packets |= effect.packets;
                let part = Part { memory, start: u64::from(start) + offset, cut, member };
                touched.push((effect, part));
            });
            all.add(&at, &touched, &mut last);
        });
        all.lengths.push(once_each(lengths));
        all.lengths = once_each(all.lengths);
        if all.has_packets {
            all.moves.append(&mut all.known);
        }
        all.moves = once_each(all.moves);
        all.accesses_of_parts.sort_unstable();
        let packets = all.accesses_of_parts.iter().filter(|touch| touch.packets);
        let mut packets: Vec<_> = packets.map(|touch| (touch.part, touch.write)).collect();
        packets.dedup();
        all.packets = groups(&packets);
        all.parts = all.accesses_of_parts.iter().map(|touch| touch.part).collect();
        all.parts.dedup();
        // What is lost where chunks are short depends on the chunks of a range, unless the range of sizes excludes no length of a part.
        let chunks_are_alike = Counts::of(view, all.has_packets).is_none_or(|counts| counts.has_every_threshold());
        all.are_apart = chunks_are_alike && all.are_apart() && all.keep_postconditions_whole(plan, symmetry, own);
        all
    }

    /// Returns whether each two ranges are equal or have no chunk in common.
    fn are_apart(&self) -> bool {
        let range = |part: &Part| (part.memory, part.start, part.cut.len);
        let mut pairs = self.parts.windows(2).map(|pair| (&pair[0], &pair[1]));
        pairs.all(|(one, next)| range(one) == range(next) || one.memory != next.memory || one.end() <= next.start)
    }

    /// Returns whether the postcondition of each range is consecutive chunks of some inputs, or nothing.
    fn keep_postconditions_whole(&self, plan: &PlanTree, symmetry: Option<&Symmetry>, own: usize) -> bool {
        if symmetry.is_some_and(|symmetry| !symmetry.keeps_inputs()) || !plan.expectations.is_empty() {
            return false;
        }
        let tables = plan.ranks.first();
        let (input, output) = tables.map_or((0, 0), |rank| (rank.input_chunks, rank.output_chunks));
        // The sources of the inputs have no influence on this.
        let extent = ChunkCounts { num_ranks: plan.ranks.len() as u32, input, output, distance: 1 };
        let mut boundaries: Vec<(usize, u64)> = Vec::new();
        for rank in 0..own as u32 {
            for postcondition in plan.collective.postconditions(extent, rank) {
                let (buffer, first) = canonical_buffer(plan, rank, BufferKind::Output, postcondition.chunk);
                let memory = memory_number(rank, Space::of(buffer, false));
                let (first, len) = (u64::from(first), u64::from(postcondition.len));
                boundaries.extend([(memory, first), (memory, first + len)]);
            }
        }
        boundaries.sort_unstable();
        let crosses = |part: &Part| {
            let next = boundaries.partition_point(|boundary| *boundary <= (part.memory, part.start));
            boundaries.get(next).is_some_and(|(memory, at)| *memory == part.memory && *at < part.end())
        };
        !self.parts.iter().any(crosses)
    }

    /// Adds the accesses of an operation.
    fn add(&mut self, at: &LocatedOp, touched: &[(Access, Part)], last: &mut BTreeMap<(Cut, u32), Part>) {
        let body = at.inside.and_then(|(_, pipeline)| pipeline.body.as_ref()).map(|body| (body.unit, body.num_chunks));
        // Threads are identified by their positions in equal slices.
        for (_, part) in touched {
            if !part.cut.is_uneven() {
                continue;
            }
            let known = last.insert((part.cut, part.member), *part);
            if let Some(known) = known.filter(|known| (known.memory, known.start) != (part.memory, part.start)) {
                self.known.push(((known.memory, known.start), (part.memory, part.start), part.cut.len));
            }
        }
        let touch = |(effect, part): &(Access, Part)| {
            let Access { packets, write, .. } = *effect;
            PartAccess { part: *part, packets, write, body }
        };
        self.accesses_of_parts.extend(touched.iter().map(touch));
        // Of several pairs each is moved separately; otherwise every source goes to every destination.
        let all = at.op.kind.flow() != Some(Flow::Pairs);
        let firsts = touched.iter().filter(|(effect, _)| !effect.write);
        for (read, from) in firsts.take(if all { 1 } else { usize::MAX }) {
            for (effect, to) in touched {
                let goes = all || effect.position == read.position;
                if goes && from.cut == to.cut && (from.memory, from.start) != (to.memory, to.start) {
                    self.moves.push(((from.memory, from.start), (to.memory, to.start), from.cut.len));
                }
            }
        }
    }

    /// Returns all uneven cuts.
    pub(super) fn uneven(&self) -> BTreeSet<Cut> {
        self.parts.iter().map(|part| part.cut).filter(|cut| cut.is_uneven()).collect()
    }

    /// Returns the cuts that each thread block accesses, each set once.
    pub(super) fn blocks(&self) -> BTreeSet<BTreeSet<Cut>> {
        self.lengths.iter().map(|slices| slices.iter().map(|(cut, _)| *cut).collect()).collect()
    }

    /// Returns the ways in which connected chunks are cut: those between which data moves, directly or not, together.
    /// Only if some are cut unevenly. `None` if there are too many chunks.
    pub(super) fn components(&self) -> Option<BTreeSet<Component>> {
        let mut ranges: Vec<(usize, u64, Cut)> =
            self.parts.iter().map(|part| (part.memory, part.start, part.cut)).collect();
        ranges.dedup();
        let count = |lens: &mut dyn Iterator<Item = u32>| lens.map(u64::from).fold(0, u64::saturating_add);
        let moved = count(&mut self.moves.iter().map(|(.., len)| *len));
        if count(&mut ranges.iter().map(|(.., cut)| cut.len)).saturating_add(moved) > MAX_CHUNKS {
            return None;
        }
        let count = |len: u32| if self.are_apart { 1 } else { len };
        let chunks = |memory: usize, start: u64, len: u32| (start..start + u64::from(len)).map(move |at| (memory, at));
        let mut nodes: Vec<(usize, u64)> =
            ranges.iter().flat_map(|&(memory, start, cut)| chunks(memory, start, count(cut.len))).collect();
        nodes.sort_unstable();
        nodes.dedup();
        // Neighboring chunks have neighboring numbers.
        let node = |memory: usize, start: u64| nodes.partition_point(|node| *node < (memory, start));
        let mut sets = Sets { parents: (0..nodes.len() as u32).collect() };
        for &(from, to, len) in &self.moves {
            let (from, to) = (node(from.0, from.1) as u32, node(to.0, to.1) as u32);
            (0..count(len)).for_each(|offset| sets.join(from + offset, to + offset));
        }
        let mut entries: Vec<(u32, Entry)> = Vec::new();
        for (memory, start, cut) in ranges {
            let first = node(memory, start) as u32;
            entries.extend((0..count(cut.len)).map(|offset| (sets.root(first + offset), Entry { cut, offset })));
        }
        entries.sort_unstable();
        entries.dedup();
        let components = entries.chunk_by(|one, other| one.0 == other.0);
        let uneven = components.filter(|entries| entries.iter().any(|(_, entry)| entry.cut.is_uneven()));
        let component = |entries: &[(u32, Entry)]| Component {
            span: if self.are_apart { entries.first().map_or(1, |(_, entry)| entry.cut.len) } else { 1 },
            entries: entries.iter().map(|(_, entry)| *entry).collect(),
        };
        Some(uneven.map(component).collect())
    }

    /// Returns the approximate number of accesses to atoms at some sizes, given the bytes of a chunk at each.
    pub(super) fn work(&self, sizes: &[u64]) -> u64 {
        let mut members = vec![0u64; self.parts.last().map_or(0, |part| part.memory + 1)];
        let cuts = once_each(self.parts.iter().map(|part| (part.memory, part.cut)).collect());
        for (memory, cut) in cuts.iter().filter(|(_, cut)| cut.is_uneven()) {
            members[*memory] += u64::from(cut.of.div_ceil(cut.len));
        }
        let one = |PartAccess { part, body, .. }: &PartAccess| {
            let cut = members[part.memory].saturating_mul(part.cut.len.into());
            let trips = body.map_or(sizes.len() as u64, |(unit, span)| {
                let trips = sizes.iter().map(|bytes| u64::from(span).saturating_mul(*bytes).div_ceil(unit.max(1)));
                trips.fold(0, u64::saturating_add)
            });
            trips.saturating_mul(1 + cut / u64::from(part.cut.of))
        };
        self.accesses_of_parts.iter().map(one).fold(0, u64::saturating_add)
    }
}

/// Returns the elements of a list in order, each once.
fn once_each<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

/// Returns packets in groups, as in [`Parts`].
fn groups(packets: &[(Part, bool)]) -> Vec<Vec<(Part, bool)>> {
    let mut groups = Vec::new();
    let mut add = |group: &[(Part, bool)]| {
        let Some((first, _)) = group.first().filter(|_| group.iter().any(|(part, _)| part.cut.is_uneven())) else {
            return;
        };
        let moved = |part: &Part| Part { memory: 0, start: part.start - first.start, ..*part };
        groups.push(group.iter().map(|(part, write)| (moved(part), *write)).collect());
    };
    let (mut first, mut end) = (0, (0, 0));
    for (number, (part, _)) in packets.iter().enumerate() {
        if end.0 != part.memory || end.1 <= part.start {
            add(&packets[first..number]);
            (first, end) = (number, (part.memory, 0));
        }
        end.1 = part.end().max(end.1);
    }
    add(&packets[first..]);
    once_each(groups)
}

/// Disjoint sets of numbers.
struct Sets {
    parents: Vec<u32>,
}

impl Sets {
    fn root(&mut self, mut number: u32) -> u32 {
        while self.parents[number as usize] != number {
            let parent = self.parents[number as usize];
            self.parents[number as usize] = self.parents[parent as usize];
            number = parent;
        }
        number
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.root(one), self.root(other));
        let (low, high) = (one.min(other), one.max(other));
        self.parents[high as usize] = low;
    }
}
