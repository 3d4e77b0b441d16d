//! What the operations of a plan touch, as parts of ranges that are cut.

use std::collections::{BTreeMap, BTreeSet};

use super::cut::{Cut, Entry};
use crate::check::effect::{Effect, effects};
use crate::check::model::{Space, memory_number};
use crate::check::place::{Placed, each_of, home};
use crate::check::symmetry::Symmetry;
use crate::check::view::View;
use crate::plan::{OpKind, Slice};

/// A slice of a range of chunks, or a whole range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// Number of the memory.
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

    /// The units that it begins and ends at, with this many to a chunk.
    pub(super) fn extent(&self, units: u64) -> (u64, u64) {
        let begin = |member: u64| self.start * units + self.cut.begin(member, units);
        (begin(self.member.into()), begin(u64::from(self.member) + 1))
    }
}

/// Where two ranges begin that have to do with each other, by memory and chunk, and how many chunks they have.
type Move = ((usize, u64), (usize, u64), u32);

/// All parts that the operations of a plan touch.
#[derive(Default)]
pub(super) struct Parts {
    /// Each once, in order.
    pub(super) parts: Vec<Part>,
    /// Ranges between which operations move data, the first chunk of the one to the first chunk of the other.
    moves: BTreeSet<Move>,
    /// The same of slices that one thread block touches one after the other.
    known: BTreeSet<Move>,
    /// Per thread block, the slices that it touches, wherever they are. Each set once.
    pub(super) lengths: BTreeSet<Vec<(Cut, u32)>>,
    /// How often each range is touched: outside of loops, and in loops by unit and span.
    touches: BTreeMap<(Part, Option<(u64, u32)>), u64>,
    pub(super) has_packets: bool,
    /// Packets, and whether they are written.
    packets: BTreeSet<(Part, bool)>,
}

/// Chunks of all ranges beyond which they are not followed one by one.
const MOST_CHUNKS: u64 = 1 << 21;

/// The cut of an operation's ranges of some length, with what becomes of their beginning.
pub(super) fn cut(slice: Option<Slice>, len: u32) -> (Cut, u32, u64) {
    match slice.filter(|slice| slice.of > 1) {
        None => (Cut { len, of: 1 }, 0, 0),
        Some(Slice { index, of }) if len.is_multiple_of(of) => {
            let each = len / of;
            (Cut { len: each, of: 1 }, 0, u64::from(index) * u64::from(each))
        }
        Some(Slice { index, of }) => (Cut { len, of }, index, 0),
    }
}

impl Parts {
    /// Of the first ranks of a plan.
    pub(super) fn of(view: View, symmetry: Option<&Symmetry>, own: usize) -> Self {
        let plan = view.plan;
        let mut all = Self::default();
        let mut chunks = symmetry.map(|symmetry| symmetry.chunks.iter().copied());
        let (mut lengths, mut last, mut block) = (BTreeSet::new(), BTreeMap::new(), (0, 0));
        let mut touched: Vec<(Effect, Part)> = Vec::new();
        each_of(view, 0..own, &mut |at| {
            if block != (at.rank, at.block) {
                all.lengths.insert(std::mem::take(&mut lengths).into_iter().collect());
                last.clear();
                block = (at.rank, at.block);
            }
            touched.clear();
            effects(plan, &at, &mut |effect| {
                let (buffer, start) = home(plan, effect.owner, effect.buffer, effect.range.index);
                let start = chunks.as_mut().map_or(Some(start), Iterator::next).unwrap_or(start);
                let memory = memory_number(effect.owner % own as u32, Space::of(buffer, effect.packets));
                let (cut, member, behind) = cut(at.op.slice, effect.range.size);
                lengths.insert((cut, member));
                all.has_packets |= effect.packets;
                let part = Part { memory, start: u64::from(start) + behind, cut, member };
                if effect.packets {
                    all.packets.insert((part, effect.write));
                }
                touched.push((effect, part));
            });
            all.add(&at, &touched, &mut last);
        });
        all.lengths.insert(lengths.into_iter().collect());
        if all.has_packets {
            all.moves.append(&mut all.known);
        }
        all.parts = all.touches.keys().map(|(part, _)| *part).collect();
        all.parts.dedup();
        all
    }

    /// What an operation touches.
    fn add(&mut self, at: &Placed, touched: &[(Effect, Part)], last: &mut BTreeMap<(Cut, u32), Part>) {
        use OpKind as K;
        let body = at.inside.and_then(|(_, pipeline)| pipeline.body.as_ref()).map(|body| (body.unit, body.num_chunks));
        // Threads know each other by their places in equal slices.
        for (_, part) in touched {
            let known = last.insert((part.cut, part.member), *part).filter(|_| part.cut.is_uneven());
            if let Some(known) = known.filter(|known| (known.memory, known.start) != (part.memory, part.start)) {
                self.known.insert(((known.memory, known.start), (part.memory, part.start), part.cut.len));
            }
        }
        for (_, part) in touched {
            *self.touches.entry((*part, body)).or_default() += 1;
        }
        // Of several pairs each is moved on its own; of all else, all goes everywhere.
        let kind = at.op.kind;
        let all =
            kind.is_reduce() || matches!(kind, K::ReadPutPackets | K::SwitchBroadcast | K::SwitchBroadcastPackets);
        let firsts = touched.iter().filter(|(effect, _)| !effect.write);
        for (read, from) in firsts.take(if all { 1 } else { usize::MAX }) {
            for (effect, to) in touched {
                let goes = all || effect.position == read.position;
                if goes && from.cut == to.cut && (from.memory, from.start) != (to.memory, to.start) {
                    self.moves.insert(((from.memory, from.start), (to.memory, to.start), from.cut.len));
                }
            }
        }
    }

