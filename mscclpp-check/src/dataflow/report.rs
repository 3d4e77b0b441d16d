//! Diagnostics about a plan that does not compute what it must.

use super::contributions::{Contributions, first_duplicate};
use super::history::{History, Logged};
use super::memory::ValueRange;
use super::outputs::{Found, OutputError};
use super::values::{How, Values};
use super::{Dataflow, UninitializedRead, recognize};
use crate::access::access_site;
use crate::counts::Counts;
use crate::place::LocatedOp;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::BufferKind;

/// Returns the finding about a plan whose data exceeds the limits of the analysis.
pub(super) fn analysis_limit() -> Diagnostic {
    Diagnostic::new(
        Code::AnalysisLimit,
        Site::None,
        "the plan splits its data into more ranges than the analysis supports",
    )
    .help("use larger chunks, or loop units that divide each other")
}

/// Returns the findings about a plan that was executed with a history.
pub(super) fn findings_of(watch: &Dataflow) -> Diagnostics {
    let mut found = Diagnostics::default();
    let log = History::default();
    let reporter = Reporter {
        plan: watch.plan,
        values: &watch.contents.values,
        chunk: watch.chunk,
        log: watch.log.as_ref().unwrap_or(&log),
        counts: watch.contents.short_chunks.counts(),
    };
    for misread in &watch.uninitialized_reads {
        let finding = reporter.misread(misread);
        if !found.iter().any(|known| known.site == finding.site) {
            found.push(finding);
        }
    }
    let (faults, count) = watch.output_checker().faults();
    let are_outputs = faults.iter().all(|fault| fault.buffer == BufferKind::Output);
    let other = if found.is_empty() && are_outputs { recognize::other_collective(watch) } else { None };
    if let (Some(other), Some(fault)) = (other, faults.first()) {
        // One finding: what is wrong with each output follows from it.
        let mut finding = reporter.fault(fault);
        let own = recognize::described(watch.plan.collective.kind);
        finding.message = format!("the plan computes {other}, expected {own}: {}", finding.message);
        return finding
            .help(format!("if {other} is meant, state it as the collective; otherwise compute {own}"))
            .into();
    }
    let mut reported: Vec<(Diagnostic, u64)> = Vec::new();
    for fault in &faults {
        let finding = reporter.fault(fault);
        match reported.iter_mut().find(|(known, _)| known.code == finding.code && known.site == finding.site) {
            Some((_, more)) => *more += 1,
            None => reported.push((finding, 0)),
        }
    }
    let unreported = count - faults.len() as u64;
    let last = reported.len().saturating_sub(1);
    for (i, (mut finding, more)) in reported.into_iter().enumerate() {
        let more = more + if i == last { unreported } else { 0 };
        if more > 0 {
            finding.message += &format!(" (and {more} similar)");
        }
        found.push(finding);
    }
    found
}

pub(super) struct Reporter<'a, 'p> {
    pub(super) plan: &'p PlanTree,
    pub(super) values: &'a Values,
    /// Addresses of a chunk.
    pub(super) chunk: u64,
    pub(super) log: &'a History<'p>,
    /// The counts at which chunks are short.
    pub(super) counts: Option<&'a Counts>,
}

