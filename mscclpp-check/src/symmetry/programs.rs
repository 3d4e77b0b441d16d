//! The programs of all ranks, compared with those of the first ones.

use smallvec::{SmallVec, smallvec};

use super::super::access::accesses;
use super::super::pairing::Pairs;
use super::super::place::{LocatedOp, canonical_buffer, each_of};
use super::super::view::View;
use crate::space::Space;
use mscclpp_plan::raw::{IdList, Op, OpKind, RankPlan};
use mscclpp_plan::types::ChannelKind;

/// The programs of the first ranks, and the matching accesses of the others.
pub(super) struct Programs {
    /// Per representative, the accesses of its operations, in order, and the channels that they use.
    pub(super) access_shapes: Vec<Vec<AccessShape>>,
    channel_uses: Vec<Vec<ChannelUse>>,
    /// Per representative and operation, the ends of its accesses and channels.
    ends: Vec<Vec<(u32, u32)>>,
    /// Per representative, the first of its entries in `chunks` and in `counters`, and the number for each rank of its
    /// class.
    places: Vec<[(usize, usize); 2]>,
    /// By representative and rotation, the first chunk of every access.
    chunks: Vec<u32>,
    /// By representative and rotation, the counter of every use of a channel.
    counters: Vec<u32>,
}

/// An access of an operation, without its first chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessShape {
    /// The owner of the memory: a representative, and its rotation, as seen from the accessing rank.
    pub(super) owner: u32,
    pub(super) shift: u32,
    pub(super) space: Space,
    /// Chunks.
    pub(super) size: u32,
    position: u32,
    write: bool,
    /// Number of the operation if it accesses others in the same way, unordered: sources that are combined.
    pub(super) unordered_group: u32,
}

/// Number of no operation.
pub(super) const NO_UNORDERED_GROUP: u32 = u32::MAX;

/// One operation.
#[derive(Default)]
struct Flat {
    access_shapes: Vec<(AccessShape, u32)>,
    /// Counters, and for each its direction as seen from the rank.
    counters: Vec<(u32, ChannelUse)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct ChannelUse {
    from: u32,
    to: u32,
    number: u32,
    kind: ChannelKind,
    /// The rotation of the rank to which it leads.
    shift: u32,
}

impl Programs {
    /// Compares the programs of a plan in groups of `own` ranks, except for chunks. `None` if they differ.
    pub(super) fn of(view: View, pairs: &Pairs, own: u32) -> Option<Self> {
        if !begin_equally(view, pairs, own) {
            return None;
        }
        let mut programs = Self {
            access_shapes: Vec::with_capacity(own as usize),
            channel_uses: Vec::with_capacity(own as usize),
            ends: Vec::with_capacity(own as usize),
            places: Vec::with_capacity(own as usize),
            chunks: Vec::new(),
            counters: Vec::new(),
        };
        let ranks = view.plan.ranks.len() as u32;
        for rank in 0..own {
            programs.add(view, pairs, own, rank)?;
            for other in (rank + own..ranks).step_by(own as usize) {
                programs.compare(view, pairs, own, (rank, other))?;
            }
        }
        Some(programs)
    }

    /// Returns whether the first operation of the first rank that accesses another rank does so in the rank that would
    /// match: few plans need more than this to be found not symmetric.
    pub(super) fn may_be(view: View, pairs: &Pairs, own: u32) -> bool {
        let (mut mine, mut theirs) = (Flat::default(), Flat::default());
        let blocks = [0, own].map(|rank| &view.plan.ranks[rank as usize].blocks);
        if blocks.iter().any(|blocks| blocks.is_empty()) {
            return true;
        }
        for (index, (op, like)) in view.ops(0, 0).iter().zip(view.ops(own as usize, 0)).enumerate() {
            let one = LocatedOp { rank: 0, block: 0, index, inside: None, op, instances: view.instances() };
            let other = LocatedOp { rank: own as usize, op: like, ..one };
            if mine.fill(view, pairs, own, &one).is_none() || theirs.fill(view, pairs, own, &other).is_none() {
                return false;
            }
            let is_far = |access: &AccessShape| (access.owner, access.shift) != (0, 0);
            if mine.counters.is_empty() && !mine.access_shapes.iter().any(|(access, _)| is_far(access)) {
                continue;
            }
            let has_order = op.channel != Some(ChannelKind::Port) && op.channel != Some(ChannelKind::Switch);
            return !has_order
                || mine
                    .counters
                    .iter()
                    .map(|(_, channel_use)| channel_use)
                    .eq(theirs.counters.iter().map(|(_, channel_use)| channel_use))
                    && mine
                        .access_shapes
                        .iter()
                        .map(|(access, _)| access)
                        .eq(theirs.access_shapes.iter().map(|(access, _)| access));
        }
        true
    }

