//! Plans that normalize rows ([`Collective::rows`](mscclpp_plan::collective::Collective::rows)).
//!
//! A row norm reads whole rows and writes rows of the same numbers. What it computes depends on operands that the caller
//! passes to the launch, which have a row for every row of the rank's output, in an all-gather of its own part: no other
//! operation accesses them, so only the row norms of the rank have to be kept apart.
//!
//! # What is proved, and where
//!
//! 1. *A row is not divided.* In a plan with rows, the unit of the layout is a multiple of a row, and chunks, slices and
//!    windows are whole units at every size. A row norm in another plan is M0233.
//! 2. *A row is complete before it is read.* Any thread reads any byte of the rows of its block, so the rule `race` takes the
//!    threads of a row norm for unknown ([`Grain::Row`](mscclpp_plan::raw::Grain::Row)): an access of the same block to the
//!    same bytes is ordered by a block sync only (M0210). What other blocks wrote is ordered as everywhere.
//! 3. *The value.* The source is the reduction of all ranks, each once; in an all-gather, whose rows are complete, the input
//!    of the rank. The result is moved only: rule `dataflow`, in which a normalized value is neither an input nor a sum (M0214,
//!    M0235). A custom collective states its sources with `expect`; without that, only that a normalized row is not
//!    computed with is proved, and a warning (M0226) says so.
//! 4. *Aliases.* A rank normalizes a row of its output at most once per launch, by one thread block (M0234). So the residual of a
//!    row may be replaced in place; and where the destination is also an input, other ranks have read it (M0210).
//! 5. *Every number of rows*, also none: rows are units, and no rule assumes a number of them. In a custom collective, whose
//!    chunks may have other numbers at the source than at the destination, a source is not the shorter one (M0227).

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
    let is_custom = matches!(kind, CollectiveKind::Custom { .. });
    if plan.collective.rows && !kind.is_reduction() && !is_custom && kind != CollectiveKind::AllGather {
        let message =
            format!("a plan with rows is of the collective {}, whose results are not normalized", kind.name());
        let finding = Diagnostic::new(Code::SplitRow, Site::None, message);
        let help = "use `AllReduce`, `ReduceScatter`, `Reduce`, `AllGather` or `Custom`, or remove `rows`";
        found.push(finding.help(help));
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
        let pairs = at.op.srcs.iter().zip(&at.op.dsts);
        for (src, dst) in pairs.filter(|_| is_custom) {
            let is_callers = src.local_buffer().is_some_and(|buffer| buffer != BufferKind::Scratch);
            let (from, to) = (at.range(src), at.range(dst));
            if is_callers && from.index > to.index && found.len() < MAX_FINDINGS {
                let message = format!(
                    "{} ({}) normalizes rows of chunk {} into chunk {}, which has more rows where chunks are short",
                    at.display_name(plan),
                    at.agent(),
                    from.index,
                    to.index
                );
                let finding = Diagnostic::new(Code::ShortChunk, at.operand_site(plan, src), message);
                found.push(finding.help("copy the chunk to scratch, and normalize that"));
            }
        }
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
            let buffer = match dst.local_buffer() {
                Some(buffer) if kind == CollectiveKind::AllGather => buffer,
                _ => BufferKind::Output,
            };
            let (_, start) = canonical_buffer(plan, rank, buffer, range.index);
            let slice = at.op.slice.map_or((1, 0), |slice| (slice.count, slice.index));
            let rows = Rows { start, end: start.saturating_add(range.size), slice };
            // The operands of an all-gather have the rows of the rank's own part.
            let part = plan.ranks[at.rank].output_chunks / (plan.ranks.len() as u32).max(1);
            let own = rank.saturating_mul(part)..rank.saturating_add(1).saturating_mul(part);
            if kind == CollectiveKind::AllGather && (rows.start < own.start || rows.end > own.end) {
                let message = format!(
                    "{} ({}) normalizes rows of output chunk {}, expected one of the rank's own part, {}..{}",
                    at.display_name(plan),
                    at.agent(),
                    if rows.start < own.start { rows.start } else { rows.start.max(own.end) },
                    own.start,
                    own.end
                );
                let finding = Diagnostic::new(Code::RepeatedNorm, at.operand_site(plan, dst), message);
                found.push(finding.help("normalize rows on the rank whose input has them, and gather the results"));
                continue;
            }
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
