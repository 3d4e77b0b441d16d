//! The untyped recorder below the handles: all logic and all checks of the authoring API.

mod expect;
mod moves;
mod reduce;
mod spec;
mod switch;
mod sync;
mod tables;

pub(super) use moves::{End, Transfer};
pub(super) use spec::MAX_RANKS;

use std::collections::BTreeMap;
use std::panic::Location;

use super::args::At;
use super::value::{ChunkValue, OpsValue, POISON, RangeValue};
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::origin::{ArgumentOrigin, Origin, SourceLocation};
use crate::plan::{BufferRef, Op, Operand, Slice};
use crate::spec::AlgoSpec;
use crate::trace::{LoopHeader, RankTables, Trace, TracedOp};
use crate::types::{BufferKind, ChannelKind};

/// End of the numbers of thread blocks. Using block k creates all blocks below it, so the number is limited.
const MAX_BLOCKS: i128 = 1 << 16;

/// Minimum alignment of a loop's unit in bytes, so that its windows hold whole vectors, packets and elements of every
/// type.
const MIN_LOOP_ALIGNMENT: u32 = 16;

/// Initial capacity for operations, per rank and in all.
const MIN_CAPACITIES: (usize, usize) = (1 << 6, 1 << 12);

/// Maximum number of diagnostics that are kept.
const MAX_DIAGNOSTICS: usize = 200;

/// A program while it is recorded.
pub(super) struct Recorder {
    trace: Trace,
    diagnostics: Diagnostics,
    here: CallSite,
    /// Origins of native callers by the address of their location: a program has few locations and many operations.
    callers: BTreeMap<usize, Origin>,
    /// The result of the last lookup in `callers`.
    last_caller: (usize, Origin),
    /// The open loop, and the location where it began.
    open_loop: Option<(u32, Site)>,
    switches: Vec<tables::Switch>,
    /// Per rank: number of the remote buffer of (owner, kind), `POISON` where there is none yet. Empty until used.
    remote_numbers: Vec<Vec<u32>>,
}

/// The source location of the current call.
#[derive(Clone)]
pub(super) enum CallSite {
    Unknown,
    /// A native caller.
    Caller(&'static Location<'static>),
    /// The evaluator's location, with its origin once an operation needed it. Takes precedence over the caller.
    Evaluated(SourceLocation, Option<Origin>),
}

impl Recorder {
    pub(super) fn new(spec: AlgoSpec) -> Self {
        let mut recorder = Self {
            trace: Trace {
                spec,
                ranks: Vec::new(),
                ops: Vec::new(),
                loops: Vec::new(),
                expectations: Vec::new(),
                origins: Default::default(),
            },
            diagnostics: Diagnostics::default(),
            here: CallSite::Unknown,
            callers: BTreeMap::new(),
            last_caller: (0, Origin::UNKNOWN),
            open_loop: None,
            switches: Vec::new(),
            remote_numbers: Vec::new(),
        };
        if let Some((input, output)) = recorder.check_spec() {
            let table = RankTables { input_chunks: input, output_chunks: output, ..RankTables::default() };
            let ranks = recorder.trace.spec.num_ranks as usize;
            recorder.trace.ranks = vec![table; ranks];
            let (of_a_rank, most) = MIN_CAPACITIES;
            recorder.trace.ops.reserve(most.min(of_a_rank * ranks));
            recorder.remote_numbers = vec![Vec::new(); ranks];
        }
        recorder
    }

    pub(super) fn finish(mut self) -> Result<Trace, Diagnostics> {
        if self.open_loop.is_some() {
            self.end_pipeline();
        }
        self.diagnostics.into_result(self.trace)
    }

    pub(super) fn spec(&self) -> &AlgoSpec {
        &self.trace.spec
    }

    pub(super) fn num_operations(&self) -> usize {
        self.trace.ops.len()
    }

    pub(super) fn set_location(&mut self, place: Option<SourceLocation>) {
        self.here = place.map_or(CallSite::Unknown, |place| CallSite::Evaluated(place, None));
    }

