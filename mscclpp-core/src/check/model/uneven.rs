//! Sizes at which the slices of thread-block groups are unequal.
//!
//! A slice is made of whole units of the alignment, so the first members of a group have one unit more wherever the units
//! do not divide. Two ranges that are cut in the same way are cut at the same places whatever the size. But where a range
//! that does not divide into whole chunks per member meets another one that begins or ends inside of it, or is cut
//! otherwise, it depends on the size who touches what: of two chunks of three units each, the second of four members has
//! one unit of the second chunk. And of a chunk of one unit, the second member has nothing: packets that it would write or
//! wait for order nobody.
//!
//! Let u be the units of a chunk, g the members and L the chunks of a range, so that member k begins at unit
//! b(u) = k ⌊Lu / g⌋ + min(k, Lu mod g), at most g / 4 units behind the k-th part, and b(u + g) = b(u) + kL. With G for the
//! least common multiple of all members, what is behind another boundary at size u + 2G is so at u + G as well: from there
//! on, what the plan does depends on u mod G only. So the sizes from 1 to 2G units stand for all. Where that would take
//! too long, only the first of them are tried: the shift relative to a chunk is largest at one unit, and no plan is known
//! that fails at others only.
//!
//! Where all ranges are equally long, all that are split have equally many members, each thread block has the same part of all
//! that it splits, and there is a chunk for every member, no part is ever empty, and of two ranges that a thread block touches
//! the same one is longer at every size. Then the usual size stands for these as well.

use super::atoms::number;
use super::size::{Size, least_common_multiple};
use super::{Space, effects, home};
use crate::check::place::{Placed, each_of};
use crate::check::shape::{Packets, demand};
use crate::check::symmetry::Symmetry;
use crate::check::view::View;

/// A range of chunks and into how many slices it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cut {
    start: u64,
    end: u64,
    of: u32,
}

impl Cut {
    /// Whether its slices begin within chunks.
    fn is_uneven(&self) -> bool {
        !(self.end - self.start).is_multiple_of(u64::from(self.of))
    }
}

/// Steps of a plan at all of its uneven sizes together, beyond which only the first sizes are tried.
const MOST_STEPS: u64 = 1 << 13;

/// Sizes that are tried whatever they cost.
const LEAST_SIZES: u64 = 3;

/// The sizes beyond the usual ones at which a plan must run, none for nearly all plans.
pub(in super::super) fn uneven_sizes(view: View, symmetry: Option<&Symmetry>) -> impl Iterator<Item = Size> + use<> {
    let (mut uneven, mut packets, mut steps, mut groups) = (false, false, 0, 1);
    let (own, kinds) = own_ranks(view, symmetry);
    let mut alike = Alike::default();
    each_of(view, 0..own, &mut |at| {
        steps += kinds;
        alike.see(&at);
        if let Some(slice) = at.op.slice {
            let cut = at.op.srcs.iter().chain(&at.op.dsts).any(|range| range.size % slice.of.max(1) != 0);
            uneven |= cut;
            packets |= cut && demand(at.op.kind).dsts.packets != Packets::Nothing;
            groups = least_common_multiple(groups, slice.of.into());
        }
    });
    let most = match uneven && cuts(view, symmetry).into_iter().any(meet) {
        true => (2 * groups).min(LEAST_SIZES.max(MOST_STEPS / steps)),
        // A slice of packets that is empty orders nobody; most are with a single unit to a chunk. Long plans repeat what short
        // ones of the same kind do, and are believed for the time that it would take.
        false => u64::from(packets && !alike.are_all() && steps <= MOST_STEPS),
    };
    let grain = u64::from(view.plan.buffer_alignment.max(16));
    (1..=most).map(move |units| Size::uneven(units, grain))
}

/// How many ranks stand for all, and for how many each.
fn own_ranks(view: View, symmetry: Option<&Symmetry>) -> (usize, u64) {
    let ranks = view.plan.ranks.len();
    let own = symmetry.map_or(ranks, |symmetry| symmetry.own as usize);
    (own, ranks.checked_div(own).unwrap_or(1) as u64)
}

