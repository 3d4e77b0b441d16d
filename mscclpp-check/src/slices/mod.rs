//! The sizes at which a plan must be executed because the slices of its thread-block groups are unequal there: a result
//! for all sizes from a few.
//!
//! # What is cut
//!
//! A chunk has u units, u ≥ 1; a *unit* is the granularity of every boundary, and all chunks of a message have equally
//! many (executors pad the message to whole units per chunk, packets included). Of a range of L chunks, member k of a
//! group of g begins at unit
//!
//! > b(k, u) = k ⌊Lu / g⌋ + min(k, Lu mod g) = kLu / g + ε, with ε = min(k, ρ) − kρ / g and ρ = Lu mod g.
//!
//! Since ε is largest for k = ρ, 0 ≤ ε ≤ g / 4; and it depends only on u modulo g / gcd(L, g), the *period* of the cut.
//!
//! # Columns
//!
//! Ranges between which an operation moves data are equally long and cut equally, so an operation does to a unit at
//! offset q of one chunk what it does at offset q of others. Hence the offsets 0 ≤ q < u are independent: the *column*
//! q of a size consists of the q-th unit of every chunk, and what a plan does to a column is determined by the member
//! to which each cut assigns the unit at q of each of its chunks. This is the column's *signature*. It also contains
//! which slices in the column that one thread block accesses have equal extents, since the rules about races depend on
//! that: of two operations without a block sync in between, equal ranges are assigned to equal threads.
//!
//! **Theorem 1.** Let the order of a plan's operations be the same at sizes u and v, and let every signature of v be
//! one of u. If the rules accept the plan at u, they accept it at v.
//!
//! *Proof.* Rules about memory depend, for every unit, on which operations access it, in which order, in equal ranges
//! or not, and what it holds: by chunk and offset. For a unit of v take one of u, in the same chunk, in a column of the
//! same signature: the operations that access it are the same, and so is what they read, by induction over the
//! execution. ∎
//!
//! Slices that are equal are never worse than slices that differ, so a signature in which all extents differ represents
//! those in which some do not.
//!
//! Signatures need to agree only on connected chunks: those between which data moves, directly or not (a *component*).
//! Each component may have its own size u.
//!
//! # Finitely many
//!
//! **Theorem 2.** Let M be the least common multiple of the periods of some cuts, and G the maximum number of members
//! of any. Every signature that occurs, occurs at a size u ≤ (2 + ⌊G / 4⌋) M.
//!
//! *Proof.* A signature is determined by the order (before, equal, after) of the boundaries s u + b(k, u) of all
//! slices, where each may be shifted by whole chunks. Let two of them be α u + ε and α' u + ε', α ≥ α', and take the
//! sizes u = r + nM of one residue, 1 ≤ r ≤ M. There the difference is d + nz with z = (α − α') M, an integer since M
//! is a multiple of the periods, and an integer d. If z = 0 it is constant. Otherwise d > ε − ε' ≥ −G / 4, so d ≥ −⌊G /
//! 4⌋, z ≥ 1, and the difference is positive from n = 1 + ⌊G / 4⌋ on. ∎
//!
//! (2M is not enough: cuts of one chunk into 8 and into 4 have new orders at 19, 20 and 21 units.)
//!
//! At u = M, ε is zero for all boundaries: that is the usual size, at which every group divides evenly, scaled. So the
//! sizes from the bound down to 1 are examined, and one is kept if it has a signature that neither the usual size nor a
//! kept size has. Mostly these are few, since all intervals that do not vanish in long chunks exist at the usual size;
//! and the sizes kept for one component are mostly enough for the others. The length of the plan has no influence on
//! this.
//!
//! # Order
//!
//! Without packets the order of operations does not depend on the size: signals, waits, semaphores and barriers are
//! independent of slices. (The trip counts of loops depend on it; another rule covers that. Here loops have the trip
//! counts of the kept sizes.)
//!
//! With packets it does. Reading a packet waits for its write, so a slice that is empty orders nothing; what a reader
//! acquires depends on which writes it overlaps, and on whether it has read all that one wrote; and on which of the
//! ranges that a thread block accesses is longer, because threads of a block beyond the end of a range do nothing. So
//! an *order of packets* is a set of facts (`packets`):
//!
//! * of each write and each read of packets that overlap each other, directly or not: they overlap; the read covers the
//!   write; it begins with the write and ends no later;
//! * of each two writes: they do not overlap (of packets that are written twice, a reader cannot determine which it has
//!   read);
//! * of each write: all of it is read;
//! * of each two slices that one thread block accesses: the one is no longer than the other, and no shorter.
//!
//! **Theorem 3.** If all facts of u hold at v, the clocks of agents at v include at least as many operations of a
//! column that both sizes have as at u.
//!
//! *Proof.* A clock is a union of acquired clocks, and each fact adds to it: an agent that reads packets of a write
//! acquires its writer's clock; an agent that reads all, or as many elements as the writer's threads have, acquires
//! more; and none removes anything. ∎
//!
//! So with packets a signature counts as seen at size v if it was seen at a size with no facts that v lacks. Deadlocks
//! are the reverse: an agent that waits for less cannot deadlock where it did not when it waited for more; so some size
//! is kept at which agents wait for everything for which they wait at v. All facts compare boundaries, or lengths of
//! slices. Lengths differ from Lu / g by less than 1, so the order of two is final from n = 2 on in the sense of
//! theorem 2: all facts occur up to (3 + ⌊G / 4⌋) M units, with M and G of all cuts of the plan.
//!
//! What the threads of single elements acquire (`race/elements`) is used only between slices that are the same at every
//! size; chunks that such slices of one thread block have count as chunks between which data moves, so that signatures
//! show whose packets they are.
//!
//! # Ranges instead of chunks
//!
//! If each two ranges that a plan accesses are equal or have no chunk in common, no operation depends on where chunks
//! begin within a range. Then a range of L chunks counts as one chunk of Lu units: columns, signatures and components
//! are those of ranges. By the proof of theorem 1, a unit at v is accessed by the same operations as a unit of the same
//! range at u, maybe in another of its chunks, and holds the same units of other ranges, each at its own offset. Only
//! postconditions depend on chunks. So no postcondition may begin or end within a range: then a range must hold one
//! range of inputs, unit by unit, or a sum of such ranges. Plans that state expectations, and plans whose inputs have
//! other numbers at other ranks ([`Symmetry`]), are examined by chunks.
//!
//! # Conservative executions
//!
//! In a group of more members than its range has chunks, some members are empty at small sizes: with L chunks, those
//! from number L on at u = 1. With every further unit, further members have packets, which adds facts. Most of these
//! sizes are kept, though the rules mostly need none of these facts.
//!
//! A *conservative* execution ignores the packets of each member that is empty at some size: their readers acquire
//! nothing, nor does the member from what it reads. Such an execution depends on fewer facts:
//!
//! * that a read overlaps a write, covers it or begins with it: only if neither is by such a member;
//! * that two writes do not overlap: unless both are by such members;
//! * that all of a write is read: only if the write is by another member;
//! * that one slice is no shorter than another that the thread block accesses: only if the first is not of such a
//!   member, since only ranges of packets from which a clock is acquired are compared with other ranges.
//!
//! **Theorem 4.** Let every signature of v be one of u, and let those facts of u on which conservative executions
//! depend hold at v. If the rules accept a plan in a conservative execution at u, they accept it at v.
//!
//! *Proof.* Each fact that adds to a clock at u holds at v and adds to it there. So the clocks at v include at least as
//! much, and theorem 1 applies. ∎
//!
//! So sizes are selected once more with these facts only. If these are fewer, and representative ranks are checked,
//! conservative executions at these sizes and at the usual one are first. If they find nothing, the plan is correct. If
//! they find something, it may be due to packets that were ignored, and the sizes that were selected with all facts
//! decide. Agents wait in a conservative execution for all packets, so sizes are kept for deadlocks as above.
//!
//! # Empty chunks
//!
//! A message of 0 bytes, u = 0, moves nothing: there is no memory that two operations could access, and no agent waits
//! for packets that do not exist.
//!
//! # Limits
//!
//! Sizes are examined until 2^25 entries of signatures have been, and a plan is executed at all sizes together for 2^25
//! accesses to atoms. Beyond that it is rejected, with the cuts that take so long.