    pub(super) fn set_caller_location(&mut self, caller: &'static Location<'static>) {
        if !matches!(self.here, CallSite::Evaluated(..)) {
            self.here = CallSite::Caller(caller);
        }
    }

    /// Returns the current call, for [`resume_call`](Self::resume_call).
    pub(super) fn current_call(&self) -> CallSite {
        self.here.clone()
    }

    /// Makes an earlier call the current one again.
    pub(super) fn resume_call(&mut self, call: CallSite) {
        self.here = call;
    }

    /// Returns the location of the current call, for a diagnostic.
    pub(super) fn site(&self) -> Site {
        match &self.here {
            CallSite::Unknown => Site::None,
            CallSite::Caller(caller) => Site::Source(SourceLocation::from(*caller)),
            CallSite::Evaluated(place, _) => Site::Source(place.clone()),
        }
    }

    /// Returns the origin of the current call, for an operation.
    pub(in crate::dsl) fn origin(&mut self) -> Origin {
        let origins = &mut self.trace.origins;
        match &mut self.here {
            CallSite::Unknown => Origin::UNKNOWN,
            CallSite::Caller(caller) => {
                let caller: &'static Location<'static> = caller;
                let address = std::ptr::from_ref(caller).addr();
                if self.last_caller.0 != address {
                    let origin =
                        *self.callers.entry(address).or_insert_with(|| origins.add(SourceLocation::from(caller)));
                    self.last_caller = (address, origin);
                }
                self.last_caller.1
            }
            CallSite::Evaluated(place, origin) => *origin.get_or_insert_with(|| origins.add(place.clone())),
        }
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
    }

    pub(super) fn take_findings(&mut self) -> Diagnostics {
        std::mem::take(&mut self.diagnostics)
    }

    /// Reports a finding at the location of the current call.
    fn report_error(&mut self, code: Code, message: impl Into<String>, help: impl Into<String>) {
        self.file_at(self.site(), code, message, help);
    }

    /// Reports an error about one argument of the current call.
    fn report_argument(&mut self, position: usize, code: Code, message: impl Into<String>, help: impl Into<String>) {
        let site = match self.site() {
            Site::Source(call) => Site::Source(call.argument(position)),
            site => site,
        };
        self.file_at(site, code, message, help);
    }

    fn file_at(&mut self, site: Site, code: Code, message: impl Into<String>, help: impl Into<String>) {
        self.report(Diagnostic::new(code, site, message).help(help));
    }

    pub(super) fn begin_pipeline(&mut self, unit: u64, num_chunks: usize) {
        if let Some((outer, begun)) = &self.open_loop {
            let outer = self.trace.loops.get(*outer as usize).map_or(0, |header| header.unit);
            let message = format!("a pipeline of {unit} bytes starts inside another pipeline, of {outer} bytes");
            let diagnostic = Diagnostic::new(Code::NestedPipeline, self.site(), message)
                .note("the outer pipeline starts", begun.clone())
                .help("end the outer `pipeline` first, or record both bodies in one loop");
            self.report(diagnostic);
            return;
        }
        let alignment = u64::from(self.spec().buffer_alignment.max(MIN_LOOP_ALIGNMENT));
        let span = u32::try_from(num_chunks).unwrap_or(0);
        if unit == 0 || !unit.is_multiple_of(alignment) {
            self.report_argument(
                0,
                Code::BadPipeline,
                format!("expected a unit that is a positive multiple of {alignment} bytes, found {unit} bytes"),
                format!("write `{}`", unit.div_ceil(alignment).max(1).saturating_mul(alignment)),
            );
        }
        if span == 0 {
            self.report_argument(
                1,
                Code::BadPipeline,
                format!("expected a loop over at least 1 chunk, found {num_chunks}"),
                "pass the number of chunks that each operation in the loop covers",
            );
        }
        self.open_loop = Some((self.trace.loops.len() as u32, self.site()));
        self.trace.loops.push(LoopHeader { unit: unit.max(1), num_chunks: span.max(1) });
    }

    pub(super) fn end_pipeline(&mut self) {
        self.open_loop = None;
    }

