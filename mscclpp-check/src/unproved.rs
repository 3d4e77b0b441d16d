//! Outputs for which a plan has no postcondition, so that the checks prove nothing about them.
//!
//! Only a custom collective can have such outputs: every other kind has its own postconditions, and a `test` fragment
//! is not meant to have any. These are warnings, since a program may leave an output unspecified on purpose.

use std::ops::Range;

use super::access::accesses;
use super::dataflow::redundant_transfer;
use super::place::{canonical_buffer, each};
use super::{Checks, Level};
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::BufferKind;

impl Checks {
    /// Returns warnings about a plan that passes the checks: what they do not prove, which is a custom collective without
    /// postconditions, and output chunks that its [`expectations`](PlanTree::expectations) omit; and a transfer of data
    /// that its destination holds already. Allowed findings are not returned; below [`Level::Full`] there are none.
    ///
    /// The plan has passed [`run`](Self::run); otherwise, operations that cannot be resolved are skipped.
    ///
    /// # Cost
    /// O(n log n) in operands and expectations, and for plans of few operations an abstract execution.
    #[doc(hidden)]
    pub fn warnings(&self, plan: &PlanTree) -> Diagnostics {
        let mut found = Diagnostics::default();
        if self.level == Level::Full && !self.allow.contains(&Code::NoPostcondition) {
            found.extend(Self::unproved(plan));
        }
        if self.level == Level::Full && !self.allow.contains(&Code::RedundantTransfer) {
            found.extend(redundant_transfer(plan));
        }
        found
    }

    fn unproved(plan: &PlanTree) -> Diagnostics {
        if !matches!(plan.collective.kind, CollectiveKind::Custom { .. }) {
            return Diagnostics::default();
        }
        if plan.expectations.is_empty() && plan.ranks.iter().any(|rank| rank.output_chunks > 0) {
            let what = match plan.collective.rows {
                true => "it is not proved which inputs the normalized rows have, and that every row is normalized",
                false => "no result is proved",
            };
            let message =
                format!("custom collective `{}` states no expectations about its outputs, so {what}", plan.name);
            return warning(message).into();
        }
        let expected = plan.expectations.iter().map(|one| (one.rank, one.chunk, one.len));
        let open = complement(plan, union(plan, expected));
        let mut written = Vec::new();
        each(plan.into(), &mut |at| {
            accesses(plan, &at, &mut |effect| {
                let output = canonical_buffer(plan, effect.owner, BufferKind::Output, 0);
                let (buffer, chunk) = canonical_buffer(plan, effect.owner, effect.buffer, effect.range.index);
                if effect.write && buffer == output.0 {
                    // In place, the output may be a part of the input that begins later.
                    let before = output.1.saturating_sub(chunk);
                    let len = effect.range.size.saturating_sub(before);
                    written.push((effect.owner, chunk.saturating_sub(output.1), len));
                }
            });
        });
        let written = union(plan, written.into_iter());
        let mut found = Diagnostics::default();
        let written_open = intersection(&open, &written);
        found.extend(without_postcondition(&written_open, "are written, but have no expectation"));
        // In place, an output that no operation writes keeps the caller's value.
        if !plan.collective.in_place {
            let unwritten = intersection(&open, &complement(plan, written));
            found.extend(without_postcondition(&unwritten, "are not written and have no expectation"));
        }
        found
    }
}

/// Per rank, ascending ranges of chunks of its output that are neither adjacent nor overlap.
type Chunks = Vec<Vec<Range<u64>>>;

/// Returns the chunks of ranges (rank, first chunk, number of chunks).
fn union(plan: &PlanTree, ranges: impl Iterator<Item = (u32, u32, u32)>) -> Chunks {
    let mut all: Chunks = vec![Vec::new(); plan.ranks.len()];
    for (rank, first, len) in ranges.filter(|(_, _, len)| *len > 0) {
        if let Some(own) = all.get_mut(rank as usize) {
            own.push(u64::from(first)..u64::from(first) + u64::from(len));
        }
    }
    for own in &mut all {
        own.sort_unstable_by_key(|range| range.start);
        own.dedup_by(|next, kept| {
            let joined = next.start <= kept.end;
            if joined {
                kept.end = kept.end.max(next.end);
            }
            joined
        });
    }
    all
}

/// Returns the output chunks that are not among these.
fn complement(plan: &PlanTree, chunks: Chunks) -> Chunks {
    let of_rank = |(own, chunks): (Vec<Range<u64>>, u32)| {
        let mut next = 0;
        let mut rest = Vec::new();
        for range in own {
            rest.push(next..range.start);
            next = range.end;
        }
        rest.push(next..chunks.into());
        rest.retain(|range| range.start < range.end);
        rest
    };
    chunks.into_iter().zip(plan.ranks.iter().map(|rank| rank.output_chunks)).map(of_rank).collect()
}