    /// Every cut that does not come out even.
    pub(super) fn uneven(&self) -> BTreeSet<Cut> {
        self.parts.iter().map(|part| part.cut).filter(|cut| cut.is_uneven()).collect()
    }

    /// The cuts that each thread block touches, each set once.
    pub(super) fn blocks(&self) -> BTreeSet<BTreeSet<Cut>> {
        self.lengths.iter().map(|slices| slices.iter().map(|(cut, _)| *cut).collect()).collect()
    }

    /// The ways in which chunks that have to do with each other are cut: those between which data is moved, directly or not, taken
    /// together. Only where some are cut unevenly. `None` if there are too many chunks.
    pub(super) fn components(&self) -> Option<BTreeSet<Vec<Entry>>> {
        let mut ranges: Vec<(usize, u64, Cut)> =
            self.parts.iter().map(|part| (part.memory, part.start, part.cut)).collect();
        ranges.dedup();
        let count = |lens: &mut dyn Iterator<Item = u32>| lens.map(u64::from).fold(0, u64::saturating_add);
        let moved = count(&mut self.moves.iter().map(|(.., len)| *len));
        if count(&mut ranges.iter().map(|(.., cut)| cut.len)).saturating_add(moved) > MOST_CHUNKS {
            return None;
        }
        let chunks = |memory: usize, start: u64, len: u32| (start..start + u64::from(len)).map(move |at| (memory, at));
        let mut nodes: Vec<(usize, u64)> =
            ranges.iter().flat_map(|&(memory, start, cut)| chunks(memory, start, cut.len)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        // Neighboring chunks have neighboring numbers.
        let node = |memory: usize, start: u64| nodes.partition_point(|node| *node < (memory, start));
        let mut sets = Sets { parents: (0..nodes.len() as u32).collect() };
        for &(from, to, len) in &self.moves {
            let (from, to) = (node(from.0, from.1) as u32, node(to.0, to.1) as u32);
            (0..len).for_each(|offset| sets.join(from + offset, to + offset));
        }
        let mut entries: Vec<(u32, Entry)> = Vec::new();
        for (memory, start, cut) in ranges {
            let first = node(memory, start) as u32;
            entries.extend((0..cut.len).map(|offset| (sets.root(first + offset), Entry { cut, offset })));
        }
        entries.sort_unstable();
        entries.dedup();
        let components = entries.chunk_by(|one, other| one.0 == other.0);
        let uneven = components.filter(|entries| entries.iter().any(|(_, entry)| entry.cut.is_uneven()));
        Some(uneven.map(|entries| entries.iter().map(|(_, entry)| *entry).collect()).collect())
    }

    /// The packets that have to do with each other, and whether they are written: what overlaps in one memory, directly or not,
    /// counted from the first chunk. Only where some are cut unevenly.
    pub(super) fn packets(&self) -> BTreeSet<BTreeSet<(Part, bool)>> {
        let mut all = BTreeSet::new();
        let mut group: Vec<(Part, bool)> = Vec::new();
        let mut end = (0, 0);
        for (part, write) in &self.packets {
            if end.0 != part.memory || end.1 <= part.start {
                all.insert(moved(std::mem::take(&mut group)));
                end = (part.memory, 0);
            }
            group.push((*part, *write));
            end.1 = part.end().max(end.1);
        }
        all.insert(moved(group));
        all.retain(|group| group.iter().any(|(part, _)| part.cut.is_uneven()));
        all
    }

    /// Pieces of memory that are touched in one run, about, with this many bytes to a chunk.
    pub(super) fn work(&self, chunk_bytes: u64) -> u64 {
        let mut members: BTreeMap<usize, u64> = BTreeMap::new();
        let cuts: BTreeSet<(usize, Cut)> = self.parts.iter().map(|part| (part.memory, part.cut)).collect();
        for (memory, cut) in cuts.iter().filter(|(_, cut)| cut.is_uneven()) {
            *members.entry(*memory).or_default() += u64::from(cut.of.div_ceil(cut.len));
        }
        let one = |(part, body): &(Part, Option<(u64, u32)>), times: u64| {
            let cut = members.get(&part.memory).copied().unwrap_or(0).saturating_mul(part.cut.len.into());
            let trips =
                body.map_or(1, |(unit, span)| (u64::from(span).saturating_mul(chunk_bytes)).div_ceil(unit.max(1)));
            times.saturating_mul(trips).saturating_mul(1 + cut / u64::from(part.cut.of))
        };
        self.touches.iter().map(|(key, times)| one(key, *times)).fold(0, u64::saturating_add)
    }
}

/// Parts of one memory, counted from the first chunk.
fn moved(parts: Vec<(Part, bool)>) -> BTreeSet<(Part, bool)> {
    let first = parts.first().map_or(0, |(part, _)| part.start);
    parts.into_iter().map(|(part, write)| (Part { memory: 0, start: part.start - first, ..part }, write)).collect()
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