    /// Changes the operations that a call recorded.
    pub(super) fn edit(&mut self, ops: OpsValue, change: impl Fn(&mut Op)) {
        let first = ops.first as usize;
        let range = first..first.saturating_add(ops.count as usize);
        for recorded in self.trace.ops.get_mut(range).unwrap_or_default() {
            change(&mut recorded.op);
        }
    }

    /// Records an operation on one thread block.
    #[inline(always)]
    fn record_on_block(&mut self, rank: u32, block: i128, op: Op) -> OpsValue {
        let first = self.trace.ops.len() as u32;
        match self.block(block) {
            Some(block) => self.push(rank, block, op),
            None => OpsValue { first, count: 0 },
        }
    }

    /// Records an operation once on a block, or once on every member of a group with its slice.
    #[inline(always)]
    pub(in crate::dsl) fn record(&mut self, rank: u32, at: &At, op: Op) -> OpsValue {
        match at {
            At::Block(block) => self.record_on_block(rank, *block, op),
            At::Group(group) => {
                let first = self.trace.ops.len() as u32;
                let of = group.len() as u32;
                for (index, &block) in (0..).zip(group.iter()) {
                    let slice = Some(Slice { index, count: of });
                    self.push(rank, block, Op { slice, ..op.clone() });
                }
                OpsValue { first, count: self.trace.ops.len() as u32 - first }
            }
        }
    }

    /// Records an operation, unless it is invalid in its loop.
    #[inline(always)]
    fn push(&mut self, rank: u32, block: u32, op: Op) -> OpsValue {
        let first = self.trace.ops.len();
        let nothing = OpsValue { first: first as u32, count: 0 };
        let Some(table) = self.trace.ranks.get_mut(rank as usize) else {
            return nothing;
        };
        table.num_blocks = table.num_blocks.max(block + 1);
        let in_loop = self.open_loop.as_ref().map(|(number, _)| *number);
        if in_loop.is_some_and(|number| !self.spans(number, &op)) {
            return nothing;
        }
        if first >= u32::MAX as usize - 1 {
            self.report_error(
                Code::TooLarge,
                "the program records more than 2^32 operations",
                "record fewer operations",
            );
            return nothing;
        }
        self.trace.ops.push(TracedOp { rank, block, in_loop, op });
        OpsValue { count: 1, ..nothing }
    }

    /// Returns whether an operation is as long as its loop; reports it otherwise.
    fn spans(&mut self, number: u32, op: &Op) -> bool {
        let Some(span) = self.trace.loops.get(number as usize).map(|header| header.num_chunks) else {
            return true;
        };
        let mut sizes = op.srcs.iter().chain(&op.dsts).map(|range| range.size);
        let Some(size) = sizes.find(|&size| size != span) else {
            return true;
        };
        self.report_error(
            Code::BadPipeline,
            format!("expected {} over {}, the span of its loop, found {size}", op.kind.functions(), chunks(span)),
            format!("set the span of the loop to {}, or use an operation over {}", chunks(size), chunks(span)),
        );
        false
    }

    /// Returns a thread-block number, if it is valid.
    fn block(&mut self, block: i128) -> Option<u32> {
        if (0..MAX_BLOCKS).contains(&block) {
            return u32::try_from(block).ok();
        }
        // Thread blocks are the last argument of every call.
        let last = match &self.here {
            CallSite::Evaluated(call, _) => call.arguments.len().wrapping_sub(1),
            CallSite::Caller(_) | CallSite::Unknown => 0,
        };
        self.report_argument(
            last,
            Code::ThreadBlockOutOfRange,
            format!("expected a thread block in 0..{MAX_BLOCKS}, found {block}"),
            "number thread blocks from 0",
        );
        None
    }