mod cut;
mod packets;
mod parts;
mod select;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::model::Size;
use super::place::each_of;
use super::symmetry::Symmetry;
use super::view::View;
use cut::{Component, Cut};
use mscclpp_plan::diag::{Code, Diagnostic, Site};
use mscclpp_plan::raw::{Op, PlanTree};
use parts::Parts;
use select::Selection;

/// Maximum number of accesses to atoms at all sizes that are kept.
const MAX_ACCESSES: u64 = 1 << 25;

/// The sizes in addition to the usual ones at which a plan must be executed; nearly all plans have none.
#[derive(Default)]
pub(super) struct Uneven {
    pub(super) sizes: Vec<Size>,
    /// Bytes of a unit.
    grain: u64,
    found: Option<(Parts, BTreeSet<Component>)>,
}

/// Finds the sizes in addition to the usual ones at which a plan must be executed.
///
/// # Errors
/// Fails if there are too many, or if the search takes too long.
pub(super) fn sizes(view: View, symmetry: Option<&Symmetry>) -> Result<Uneven, Box<Diagnostic>> {
    let own = symmetry.map_or(view.plan.ranks.len(), |symmetry| symmetry.representatives as usize);
    let mut uneven = false;
    each_of(view, 0..own, &mut |at| uneven |= at.op.slice.is_some() && uneven_cuts(at.op).any(|cut| cut.is_some()));
    if !uneven {
        return Ok(Uneven::default());
    }
    let parts = Parts::of(view, symmetry, own);
    let cuts: Vec<Cut> = parts.uneven().into_iter().collect();
    let components = parts.components().ok_or_else(|| too_many(view, &cuts, None))?;
    let units = Selection::of(&parts, &components, false).map_err(|cuts| too_many(view, &cuts, None))?;
    let grain = u64::from(view.plan.buffer_alignment.max(16));
    let bytes: Vec<u64> = units.iter().map(|units| units.saturating_mul(grain)).collect();
    let sizes = units.iter().map(|units| Size::uneven(view.plan, *units, grain)).collect::<Option<_>>();
    let sizes = sizes.filter(|_| parts.work(&bytes) <= MAX_ACCESSES);
    let sizes = sizes.ok_or_else(|| too_many(view, &cuts, Some(units.len())))?;
    Ok(Uneven { sizes, grain, found: Some((parts, components)) })
}

