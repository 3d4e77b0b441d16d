//! Plans that normalize rows ([`Collective::rows`](mscclpp_plan::collective::Collective::rows)).
//!
//! A row norm reads whole rows and writes rows of the same numbers. What it computes depends on operands that the caller
//! passes to the launch, which have a row for every row of the rank's output: no other operation accesses them, so only
//! the row norms of the rank have to be kept apart.
//!
//! # What is proved, and where
//!
//! 1. *A row is not divided.* In a plan with rows, the unit of the layout is a multiple of a row, and chunks, slices and
//!    windows are whole units at every size. A row norm in another plan is M0233.
//! 2. *A row is complete before it is read.* Any thread reads any byte of the rows of its block, so the rule `race` takes the
//!    threads of a row norm for unknown ([`Grain::Row`](mscclpp_plan::raw::Grain::Row)): an access of the same block to the
//!    same bytes is ordered by a block sync only (M0210). What other blocks wrote is ordered as everywhere.
//! 3. *The value.* The source is the reduction of all ranks, each once, and the result is moved only: rule `dataflow`, in
//!    which a normalized value is neither an input nor a sum (M0214, M0235).
//! 4. *Aliases.* A rank normalizes a row of its output at most once per launch, by one thread block (M0234). So the residual of a
//!    row may be replaced in place; and where the destination is also an input, other ranks have read it (M0210).
//! 5. *Every number of rows*, also none: rows are units, and no rule assumes a number of them.

use std::collections::BTreeMap;

use super::MAX_FINDINGS;
use super::place::{LocatedOp, canonical_buffer, each};
use super::view::View;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_plan::raw::Function;
use mscclpp_plan::types::{BufferKind, ReduceOp};

/// A range of chunks of a rank's output, and the slice of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rows {
    start: u32,
    end: u32,
    /// Number of slices, and index.
    slice: (u32, u32),
}

pub(super) fn check(view: View) -> Diagnostics {
    let plan = view.plan;
    let mut found = Diagnostics::default();
    let mut norms: Vec<LocatedOp> = Vec::new();
    each(view, &mut |at| {
        if at.op.kind.function() == Some(Function::RowNorm) {
            norms.push(at);
        }
    });
    let kind = plan.collective.kind;
    if plan.collective.rows && !kind.is_reduction() {
        let message = format!("a plan with rows is of the collective {}, whose outputs are no reductions", kind.name());
        let finding = Diagnostic::new(Code::SplitRow, Site::None, message);
        found.push(finding.help("use `AllReduce`, `ReduceScatter` or `Reduce`, or remove `rows`"));
    }
    if let (true, Some(at)) = (plan.reductions().contains(&ReduceOp::Avg), norms.first()) {
        let message = format!("{} normalizes a sum that is divided when the launch ends", at.display_name(plan));
        let finding = Diagnostic::new(Code::SplitRow, at.site(plan), message);
        found.push(finding.help("use `sum` instead of `avg`"));
    }
    if let (false, Some(at)) = (plan.collective.rows, norms.first()) {
        let message = format!(
            "{} ({}) normalizes rows, and a chunk of the plan may end within a row",
            at.display_name(plan),
            at.agent()
        );
        found.push(Diagnostic::new(Code::SplitRow, at.site(plan), message).help("write `rows` in the attribute"));
    }
    if !found.is_empty() {
        return found;
    }
    // By rank, the rows that a norm writes.
    let mut written: BTreeMap<u32, Vec<(Rows, LocatedOp)>> = BTreeMap::new();
    for at in norms {
        for dst in &at.op.dsts {
            let is_whole = plan.collective.in_place && kind != CollectiveKind::ReduceScatter;
            let is_output = match dst.local_buffer() {
                Some(BufferKind::Output) => true,
                Some(BufferKind::Input) => is_whole,
                _ => false,
            };
            if !is_output {
                let message = format!("{} ({}) does not write to the output", at.display_name(plan), at.agent());
                let finding = Diagnostic::new(Code::RepeatedNorm, at.operand_site(plan, dst), message);
                found.push(finding.help("normalize into a chunk of the rank's output"));
                continue;
            }
            let (range, rank) = (at.range(dst), at.rank as u32);
            let (_, start) = canonical_buffer(plan, rank, BufferKind::Output, range.index);
            let slice = at.op.slice.map_or((1, 0), |slice| (slice.count, slice.index));
            let rows = Rows { start, end: start.saturating_add(range.size), slice };
            written.entry(rank).or_default().push((rows, at));
        }
    }
    for list in written.values_mut() {
        list.sort_by_key(|(rows, _)| *rows);
        for pair in list.windows(2) {
            let [(one, first), (other, second)] = pair else { continue };
            let is_other_slice = (one.start, one.end, one.slice.0) == (other.start, other.end, other.slice.0)
                && one.slice.1 != other.slice.1;
            if other.start < one.end && !is_other_slice && found.len() < MAX_FINDINGS {
                let message = format!(
                    "{} ({}) normalizes rows of output chunk {}, which {} ({}) also normalizes",
                    second.display_name(plan),
                    second.agent(),
                    other.start,
                    first.display_name(plan),
                    first.agent()
                );
                let finding = Diagnostic::new(Code::RepeatedNorm, second.site(plan), message);
                found.push(finding.note("the other row norm", first.site(plan)).help("normalize every row once"));
            }
        }
    }
    found
}