    /// Returns whether a chunk, the argument at a position, is one of `rank`'s; reports it otherwise. For poison it
    /// returns false without a report.
    pub(in crate::dsl) fn chunk_of(
        &mut self,
        call: &str,
        (position, role): (usize, &str),
        chunk: ChunkValue,
        rank: u32,
    ) -> bool {
        if chunk.is_poison() || rank == POISON {
            return false;
        }
        if chunk.rank != rank {
            self.report_argument(
                position,
                Code::WrongRank,
                format!(
                    "`{call}` expects {role} on rank {rank}, found {} chunk {} of rank {}",
                    chunk.buffer, chunk.index, chunk.rank
                ),
                format!("use a chunk of rank {rank}, or a channel to rank {}", chunk.rank),
            );
            return false;
        }
        true
    }

    /// Returns whether two chunks are equally long; reports it otherwise.
    fn same_size(&mut self, call: &str, a: ChunkValue, b: ChunkValue) -> bool {
        if a.size == b.size {
            return true;
        }
        let (a, b) = (describe(a), describe(b));
        self.report_error(
            Code::SizeMismatch,
            format!("`{call}` expects chunks of equal size, found {a} and {b}"),
            "use equal numbers of chunks",
        );
        false
    }

    /// Returns an operand of the current call, which is its argument at a position.
    fn operand(&mut self, position: u8, buffer: BufferRef, index: u32, size: u32) -> Operand {
        Operand { origin: ArgumentOrigin { call: self.origin(), position }, ..Operand::new(buffer, index, size) }
    }

    /// Returns an operand for a chunk of the executing rank, the argument at a position.
    pub(in crate::dsl) fn local(&mut self, position: u8, chunk: ChunkValue) -> Operand {
        self.operand(position, BufferRef::Local(chunk.buffer), chunk.index, chunk.size)
    }

    /// Returns an operand for a chunk of another rank, the argument at a position, and registers the buffer at first use.
    fn remote(&mut self, position: u8, rank: u32, chunk: ChunkValue, kind: ChannelKind) -> Operand {
        let number = self.remote_buffer(rank, chunk.rank, chunk.buffer, kind);
        self.operand(position, BufferRef::Remote(number), chunk.index, chunk.size)
    }

    /// Resolves a range of a buffer to numbers, or reports why it is invalid. `what` names the buffer, only if the
    /// range is invalid; `more` describes how to make the buffer longer.
    fn range(&mut self, what: impl FnOnce() -> String, len: u32, range: RangeValue, more: &str) -> Option<(u32, u32)> {
        let start = range.start.unwrap_or(0);
        let end = range.end.unwrap_or(i128::from(len));
        if 0 <= start && start < end && end <= i128::from(len) {
            return Some((start as u32, (end - start) as u32));
        }
        let what = what();
        if start > end {
            self.report_error(
                Code::ReversedSlice,
                format!("expected a range that does not end before it starts, found {start}..{end} of {what}"),
                format!("write `{end}..{start}`"),
            );
        } else if start < 0 || end > i128::from(len) {
            let found = match end - start {
                1 => format!("chunk {start} is"),
                _ => format!("chunks {start}..{end} are"),
            };
            self.report_error(
                Code::ChunkOutOfRange,
                format!("{found} outside {what}, which has {}", chunks(len)),
                match len {
                    0 => "this buffer has no chunks; use another one".to_owned(),
                    1 => format!("use chunk 0, or {more}"),
                    _ => format!("use chunks in 0..{len}, or {more}"),
                },
            );
        } else {
            self.report_error(
                Code::EmptyChunk,
                format!("the range {start}..{end} of {what} is empty"),
                "remove the operation, or select at least one chunk",
            );
        }
        None
    }
}

/// Returns a text such as `input chunks 0..2 of rank 1`.
fn describe(chunk: ChunkValue) -> String {
    let ChunkValue { rank, buffer, index, size } = chunk;
    match size {
        1 => format!("{buffer} chunk {index} of rank {rank}"),
        _ => format!("{buffer} chunks {index}..{} of rank {rank}", index.saturating_add(size)),
    }
}

/// Returns a text such as `1 chunk` or `2 chunks`.
fn chunks(count: u32) -> String {
    format!("{count} chunk{}", if count == 1 { "" } else { "s" })
}

/// Returns a text such as `the input of rank 1`.
fn describe_buffer(buffer: BufferKind, rank: u32) -> String {
    format!("the {buffer} of rank {rank}")
}