impl Uneven {
    /// Returns the sizes for conservative executions, the usual ones included. `None` if they are no fewer.
    pub(super) fn conservative(&self, plan: &PlanTree, usual: &[Size]) -> Option<Vec<Size>> {
        let (parts, components) =
            self.found.as_ref().filter(|(parts, _)| parts.has_packets && !self.sizes.is_empty())?;
        let fewer = Selection::of(parts, components, true).ok().filter(|units| units.len() < self.sizes.len())?;
        let (first, others) = usual.split_first()?;
        let uneven = fewer.into_iter().map(|units| Size::uneven(plan, units, self.grain).map(Size::conservative));
        let others = others.iter().copied().map(Some);
        std::iter::once(Some(first.conservative())).chain(others).chain(uneven).collect()
    }
}

/// Returns whether an operation is that of a member of a group that is empty at some sizes.
pub(super) fn may_be_empty(op: &Op) -> bool {
    uneven_cuts(op).flatten().any(|(cut, member)| cut.may_be_empty(member))
}

/// Returns the uneven slices among an operation's ranges, `None` for ranges and slices of whole chunks.
fn uneven_cuts(op: &Op) -> impl Iterator<Item = Option<(Cut, u32)>> {
    let ranges = op.srcs.iter().chain(&op.dsts);
    ranges.map(|range| {
        let (cut, member, _) = parts::cut(op.slice, range.size);
        cut.is_uneven().then_some((cut, member))
    })
}

/// Returns whether the ranges of two operations are cut at the same positions of chunks at every size.
pub(super) fn are_cut_alike(one: &Op, other: &Op) -> bool {
    let mut all = uneven_cuts(one).chain(uneven_cuts(other));
    let first = all.next();
    all.all(|cut| Some(cut) == first)
}

/// Returns the finding about cuts whose slices overlap in too many ways.
fn too_many(view: View, cuts: &[Cut], sizes: Option<usize>) -> Diagnostic {
    // Those of the largest groups take longest.
    let mut cuts = cuts.to_vec();
    cuts.sort_unstable_by_key(|cut| (std::cmp::Reverse(cut.of), cut.len));
    cuts.truncate(2);
    let name = |cut: &Cut| {
        let chunks = if cut.len == 1 { "chunk" } else { "chunks" };
        format!("{} members over {} {chunks}", cut.of, cut.len)
    };
    let mut places = vec![Site::None; cuts.len()];
    each_of(view, 0..view.plan.ranks.len(), &mut |at| {
        for (own, _) in uneven_cuts(at.op).flatten() {
            let place = cuts.iter().position(|cut| own == *cut).map(|number| &mut places[number]);
            if let Some(place) = place.filter(|place| **place == Site::None) {
                *place = at.site(view.plan);
            }
        }
    });
    let groups = match &cuts[..] {
        [one, other] => format!("groups of {} and of {}", name(one), name(other)),
        [one] => format!("a group of {}", name(one)),
        _ => "its groups".to_owned(),
    };
    let message = match sizes {
        Some(sizes) => format!(
            "the slices of {groups} overlap differently at {sizes} message sizes, which exceeds the limit of the \
             analysis for a plan of this length"
        ),
        None => format!("the slices of {groups} overlap in more ways than the analysis supports"),
    };
    let site = places.first().cloned().unwrap_or_default();
    let mut finding = Diagnostic::new(Code::AnalysisLimit, site, message).help(
        "split ranges whose number of chunks is a multiple of the group size, or use group sizes that divide \
            each other",
    );
    if let [_, other] = &cuts[..] {
        finding = finding.note(format!("a group of {}", name(other)), places[1].clone());
    }
    finding
}