/// Whether all ranges are equally long, and split alike.
#[derive(Default)]
struct Alike {
    /// Chunks of a range.
    size: Option<u32>,
    members: Option<u32>,
    /// The thread block at hand, and its part.
    part: Option<(usize, usize, u32)>,
    differ: bool,
}

impl Alike {
    fn see(&mut self, at: &Placed) {
        let Placed { rank, block, op, .. } = *at;
        self.differ |= op.body.is_some();
        for range in op.srcs.iter().chain(&op.dsts) {
            self.differ |= *self.size.get_or_insert(range.size) != range.size;
        }
        let Some(slice) = op.slice.filter(|slice| slice.of > 1) else { return };
        self.differ |= *self.members.get_or_insert(slice.of) != slice.of;
        let part = (rank, block, slice.index);
        let known = self.part.replace(part).filter(|known| (known.0, known.1) == (rank, block));
        self.differ |= known.is_some_and(|known| known != part);
    }

    /// Whether they are, with a chunk for every member.
    fn are_all(&self) -> bool {
        !self.differ && self.members <= self.size
    }
}

/// How every memory is cut, by its number.
fn cuts(view: View, symmetry: Option<&Symmetry>) -> Vec<Vec<Cut>> {
    let plan = view.plan;
    let (own, _) = own_ranks(view, symmetry);
    let mut cuts = vec![Vec::new(); own * Space::ALL.len()];
    let mut chunks = symmetry.map(|symmetry| symmetry.chunks.iter().copied());
    each_of(view, 0..own, &mut |at| {
        let of = at.op.slice.map_or(1, |slice| slice.of.max(1));
        effects(plan, &at, &mut |effect| {
            let (buffer, start) = home(plan, effect.owner, effect.buffer, effect.range.index);
            let start = chunks.as_mut().map_or(Some(start), Iterator::next).unwrap_or(start);
            let memory = number(effect.owner % own as u32, Space::of(buffer, effect.packets));
            let end = u64::from(start) + u64::from(effect.range.size);
            let cut = Cut { start: start.into(), end, of };
            // Neighbouring operations often share a range.
            if cuts[memory].last() != Some(&cut) {
                cuts[memory].push(cut);
            }
        });
    });
    cuts
}