/// Returns the chunks that are in both.
fn intersection(one: &Chunks, other: &Chunks) -> Chunks {
    let of_rank = |(one, other): (&Vec<Range<u64>>, &Vec<Range<u64>>)| {
        let (mut both, mut rest) = (Vec::new(), other.iter().peekable());
        for range in one {
            while let Some(next) = rest.peek().filter(|next| next.start < range.end) {
                let common = range.start.max(next.start)..range.end.min(next.end);
                if common.start < common.end {
                    both.push(common);
                }
                if next.end > range.end {
                    break;
                }
                rest.next();
            }
        }
        both
    };
    one.iter().zip(other).map(of_rank).collect()
}

/// Returns the warning about the first of some chunks, with the number of ranks that have such chunks.
fn without_postcondition(open: &Chunks, what: &str) -> Option<Diagnostic> {
    let mut ranks = open.iter().enumerate().filter_map(|(rank, own)| Some((rank, own.first()?)));
    let (rank, Range { start, end }) = ranks.next()?;
    let more = match ranks.count() {
        0 => String::new(),
        1 => " (and of 1 more rank)".to_owned(),
        n => format!(" (and of {n} more ranks)"),
    };
    Some(warning(format!("output chunks {start}..{end} of rank {rank}{more} {what}")))
}

fn warning(message: String) -> Diagnostic {
    Diagnostic::new(Code::NoPostcondition, Site::None, message).help(
        "state the contents of every output chunk with `p.expect(output, inputs)` (in a plan file: `expectations`), \
         or allow `no_postcondition` if they are intentionally unspecified",
    )
}

#[cfg(test)]
mod tests {
    use crate::Checks;
    use crate::testing::plan;
    use mscclpp_plan::collective::CollectiveKind;
    use mscclpp_plan::diag::Code;
    use mscclpp_plan::origin::Origin;
    use mscclpp_plan::raw::{Expectation, PlanTree};

    /// Returns the warnings about a custom collective over 2 ranks whose program expects these chunks: rank, first,
    /// length.
    fn warnings(ops: &str, in_place: bool, expected: &[(u32, u32, u32)]) -> Vec<String> {
        let mut plan = plan(&[&[ops], &[""]]);
        let (input, output) = (plan.ranks[0].input_chunks, plan.ranks[0].output_chunks);
        assert_eq!((input, output), (8, 8));
        plan.collective.kind = CollectiveKind::Custom { input, output };
        plan.collective.in_place = in_place;
        let of = |&(rank, chunk, len)| Expectation { rank, chunk, len, inputs: vec![(0, 0)], origin: Origin::UNKNOWN };
        plan.expectations = expected.iter().map(of).collect();
        let found = Checks::default().warnings(&plan);
        let allowed = Checks { allow: vec![Code::NoPostcondition], ..Checks::default() };
        assert!(allowed.warnings(&plan).is_empty());
        let other = PlanTree {
            collective: mscclpp_plan::collective::Collective {
                kind: CollectiveKind::Test { input, output },
                ..plan.collective
            },
            ..plan
        };
        assert!(Checks::default().warnings(&other).is_empty());
        found.iter().map(|one| one.message.clone()).collect()
    }

    #[test]
    fn custom_collective_without_expectations_is_reported() {
        let found = warnings("copy i0 > o0", false, &[]);
        assert_eq!(
            found,
            ["custom collective `test` states no expectations about its outputs, so no result is proved"]
        );
    }

    #[test]
    fn outputs_that_are_not_expected_are_reported() {
        let all = [(0, 0, 8), (1, 0, 8)];
        assert_eq!(warnings("copy i0 > o0", false, &all), [""; 0]);
        let found = warnings("copy i0+2 > o2+2", false, &[(0, 0, 2), (0, 6, 2), (1, 0, 4), (1, 3, 5)]);
        assert_eq!(
            found,
            [
                "output chunks 2..4 of rank 0 are written, but have no expectation",
                "output chunks 4..6 of rank 0 are not written and have no expectation",
            ]
        );
        let found = warnings("copy i0+2 > o2+2", false, &[(0, 0, 8)]);
        assert_eq!(found, ["output chunks 0..8 of rank 1 are not written and have no expectation"]);
        let found = warnings("copy i0 > o0", false, &[(0, 1, 1)]);
        assert_eq!(
            found[1],
            "output chunks 2..8 of rank 0 (and of 1 more rank) are not written and have no expectation"
        );
    }

    #[test]
    fn outputs_that_are_kept_in_place_are_not_reported() {
        assert_eq!(warnings("copy i0 > o1", true, &[(0, 1, 1)]), [""; 0]);
        let found = warnings("copy i0 > o1", true, &[(0, 0, 1)]);
        assert_eq!(found, ["output chunks 1..2 of rank 0 are written, but have no expectation"]);
    }
}