impl<'p> Reporter<'_, 'p> {
    /// Returns a text such as `` `copy` (rank 0, thread block 1) ``.
    fn actor(&self, at: &LocatedOp) -> String {
        format!("{} ({})", at.display_name(self.plan), at.agent())
    }

    /// Returns the location of a step's access to a position of a rank's memory.
    fn site(&self, step: &LocatedOp, write: bool, memory: usize, position: u64) -> Site {
        let buffer = BufferKind::ALL.get(memory % 4).copied().unwrap_or(BufferKind::Scratch);
        access_site(self.plan, step, write, ((memory / 4) as u32, buffer, position / self.chunk))
    }

    /// Returns a text such as `scratch chunk 7 of rank 1`.
    pub(super) fn place(&self, memory: usize, position: u64) -> String {
        let (rank, space) = (memory / 4, memory % 4);
        let chunk = position / self.chunk;
        match BufferKind::ALL.get(space) {
            Some(buffer) => format!("{buffer} chunk {chunk} of rank {rank}"),
            None => format!("the packets of scratch chunk {chunk} of rank {rank}"),
        }
    }

    /// Returns a text such as `input chunk 3 of rank 0`.
    fn input(&self, (rank, at): (u32, u64)) -> String {
        format!("input chunk {} of rank {rank}", at / self.chunk)
    }

    fn misread(&self, misread: &UninitializedRead) -> Diagnostic {
        let UninitializedRead { at, memory, range } = misread;
        let place = self.place(*memory, range.start);
        let message = format!("{} reads {place}, which is uninitialized", self.actor(at));
        let writes = |step: &&Logged| {
            let mut writes = step.writes.iter();
            writes.any(|(other, _)| other.memory == *memory && other.range.contains(&range.start))
        };
        let finding = Diagnostic::new(Code::UninitializedRead, self.site(at, false, *memory, range.start), message);
        let later = self.log.steps.iter().find(writes);
        match later {
            Some(step) => finding
                .note(
                    format!("{} writes it later", self.actor(&step.at)),
                    self.site(&step.at, true, *memory, range.start),
                )
                .help("read it after that write, with a signal, barrier or block sync between them"),
            None => {
                let help = "write the chunk before it is read, or read another chunk";
                // A program that means one buffer, and allocates another one in each call.
                let is_in_scratch = |memory: usize| memory % 4 >= 2;
                let is_beside = |other: usize| is_in_scratch(other) && other / 4 == memory / 4;
                let mut written = self.log.steps.iter().flat_map(|step| &step.writes);
                finding.help(match is_in_scratch(*memory) && written.any(|(other, _)| is_beside(other.memory)) {
                    true => format!(
                        "{help}; every call of `rank.scratch(n)` allocates further chunks: keep what it returns"
                    ),
                    false => help.to_owned(),
                })
            }
        }
    }

    fn fault(&self, fault: &OutputError) -> Diagnostic {
        let finding = self.about_fault(fault);
        match fault.demanded.and_then(|origin| self.plan.origins.get(origin)) {
            Some(place) => finding.note("the expectation", Site::Source(place.clone())),
            None => finding,
        }
    }

    fn about_fault(&self, fault: &OutputError) -> Diagnostic {
        match &fault.found {
            Found::Nothing => self.missing(fault),
            Found::Inputs(piece, _) if fault.buffer == BufferKind::Input => self.clobbered(fault, piece),
            Found::Inputs(piece, leaves) => self.wrong(fault, piece, leaves),
            Found::Mixed(piece, how, usual) => {
                let message =
                    format!("{} is reduced with {}, and other outputs with {}", self.output(fault), how.op, usual.op);
                self.about(Code::WrongResult, piece, message).help("use the same reduction for all inputs and outputs")
            }
            Found::Divided(piece) => {
                let holds = fault.expected.first().map_or("an input".to_owned(), |input| self.input(*input));
                let message = format!(
                    "{} holds {holds}, which is divided by the number of ranks because the plan averages",
                    self.output(fault)
                );
                self.about(Code::MixedAverage, piece, message).help("use `sum` instead of `avg`")
            }
            Found::Lost(piece) => self.lost(fault, piece),
            Found::NotNormalized(piece, inputs) if inputs.normalized => {
                let message = format!(
                    "{} is computed from rows that were normalized before, expected rows that are normalized last",
                    self.output(fault)
                );
                let what = self.rows_to_normalize();
                self.about(Code::NotNormalized, piece, message)
                    .help(format!("normalize {what}, once, and only move the result"))
            }
            Found::NotNormalized(piece, inputs) => {
                let message =
                    format!("{} holds {}, whose rows are not normalized", self.output(fault), self.describe(inputs));
                let what = self.rows_to_normalize();
                self.about(Code::NotNormalized, piece, message)
                    .help(format!("call `row_norm` on {what}, or remove `rows` from the attribute"))
            }
        }
    }

    /// Returns the description of what a plan with rows normalizes.
    fn rows_to_normalize(&self) -> &'static str {
        match self.plan.collective.kind {
            CollectiveKind::AllGather => "the input of the rank that has the rows",
            CollectiveKind::Custom { .. } => "the rows that the program expects",
            _ => "the sum of all ranks",
        }
    }

    /// Returns a text such as `output chunk 5 of rank 3`.
    fn output(&self, fault: &OutputError) -> String {
        let part = if fault.len < self.chunk { "a part of " } else { "" };
        format!("{part}{} chunk {} of rank {}", fault.buffer, fault.chunk, fault.rank)
    }

    /// Returns a finding at the step that wrote a range.
    fn about(&self, code: Code, piece: &ValueRange, message: String) -> Diagnostic {
        let site = self.log.step(piece.by).map_or(Site::None, |step| step.at.site(self.plan));
        Diagnostic::new(code, site, message)
    }

    fn missing(&self, fault: &OutputError) -> Diagnostic {
        let expected = match fault.expected[..] {
            [input] => self.input(input),
            [_, ..] if fault.demanded.is_some() => self.combination(&fault.expected, None),
            [first, ..] => format!("the reduction of input chunk {} of all ranks", first.1 / self.chunk),
            [] => "an operation".to_owned(),
        };
        let message = format!("{} is never written, expected {expected}", self.output(fault));
        // Another location to which it was moved is where the author would look.
        let holders = fault.expected.last().map_or(Vec::new(), |input| self.trace(*input));
        let sibling = holders.iter().rev().find_map(|holder| self.log.step(holder.written));
        let site = sibling.map_or(Site::None, |step| step.at.site(self.plan));
        let mut finding = Diagnostic::new(Code::WrongResult, site, message);
        if let (Some(holder), [_]) = (holders.iter().rev().find(|holder| holder.written > 0), &fault.expected[..]) {
            let step = self.log.step(holder.written);
            let what = format!("it is written to {}", self.place(holder.memory, holder.position));
            finding = finding.note(what, step.map_or(Site::None, |step| step.at.site(self.plan)));
        }
        finding.help(format!("also write it to {}", self.output(fault)))
    }

    fn clobbered(&self, fault: &OutputError, piece: &ValueRange) -> Diagnostic {
        let by = self.log.step(piece.by).map_or("an operation".to_owned(), |step| self.actor(&step.at));
        let message = format!("{by} overwrites {}, but the plan is not in place", self.output(fault));
        let chunk = (fault.rank, fault.buffer, fault.chunk);
        let site = |step: &Logged| access_site(self.plan, &step.at, true, chunk);
        Diagnostic::new(Code::ClobberedInput, self.log.step(piece.by).map_or(Site::None, site), message).help(
            "write to the output or to scratch instead; or allow `clobbered_input` if callers do not need \
                their inputs after the launch",
        )
    }

    fn wrong(&self, fault: &OutputError, piece: &ValueRange, leaves: &Contributions) -> Diagnostic {
        let output = self.output(fault);
        let count = |input| leaves.count(input);
        let due = |input| fault.expected.iter().filter(|expected| **expected == input).count() as u64;
        let idempotent = leaves.is_idempotent();
        let too_few = |input| count(input) == 0 || count(input) < due(input) && !idempotent;
        let mut missing: Vec<_> = fault.expected.iter().filter(|input| too_few(**input)).collect();
        missing.dedup();
        let alien = leaves.counts.keys().find(|input| fault.expected.binary_search(input).is_err());
        let twice = fault.expected.iter().find(|input| count(**input) > due(**input) && !idempotent);
        if let [ref only] = fault.expected[..]
            && (count(*only) < 2 || idempotent)
        {
            let message = format!("{output} holds {}, expected {}", self.describe(leaves), self.input(*only));
            let mut finding = self.about(Code::WrongResult, piece, message);
            for (step, memory, position) in self.path(piece) {
                let what = format!("{} reads it from {}", self.actor(&step.at), self.place(memory, position));
                finding = finding.note(what, self.site(&step.at, false, memory, position));
            }
            return finding.help(match alien {
                Some(_) => "write the expected chunk there",
                None => "copy the chunk without reducing it",
            });
        }
        if let Some(&&input) = missing.last() {
            return self.lacks(fault, piece, input, missing.len() - 1, alien.copied());
        }
        match (alien, twice, leaves.mixed.zip(leaves.how)) {
            (Some(&input), ..) => {
                let message = format!("{output} also includes {}, which is not expected", self.input(input));
                self.about(Code::WrongResult, piece, message).help("remove that chunk from the reduction")
            }
            (None, Some(&input), _) => self.twice(fault, piece, input, count(input)),
            (None, None, Some((how, other))) => {
                let message = format!("{output} is reduced partly with {} and partly with {}", how.op, other.op);
                self.about(Code::WrongResult, piece, message).help("use the same reduction for all inputs and outputs")
            }
            (None, None, None) => {
                let message = format!(
                    "{output} holds {}, which has more contributions than the analysis can distinguish",
                    self.describe(leaves)
                );
                self.about(Code::WrongResult, piece, message)
            }
        }
    }

    /// Returns the description of a value.
    fn describe(&self, leaves: &Contributions) -> String {
        let inputs: Vec<_> = leaves.counts.keys().copied().collect();
        match (leaves.how, &inputs[..]) {
            (None, [input]) => self.input(*input),
            (how, _) => self.combination(&inputs, how),
        }
    }

    /// Returns a text such as `the sum of input chunk 0 of rank 0 and input chunk 0 of rank 1`.
    fn combination(&self, inputs: &[(u32, u64)], how: Option<How>) -> String {
        let name = how.map_or("reduction".to_owned(), |how| how.op.to_string());
        match inputs {
            [first, rest @ ..] if inputs.len() <= 4 => {
                let rest: String = rest.iter().map(|input| format!(" and {}", self.input(*input))).collect();
                format!("the {name} of {}{rest}", self.input(*first))
            }
            _ => format!("the {name} of {} input chunks", inputs.len()),
        }
    }

    /// Returns the finding about an output of which a contribution passes through a chunk that may be shorter than both
    /// the chunk from which and the one to which it is moved.
    fn lost(&self, fault: &OutputError, piece: &ValueRange) -> Diagnostic {
        let output = self.output(fault);
        let (Some(counts), Some(step)) = (self.counts, self.log.step(piece.lost_by)) else {
            return self.about(Code::ShortChunk, piece, format!("{output} is incomplete where chunks are short"));
        };
        // The contribution whose chunk is longest, of those that the step moved and the output contains.
        let leaves = Contributions::of(self.values, piece.node, piece.at);
        let number = |(_, at): (u32, u64)| counts.within_part(at / self.chunk);
        let offset = piece.at % self.chunk;
        let mut moved: Vec<((u32, u64), usize, u64)> = Vec::new();
        for (spot, pieces) in &step.writes {
            let mut position = spot.range.start;
            for part in pieces {
                let inputs = Contributions::of(self.values, part.node, part.at);
                let inside = (offset + self.chunk - part.at % self.chunk) % self.chunk;
                let inputs = inputs.counts.into_keys().map(|(rank, at)| (rank, at + inside));
                if part.lost_by == piece.lost_by {
                    let contained = inputs.filter(|input| leaves.count(*input) > 0);
                    moved.extend(contained.map(|input| (input, spot.memory, position)));
                }
                position += part.len;
            }
        }
        let Some((input, memory, position)) = moved.into_iter().min_by_key(|(input, ..)| number(*input)) else {
            return self.about(Code::ShortChunk, piece, format!("{output} is incomplete where chunks are short"));
        };
        let first = number(input).max(counts.within_part(fault.chunk)) + 1;
        let message = format!(
            "{} stores {}, which {output} requires, in {}, which is shorter at counts that do not divide evenly: at {}, \
             elements of it are lost",
            self.actor(&step.at),
            self.input(input),
            self.place(memory, position),
            counts.least_counts(first..=piece.reach),
        );
        let mut finding = Diagnostic::new(Code::ShortChunk, self.site(&step.at, true, memory, position), message);
        if let Some(last) = self.log.step(piece.by).filter(|last| last.number != step.number) {
            finding = finding.note(format!("{} writes {output}", self.actor(&last.at)), last.at.site(self.plan));
        }
        finding.help("store it in scratch, or add `dividing` if callers have counts that divide evenly only")
    }

    fn lacks(
        &self,
        fault: &OutputError,
        piece: &ValueRange,
        input: (u32, u64),
        more: usize,
        alien: Option<(u32, u64)>,
    ) -> Diagnostic {
        let mut message = format!("{} lacks {}", self.output(fault), self.input(input));
        if more > 0 {
            let plural = if more == 1 { "" } else { "s" };
            message += &match fault.demanded {
                Some(_) => format!(" and {more} more input chunk{plural}"),
                None => format!(" and of {more} more rank{plural}"),
            };
        }
        if let Some(alien) = alien {
            message += &format!(", and holds {} instead", self.input(alien));
        }
        let holders = self.trace(input);
        // A location from which it was not moved: preferably on the rank itself, and preferably one that was
        // overwritten.
        let lost = holders.iter().filter(|holder| !holder.read).max_by_key(|holder| {
            let here = holder.memory / 4 == fault.rank as usize && (holder.memory, holder.position) != fault.place;
            let scratch = holder.memory % 4 >= 2;
            (here, holder.gone.is_some() || scratch, holder.written)
        });
        let Some(holder) = lost else { return self.about(Code::WrongResult, piece, message) };
        let place = self.place(holder.memory, holder.position);
        let site = |number: u32| self.log.step(number).map_or(Site::None, |step| step.at.site(self.plan));
        let actor =
            |number: u32| self.log.step(number).map_or_else(|| "an operation".to_owned(), |step| self.actor(&step.at));
        message += &match (holder.written, holder.gone) {
            (0, Some(_)) => format!("; {} is overwritten before it is read", self.input(input)),
            (0, None) => format!("; {} is never read", self.input(input)),
            (_, Some(_)) => format!("; its last copy is in {place}, which is overwritten before it is read"),
            (_, None) if holder.memory % 4 < 2 && holder.memory / 4 != fault.rank as usize => {
                format!("; it is copied no further than {place}")
            }
            (_, None) => format!("; its last copy is in {place}, which is never read"),
        };
        let mut finding = self.about(Code::WrongResult, piece, message);
        if finding.site == Site::None {
            finding.site = site(holder.written);
        }
        if holder.written > 0 {
            finding = finding.note(format!("{} writes {place}", actor(holder.written)), site(holder.written));
        }
        if let Some(gone) = holder.gone {
            finding = finding.note(format!("{} overwrites it", actor(gone)), site(gone));
        }
        finding.help(match holder.gone {
            Some(_) => "reduce it before it is overwritten",
            None => "include it in the reduction",
        })
    }

    fn twice(&self, fault: &OutputError, piece: &ValueRange, input: (u32, u64), count: u64) -> Diagnostic {
        let times = if count == 2 { "twice".to_owned() } else { format!("{count} times") };
        let mut message = format!("{} includes {} {times}", self.output(fault), self.input(input));
        let meeting = first_duplicate(self.values, piece.node, piece.at, input);
        let made = meeting.and_then(|(node, at)| self.maker(node, at));
        let Some((step, offset)) = made else { return self.about(Code::DoubleCounted, piece, message) };
        // The operands that contain it.
        let mut operands = Vec::new();
        for (spot, pieces) in &step.reads {
            let mut start = 0;
            for piece in pieces {
                if (start..start + piece.len).contains(&offset) {
                    let leaves = Contributions::of(self.values, piece.node, piece.at.wrapping_add(offset - start));
                    if leaves.counts.contains_key(&input) {
                        operands.push((self.place(spot.memory, spot.range.start + offset), piece.by));
                    }
                }
                start += piece.len;
            }
        }
        if let [(first, _), .., (last, _)] = &operands[..] {
            message += &format!("; {} reduces {first} and {last}, which both include it", self.actor(&step.at));
        }
        let mut finding = Diagnostic::new(Code::DoubleCounted, step.at.site(self.plan), message);
        for (place, by) in &operands {
            if let Some(writer) = self.log.step(*by) {
                finding = finding.note(format!("{} writes {place}", self.actor(&writer.at)), writer.at.site(self.plan));
            }
        }
        finding.help("include it in only one operand of the reduction")
    }
}