/// Whether an uneven cut meets one that begins or ends inside of it, or that cuts the same chunks otherwise. An operation that
/// is not split meets all of its slices at once, if it covers it.
fn meet(mut cuts: Vec<Cut>) -> bool {
    cuts.sort_unstable();
    cuts.dedup();
    let mut whole_ends: Vec<u64> = cuts.iter().filter(|cut| cut.of == 1).map(|cut| cut.end).collect();
    whole_ends.sort_unstable();
    // How far they reach: those split in any way; uneven ones that begin before here; those that begin here.
    let (mut split, mut before, mut here) = (0, 0, (0, 0));
    for cut in cuts {
        if here.0 != cut.start {
            before = here.1.max(before);
            here = (cut.start, 0);
        }
        if cut.start < before || cut.of > 1 && here.1 > 0 {
            return true;
        }
        if cut.is_uneven() {
            let next = whole_ends.partition_point(|&end| end <= cut.start);
            if cut.start < split || whole_ends.get(next).is_some_and(|&end| end < cut.end) {
                return true;
            }
            here.1 = here.1.max(cut.end);
        }
        if cut.of > 1 {
            split = split.max(cut.end);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::super::check;
    use super::{Cut, meet, uneven_sizes};
    use crate::diag::Code;
    use crate::testing::plan;

    fn sizes(ops: &[&str]) -> usize {
        uneven_sizes((&plan(&[ops, &[""]])).into(), None).count()
    }

    #[test]
    fn equal_cuts_and_whole_ranges_need_no_sizes_of_their_own() {
        for ops in [
            &["copy i0+2 > s0+2", "copy s0 > o0"][..],
            &["copy/0:2 i0+2 > s0+2", "copy/1:2 i0+2 > s0+2; copy s0 > o0"],
            &["copy/0:4 i0+2 > s0+2", "copy/1:4 i0+2 > s0+2; nop; copy/1:4 s0+2 > o0+2", "copy s0+3 > o2+3"],
            &["copy/0:2 i0 > s0", "copy/1:2 i0 > s0; copy/1:2 i1 > s1; copy s0+2 > o0+2"],
        ] {
            assert_eq!(sizes(ops), 0, "{ops:?}");
        }
        assert_eq!(sizes(&["copy/0:4 i0+2 > s0+2", "copy s1 > o0"]), 8);
        assert_eq!(sizes(&["copy/0:4 i0+2 > s0+2", "copy/0:2 s0+2 > o0+2"]), 8);
        assert_eq!(sizes(&["copy/0:2 i0 > s0", "copy/0:3 s0 > o0"]), 12);
    }

    /// Against the definition, pair by pair.
    #[test]
    fn cuts_meet_as_defined() {
        let cut = |start, size, of| Cut { start, end: start + size, of };
        let all: Vec<Cut> =
            (0..3).flat_map(|start| (1..4).flat_map(move |size| (1..5).map(move |of| cut(start, size, of)))).collect();
        for a in &all {
            for b in &all {
                let overlap = a.start < b.end && b.start < a.end;
                let covers =
                    |whole: &Cut, other: &Cut| whole.of == 1 && whole.start <= other.start && other.end <= whole.end;
                let uneven = a.is_uneven() || b.is_uneven();
                // Where only one is uneven, the other may be whole around it.
                let fine = a == b || covers(a, b) || covers(b, a);
                assert_eq!(meet(vec![*a, *b]), overlap && uneven && !fine, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn parts_that_are_never_empty_need_no_size_of_their_own() {
        let ops = |slice: &str, range: &str| {
            format!("cpkt/{slice} i0{range} > s0{range}; nop; upkt/{slice} s0{range} > o0{range}")
        };
        let of = |ops: &[String]| sizes(&ops.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(of(&[ops("0:2", "+3"), ops("1:2", "+3")]), 0);
        // Of one chunk the second of two may have nothing.
        assert_eq!(of(&[ops("0:2", ""), ops("1:2", "")]), 1);
        // Another part, another length, and a loop.
        assert_eq!(of(&[ops("0:2", "+3"), format!("{}; cpkt/0:2 i0+3 > s0+3", ops("1:2", "+3"))]), 1);
        assert_eq!(of(&[ops("0:2", "+3"), format!("{}; copy i3 > o3", ops("1:2", "+3"))]), 1);
        assert_eq!(of(&[ops("0:2", "+3"), format!("{}; loop 64x1 {{ copy i0+3 > o0+3 }}", ops("1:2", "+3"))]), 1);
    }

    /// Thread block 3 waits for block 2 only. In equal parts that would be enough for the second chunk.
    #[test]
    fn a_slice_that_reaches_into_the_next_chunk_is_seen() {
        let blocks = |order: &'static str| {
            let last = format!("copy/3:4 i0+2 > s0+2; {order}; nop; copy s1 > o0");
            let found = check(&plan(&[
                &[
                    "copy/0:4 i0+2 > s0+2",
                    "copy/1:4 i0+2 > s0+2; nop; sem_release#1",
                    "copy/2:4 i0+2 > s0+2; nop; sem_release#0",
                    &last,
                ],
                &[""],
            ]));
            found.into_iter().map(|finding| (finding.code, finding.message)).collect::<Vec<_>>()
        };
        assert_eq!(blocks("sem_acquire#0,1"), []);
        let found = blocks("sem_acquire#0; nop; copy s1 > o1; sem_acquire#1");
        assert!(
            found.iter().all(|(code, message)| *code == Code::Race && message.contains("thread block 1")),
            "{found:?}"
        );
        assert!(!found.is_empty());
    }
}