    /// Returns the first chunk of every access of a representative, in another rank of its class.
    pub(super) fn chunks(&self, own: u32, shift: u32) -> &[u32] {
        let (first, len) = self.places[own as usize][0];
        &self.chunks[first + shift as usize * len..][..len]
    }

    /// Returns the counter of every channel that a representative uses, in another rank of its class.
    pub(super) fn counters(&self, own: u32, shift: u32) -> &[u32] {
        let (first, len) = self.places[own as usize][1];
        &self.counters[first + shift as usize * len..][..len]
    }

    /// Returns the rotation of the rank to which each channel of a representative leads.
    pub(super) fn shifts(&self, rank: u32) -> impl Iterator<Item = u32> {
        self.channel_uses[rank as usize].iter().map(|channel_use| channel_use.shift)
    }

    fn add(&mut self, view: View, pairs: &Pairs, own: u32, rank: u32) -> Option<()> {
        let firsts = [self.chunks.len(), self.counters.len()];
        let (mut access_shapes, mut channel_uses, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let (mut flat, mut whole) = (Flat::default(), true);
        each_of(view, rank as usize..rank as usize + 1, &mut |at| {
            whole &= flat.fill(view, pairs, own, &at).is_some();
            for &(mut access, chunk) in &flat.access_shapes {
                // Sources that are combined may be in any order.
                let unordered_group = at.op.kind.is_reduce() && !access.write && access.position > 0;
                access.unordered_group = if unordered_group && (access.owner, access.shift) == (rank, 0) {
                    ends.len() as u32
                } else {
                    NO_UNORDERED_GROUP
                };
                access_shapes.push(access);
                self.chunks.push(chunk);
            }
            self.counters.extend(flat.counters.iter().map(|(counter, _)| *counter));
            channel_uses.extend(flat.counters.iter().map(|(_, channel_use)| *channel_use));
            ends.push((access_shapes.len() as u32, channel_uses.len() as u32));
        });
        self.places.push([(firsts[0], access_shapes.len()), (firsts[1], channel_uses.len())]);
        self.access_shapes.push(access_shapes);
        self.channel_uses.push(channel_uses);
        self.ends.push(ends);
        whole.then_some(())
    }

    /// Compares a rank with the representative of its class.
    fn compare(&mut self, view: View, pairs: &Pairs, own: u32, (one, other): (u32, u32)) -> Option<()> {
        let [a, b] = [one, other].map(|rank| &view.plan.ranks[rank as usize]);
        if !are_tables_equal(a, b) {
            return None;
        }
        let (mut number, mut flat) = (0, Flat::default());
        for block in 0..a.blocks.len() {
            let [list, others] = [one, other].map(|rank| view.ops(rank as usize, block));
            if list.len() != others.len() {
                return None;
            }
            for (index, (op, like)) in list.iter().zip(others).enumerate() {
                let instances = view.instances();
                let at = LocatedOp { rank: other as usize, block, index, inside: None, op: like, instances };
                self.hold(view, pairs, own, (one, number), op, &at, &mut flat, list)?;
                number += 1;
                let (Some(body), Some(likes)) = (&op.body, &like.body) else { continue };
                for (i, (inner, other)) in body.ops.iter().zip(&likes.ops).enumerate() {
                    let at = LocatedOp { inside: Some((i, like)), op: other, ..at };
                    self.hold(view, pairs, own, (one, number), inner, &at, &mut flat, list)?;
                    number += 1;
                }
            }
        }
        Some(())
    }

    /// Records the accesses of another rank in place of operation `number` of a representative.
    #[expect(clippy::too_many_arguments, reason = "what is compared, and where")]
    fn hold(
        &mut self,
        view: View,
        pairs: &Pairs,
        own: u32,
        (rank, number): (u32, usize),
        op: &Op,
        at: &LocatedOp,
        theirs: &mut Flat,
        block: &[Op],
    ) -> Option<()> {
        if !are_equal(op, at.op) {
            return None;
        }
        theirs.fill(view, pairs, own, at)?;
        let rank = rank as usize;
        let begin = number.checked_sub(1).map_or((0, 0), |before| self.ends[rank][before]);
        let end = self.ends[rank][number];
        let access_shapes = &self.access_shapes[rank][begin.0 as usize..end.0 as usize];
        let channel_uses = &self.channel_uses[rank][begin.1 as usize..end.1 as usize];
        if access_shapes.len() != theirs.access_shapes.len() || channel_uses.len() != theirs.counters.len() {
            return None;
        }
        // The other rank's channel in place of each. Triggers that threads post, each to its own port, are unordered.
        let mut order: SmallVec<[u32; 16]> = SmallVec::new();
        if channel_uses.iter().zip(&theirs.counters).any(|(channel_use, (_, other))| channel_use != other) {
            let pairs = [op.srcs.len(), op.dsts.len()] == [op.ids.len(); 2];
            if !(pairs && op.kind.is_data() && op.channel == Some(ChannelKind::Port) && has_one_with_ids(block)) {
                return None;
            }
            let mut free =
                theirs.counters.iter().map(|(_, channel_use)| Some(*channel_use)).collect::<SmallVec<[_; 16]>>();
            let mut next = 0;
            for channel_use in channel_uses {
                // Mostly the next one, since orders begin elsewhere.
                let place = (next..free.len()).chain(0..next).find(|place| free[*place] == Some(*channel_use))?;
                free[place] = None;
                order.push(place as u32);
                next = place + 1;
            }
        }
        let place = |i: usize| order.get(i).map_or(i, |place| *place as usize);
        self.counters.extend((0..channel_uses.len()).map(|i| theirs.counters[place(i)].0));
        let mut taken: SmallVec<[u64; 4]> = smallvec![0; access_shapes.len().div_ceil(64)];
        for (i, access) in access_shapes.iter().enumerate() {
            let position = place(access.position as usize);
            let wanted = AccessShape { position: position as u32, unordered_group: NO_UNORDERED_GROUP, ..*access };
            let likely = i - access.position as usize + position;
            let found = match theirs.access_shapes.get(likely) {
                Some((other, _)) if *other == wanted => likely,
                // The members of a switch are in the order of their numbers.
                _ => theirs.access_shapes.iter().position(|(other, _)| *other == wanted)?,
            };
            let (word, bit) = (found / 64, 1 << (found % 64));
            if taken[word] & bit > 0 {
                return None;
            }
            taken[word] |= bit;
            self.chunks.push(theirs.access_shapes[found].1);
        }
        Some(())
    }
}

impl Flat {
    /// `None` if a channel does not exist.
    fn fill(&mut self, view: View, pairs: &Pairs, own: u32, at: &LocatedOp) -> Option<()> {
        let plan = view.plan;
        let ranks = plan.ranks.len() as u32;
        let rank = at.rank as u32;
        let back = rank - rank % own;
        let seen = |other: u32| if other >= back { other - back } else { other + ranks - back };
        self.access_shapes.clear();
        self.counters.clear();
        accesses(plan, at, &mut |effect| {
            let (buffer, index) = canonical_buffer(plan, effect.owner, effect.buffer, effect.range.index);
            let (owner, position) = (seen(effect.owner), effect.position as u32);
            let access = AccessShape {
                owner: owner % own,
                shift: owner / own,
                space: Space::of(buffer, effect.packets),
                size: effect.range.size,
                position,
                write: effect.write,
                unordered_group: NO_UNORDERED_GROUP,
            };
            self.access_shapes.push((access, index));
        });
        let (waits, op) = (at.op.kind.waits(), at.op);
        if op.kind.ids() == IdList::Channels || op.channel == Some(ChannelKind::Port) {
            let (incoming, outgoing) = (pairs.incoming(plan, at), pairs.outgoing(plan, at));
            for &id in &op.ids {
                let counter = if waits { incoming(id) } else { outgoing(id) }?;
                let channel_use = pairs.direction(counter);
                let channel_use = ChannelUse {
                    from: seen(channel_use.from),
                    to: seen(channel_use.to),
                    number: channel_use.number,
                    kind: channel_use.kind,
                    shift: 0,
                };
                self.counters.push((counter as u32, ChannelUse { shift: channel_use.to / own, ..channel_use }));
            }
        }
        Some(())
    }
}

/// Returns whether the first rank that may be a rotated one begins as the first representative does: most plans without
/// symmetry fail this before everything has been compared. Compares the first operation of each thread block that
/// involves other ranks.
fn begin_equally(view: View, pairs: &Pairs, own: u32) -> bool {
    let [one, other] = [0, own as usize];
    let [a, b] = [one, other].map(|rank| &view.plan.ranks[rank]);
    let (mut mine, mut theirs) = (Flat::default(), Flat::default());
    are_tables_equal(a, b)
        && (0..a.blocks.len()).all(|block| {
            let [list, others] = [one, other].map(|rank| view.ops(rank, block));
            let Some(index) = list.iter().position(|op| op.channel.is_some()) else { return true };
            let (op, Some(like)) = (&list[index], others.get(index)) else { return false };
            // Triggers of ports may be in another order.
            if op.kind.is_data() && op.channel == Some(ChannelKind::Port) {
                return true;
            }
            let at = |rank, op| LocatedOp { rank, block, index, inside: None, op, instances: view.instances() };
            let all = are_equal(op, like)
                && mine.fill(view, pairs, own, &at(one, op)).is_some()
                && theirs.fill(view, pairs, own, &at(other, like)).is_some();
            all && mine
                .counters
                .iter()
                .map(|(_, channel_use)| channel_use)
                .eq(theirs.counters.iter().map(|(_, channel_use)| channel_use))
                && mine
                    .access_shapes
                    .iter()
                    .all(|(access, _)| theirs.access_shapes.iter().any(|(other, _)| other == access))
        })
}

/// Returns whether two ranks have tables of equal length.
fn are_tables_equal(one: &RankPlan, other: &RankPlan) -> bool {
    (one.input_chunks, one.output_chunks, one.scratch_chunks)
        == (other.input_chunks, other.output_chunks, other.scratch_chunks)
        && one.semaphores == other.semaphores
        && one.blocks.len() == other.blocks.len()
}

/// Returns whether two operations differ at most in channels and in the chunks and owners of their operands.
fn are_equal(one: &Op, other: &Op) -> bool {
    (one.kind, one.channel, one.reduce, one.sync) == (other.kind, other.channel, other.reduce, other.sync)
        && (one.slice, one.num_blocks) == (other.slice, other.num_blocks)
        && one.ids.len() == other.ids.len()
        && (one.srcs.len(), one.dsts.len()) == (other.srcs.len(), other.dsts.len())
        && (!one.kind.has_ids_of_rank() || one.ids == other.ids)
        && match (&one.body, &other.body) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                (one.unit, one.num_chunks, one.ops.len()) == (other.unit, other.num_chunks, other.ops.len())
            }
            _ => false,
        }
}

/// Returns whether at most one of some operations is executed by single threads.
fn has_one_with_ids(ops: &[Op]) -> bool {
    let numbered = |op: &&Op| op.body.is_some() || !op.ids.is_empty() && op.kind != OpKind::Barrier;
    ops.iter().filter(numbered).count() == 1 && ops.iter().all(|op| op.body.is_none())
}
