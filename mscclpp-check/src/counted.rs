//! Plans whose sizes are counts that are known at run time: each rank passes a row of counts, `counts` exchanges the rows, and
//! the counted operations process as many elements of a chunk as an entry of that table says. The rule proves that what
//! the other rules find out about the plan *at full counts* holds for every table whose entries are at most the
//! maximum C of the launch, and for every sequence of launches with tables of their own.
//!
//! At full counts, a counted operation processes its whole chunk, and `counts` is a relaxed signal to every rank and a
//! relaxed wait for every rank, followed by a block sync ([`at_full_counts`]): over ports for ranks of other nodes.
//!
//! # What the rule checks
//!
//! 1. Every rank executes `counts` once, outside of pipelines, and every counted operation comes after it: in its thread
//!    block, or in one that has passed a barrier with that thread block since (M0230).
//! 2. Every chunk of every buffer that a counted operation accesses has one count, and no other operation accesses it. In an
//!    all-to-all-v, chunk r of rank s's input and chunk s of rank r's output have the count of s and r (M0231).
//! 3. The plan is for messages of all sizes from 0 on, out of place, with an alignment of 1; a custom collective takes dividing
//!    counts only. Counted operations are outside of pipelines and have operands of one chunk, and those on scratch
//!    are not divided among thread blocks. An all-to-all-v has a chunk for each rank (M0232).
//!
//! # Why this is sound
//!
//! Let S be a table with entries from 0 to C, and let the plan be accepted at full counts, at every size.
//!
//! *Every launch ends.* No synchronization depends on S: the number and order of signals, waits and barriers are those at
//! full counts, so M0201 to M0208 hold. `counts` waits for what every rank has given before it waits for anything
//! in `counts`, which is the order of the signals and waits that represent it. By 1, S is known where it is used.
//!
//! *Memory.* Call the chunks with count e the *class* of e. By 2, a counted operation accesses chunks of its own class only, and no
//! other operation accesses them. A chunk of class e begins either at the same place as at full counts, in a slot of C
//! elements; or, in the input or output of an all-to-all-v, where the counts of the chunks before it end. In
//! both cases its elements 0 to S(e) - 1 are different bytes than the elements of any other chunk: slots have room for C
//! elements, and of two packed chunks one ends at or before the beginning of the other, as sums of numbers that
//! are not negative. So accesses of different classes never conflict, and the accesses to class e are those of the plan for a message
//! in which every chunk has S(e) elements: an operation processes elements 0 to S(e) - 1 of its chunk, and of a
//! group the slices into which it divides S(e) elements. By 3, that message is in the plan's range, its chunks are not
//! padded, and its slices are cut at the same elements. The order of operations does not depend on S. So a race
//! at S is a race of that message, at the same two operations, and there is none (M0210 to M0213). With an alignment of 1 no
//! rule assumes that the threads of a block access one element in one thread.
//!
//! *Contents.* What a counted operation writes to element k of a chunk of class e is what it reads from element k of a chunk
//! of class e, and k < S(e). So the contents of the elements of a class are those of the plan for the same message: an
//! output chunk that must hold an input chunk holds its S(e) elements, each copied, none uninitialized (M0214 to M0217).
//! Elements from S(e) on are neither read nor written.
//!
//! *Ports.* A put through a port processes the elements that its thread block has computed from the table when it queues the put, and
//! every element after that, as the put at full counts does. So it is one more operation of its class. Where it is sent to another node,
//! the sender names the bytes of the destination: it has the table, the receiver may not have it yet.
//!
//! *Launches.* Nothing above uses the table of an earlier launch, and conflicts between two launches are conflicts within
//! a chunk of full length, or of the packed bytes of a buffer of the caller, which all other ranks have left when
//! its rank ends the launch (M0212, M0213 at full counts: every access to a caller's buffer is within a chunk of it).
//! A scratch chunk is at the same place for all tables, and by 3 every operation on it processes elements from 0 on, so an
//! access of one launch to S(e) elements and one of the next to S'(e) elements conflict only where both at full counts do. The
//! rows of two successive launches are in different memory; a rank gives the row of the launch after the next one when
//! all have begun the next, and so have ended this one. A rank ends a launch after it has received all rows that ranks of other nodes
//! send to it, so a row never arrives in memory of a later launch.
//!
//! *Bounds.* Executors compare the table with C and its sums with the lengths of buffers before the first counted
//! operation, on every rank with the same result, and use a table of zeros where it exceeds them: also a table with entries from 0
//! to C, so nothing else needs a proof.
//!
//! The converse does not hold: a plan that uses a chunk for several counts in turn is rejected even where that is right.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::MAX_FINDINGS;
use super::access::accesses;
use super::place::{LocatedOp, each};
use super::view::View;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_plan::origin::SourceLocation;
use mscclpp_plan::raw::{BlockTable, ChannelTable, Count, Op, OpKind, PlanTree, RankPlan};
use mscclpp_plan::types::{BufferKind, ChannelKind};

/// A chunk: rank, buffer, number.
type ChunkId = (u32, BufferKind, u32);

/// Returns the findings of the rule about a plan that the rule `shape` accepts.
pub(super) fn check(plan: &PlanTree) -> Diagnostics {
    let mut rule = Rule { plan, found: Diagnostics::default(), counts: BTreeMap::new() };
    rule.form();
    rule.exchanges();
    rule.classes();
    rule.found
}

/// The rule while it reads a plan.
struct Rule<'p> {
    plan: &'p PlanTree,
    found: Diagnostics,
    /// The count of each chunk, and the operation that states it; none for those of an all-to-all-v.
    counts: BTreeMap<ChunkId, (Count, Option<LocatedOp<'p>>)>,
}

impl<'p> Rule<'p> {
    fn push(&mut self, finding: Diagnostic) {
        if self.found.len() < MAX_FINDINGS {
            self.found.push(finding);
        }
    }

    /// Checks what a plan with counts may be.
    fn form(&mut self) {
        let plan = self.plan;
        let (kind, ranks) = (plan.collective.kind, plan.ranks.len());
        let chunks = plan.ranks.first().map_or(0, |rank| rank.input_chunks.max(rank.output_chunks));
        let custom = matches!(kind, CollectiveKind::Custom { .. } | CollectiveKind::Test { .. });
        let wrong = [
            (plan.collective.in_place, "is in place, expected an input and an output".to_owned(), "remove `in_place`"),
            (
                plan.min_message_size > 0,
                format!("is for messages of {} bytes or more, expected of 0", plan.min_message_size),
                "remove `message_size`, or begin it with 0",
            ),
            (
                plan.buffer_alignment != 1,
                format!("has a buffer alignment of {} bytes, expected 1", plan.buffer_alignment),
                "write `buffer_alignment = 1`",
            ),
            (
                kind == CollectiveKind::AllToAllV && chunks as usize != ranks,
                format!("has {chunks} chunks in input and output, expected {ranks}, one for each rank"),
                "remove `chunk_factor` and `instances`",
            ),
            (
                custom && !plan.collective.dividing,
                "takes counts that do not divide into its chunks".to_owned(),
                "write `dividing`, so that all chunks have one length",
            ),
            (
                !custom && kind != CollectiveKind::AllToAllV,
                format!("is of the collective {}, whose chunks have no counts", kind.name()),
                "use `AllToAllV`, or `Custom` with expectations",
            ),
        ];
        for (_, message, help) in wrong.into_iter().filter(|(wrong, ..)| *wrong) {
            let message = format!("a plan with counts {message}");
            self.push(Diagnostic::new(Code::NotCountable, Site::None, message).help(help));
        }
    }

    /// Checks that every rank exchanges counts once, before its counted operations.
    fn exchanges(&mut self) {
        let plan = self.plan;
        let mut exchanges: Vec<Vec<LocatedOp<'p>>> = vec![Vec::new(); plan.ranks.len()];
        let mut counted = Vec::new();
        each(View::from(plan), &mut |at| {
            if at.op.kind == OpKind::ExchangeCounts {
                exchanges[at.rank].push(at);
            } else if at.op.kind.is_counted() {
                counted.push(at);
            }
        });
        for (rank, list) in exchanges.iter().enumerate() {
            match list[..] {
                [one] => {
                    if one.inside.is_some() {
                        self.outside_of_pipelines(&one);
                    }
                }
                [] => self.push(
                    Diagnostic::new(
                        Code::MissingCounts,
                        Site::Path(format!("rank {rank}")),
                        format!("rank {rank} never exchanges counts, for which the other ranks wait"),
                    )
                    .help("call `exchange_counts` once on every rank, also on one without counted operations"),
                ),
                [first, second, ..] => self.push(
                    Diagnostic::new(
                        Code::MissingCounts,
                        second.site(plan),
                        format!("rank {rank} exchanges counts {} times, expected once", list.len()),
                    )
                    .note("the first exchange", first.site(plan))
                    .help("remove the second `exchange_counts`; other thread blocks of the rank wait for one by `barrier`"),
                ),
            }
        }
        for at in counted {
            if at.inside.is_some() {
                self.outside_of_pipelines(&at);
            }
            let [exchange] = exchanges[at.rank][..] else { continue };
            if exchange.inside.is_none() && at.inside.is_none() && !is_after(plan, &exchange, &at) {
                let message = format!(
                    "{} ({}) uses a count that may not be known yet: nothing orders it after {} ({})",
                    at.display_name(plan),
                    at.agent(),
                    exchange.display_name(plan),
                    exchange.agent()
                );
                self.push(
                    Diagnostic::new(Code::MissingCounts, at.site(plan), message)
                        .note("the exchange", exchange.site(plan))
                        .help("let both thread blocks execute one `barrier` between the two"),
                );
            }
        }
    }

    fn outside_of_pipelines(&mut self, at: &LocatedOp) {
        let message = format!("{} ({}) is in a pipeline", at.display_name(self.plan), at.agent());
        let finding = Diagnostic::new(Code::NotCountable, at.site(self.plan), message);
        self.push(finding.help("move it out of the pipeline, whose iterations do not depend on counts"));
    }

    /// Checks that every chunk has one count.
    fn classes(&mut self) {
        let plan = self.plan;
        let all = plan.ranks.len() as u32;
        if plan.collective.kind == CollectiveKind::AllToAllV {
            for (sender, receiver) in (0..all).flat_map(|sender| (0..all).map(move |receiver| (sender, receiver))) {
                let count = (Count { sender, receiver }, None);
                self.counts.insert((sender, BufferKind::Input, receiver), count);
                self.counts.insert((receiver, BufferKind::Output, sender), count);
            }
        }
        for counted in [true, false] {
            each(View::from(plan), &mut |at| {
                if at.op.kind.is_data() && at.op.kind.is_counted() == counted {
                    accesses(plan, &at, &mut |access| {
                        let (first, size) = (access.range.index, access.range.size);
                        let id = |chunk| (access.owner, access.buffer, chunk);
                        if counted && size == 1 {
                            self.access(&at, id(first));
                        } else if !counted {
                            // Of the chunks, which may be many, those that have a count.
                            let range = id(first)..id(first.saturating_add(size));
                            let chunks: Vec<ChunkId> = self.counts.range(range).map(|(id, _)| *id).collect();
                            chunks.into_iter().for_each(|id| self.access(&at, id));
                        }
                        if counted && access.buffer == BufferKind::Scratch && at.op.slice.is_some() {
                            let message = format!(
                                "{} ({}) on scratch is divided among thread blocks: the next launch, with another count, \
                                 divides at other elements",
                                at.display_name(plan),
                                at.agent()
                            );
                            let finding = Diagnostic::new(Code::NotCountable, at.site(plan), message);
                            self.push(finding.help("let one thread block execute it"));
                        }
                        if counted && access.range.size != 1 {
                            let message = format!(
                                "{} ({}) has an operand of {} chunks, expected 1",
                                at.display_name(plan),
                                at.agent(),
                                access.range.size
                            );
                            let finding = Diagnostic::new(Code::NotCountable, at.site(plan), message);
                            self.push(finding.help("call it once for every chunk, each with its count"));
                        }
                    });
                }
            });
        }
    }

    fn access(&mut self, at: &LocatedOp<'p>, chunk: ChunkId) {
        let known = match at.op.count {
            Some(count) => Some(*self.counts.entry(chunk).or_insert((count, Some(*at)))),
            None => self.counts.get(&chunk).copied(),
        };
        let Some((expected, stated)) = known else { return };
        if at.op.count == Some(expected) {
            return;
        }
        let words = |count: Count| format!("what rank {} sends to rank {}", count.sender, count.receiver);
        let found = at.op.count.map_or("as a whole".to_owned(), |found| format!("with the count of {}", words(found)));
        let message = format!(
            "{} ({}) accesses chunk {} of the {} of rank {} {found}, expected the count of {}",
            at.display_name(self.plan),
            at.agent(),
            chunk.2,
            chunk.1,
            chunk.0,
            words(expected)
        );
        let mut finding = Diagnostic::new(Code::CountMismatch, at.site(self.plan), message);
        if let Some(other) = stated {
            finding = finding.note("the operation that states its count", other.site(self.plan));
        }
        let help = match at.op.count {
            Some(_) => "use the chunk and the count of one sender and one receiver",
            None => "use `copy_counted`, `put_counted` or `get_counted` with that count",
        };
        self.push(finding.help(help));
    }
}

/// Returns whether an operation comes after the exchange of counts of its rank; both are outside of pipelines.
fn is_after(plan: &PlanTree, exchange: &LocatedOp, at: &LocatedOp) -> bool {
    if at.block == exchange.block {
        return at.index > exchange.index;
    }
    let blocks = &plan.ranks[at.rank].blocks;
    // Barriers of a block before an operation: the number, and how often it was executed before.
    let barriers = |block: usize, ops: std::ops::Range<usize>| {
        let all = &blocks[block].ops;
        let number = |op: &Op| (op.kind == OpKind::Barrier).then(|| op.ids.first().copied()).flatten();
        let earlier = move |upto: usize, id: u32| all[..upto].iter().filter(|op| number(op) == Some(id)).count();
        ops.filter_map(move |index| number(&all[index]).map(|id| (id, earlier(index, id)))).collect::<Vec<_>>()
    };
    let in_pipelines = |id: u32| {
        let bodies = blocks.iter().flat_map(|block| &block.ops).filter_map(|op| op.body.as_ref());
        bodies.flat_map(|body| &body.ops).any(|op| op.kind == OpKind::Barrier && op.ids.first() == Some(&id))
    };
    let after = barriers(exchange.block, exchange.index + 1..blocks[exchange.block].ops.len());
    barriers(at.block, 0..at.index).iter().any(|barrier| after.contains(barrier) && !in_pipelines(barrier.0))
}

/// Returns a plan that the rule accepts, or any other one, at full counts: each exchange of counts is a relaxed signal to
/// every rank and a relaxed wait for every rank, over channels that nothing else uses: ports to ranks of other nodes.
pub(super) fn at_full_counts(plan: &PlanTree) -> PlanTree {
    let mut full = plan.clone();
    let ranks = plan.ranks.len() as u32;
    let channels = KINDS.map(|kind| plan.ranks.iter().map(|rank| channels_to(rank, kind)).collect::<Vec<_>>());
    for (rank, tables) in (0..).zip(&mut full.ranks) {
        let mut hidden = KINDS.map(|_| 0..0);
        for ((kind, channels), hidden) in KINDS.into_iter().zip(&channels).zip(&mut hidden) {
            let peers = (0..ranks).filter(|peer| *peer != rank && exchange_kind(plan, rank, *peer) == kind);
            let count = |one: u32, other: u32| channels[one as usize].get(&other).copied().unwrap_or(0);
            // Of two ranks that have unequally many channels to each other, those that lack a counterpart get one, so that the
            // last two channels are a pair.
            let lacking = |peer: u32| count(peer, rank).saturating_sub(count(rank, peer));
            let lacking = peers.clone().flat_map(|peer| std::iter::repeat_n(peer, lacking(peer)));
            let more: Vec<u32> = lacking.chain(peers.clone()).collect();
            if more.is_empty() {
                continue;
            }
            let Some(known) = channels_of(tables, kind) else { continue };
            known.extend(more);
            *hidden = (known.len() - peers.count()) as u32..known.len() as u32;
        }
        for (number, block) in tables.blocks.iter_mut().enumerate() {
            // Findings keep the positions of the plan.
            for (index, op) in block.ops.iter_mut().enumerate() {
                locate(op, &mut full.origins, &format!("rank {rank} / thread block {number} / operation {index}"));
            }
            if !block.ops.iter().any(|op| op.kind == OpKind::ExchangeCounts) {
                continue;
            }
            let mut used = Vec::new();
            for (kind, hidden) in KINDS.into_iter().zip(&hidden).filter(|(_, hidden)| !hidden.is_empty()) {
                let first = block.channels(kind).len() as u32;
                match block.channels.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, known)) => known.extend(hidden.clone()),
                    None => block.channels.push((kind, BlockTable::from_iter(hidden.clone()))),
                }
                used.push((kind, first..first + hidden.len() as u32));
            }
            let expand = |op: Op| {
                if op.kind != OpKind::ExchangeCounts {
                    return vec![op];
                }
                let sync = |sync: OpKind| {
                    let sync = move |(kind, ids): &(ChannelKind, std::ops::Range<u32>)| Op {
                        channel: Some(*kind),
                        ids: ids.clone().collect(),
                        ..Op::new(sync, op.origin)
                    };
                    used.iter().map(sync)
                };
                let signals = sync(OpKind::RelaxedSignal).chain(sync(OpKind::RelaxedWait));
                signals.chain([Op::new(OpKind::Nop, op.origin)]).collect()
            };
            block.ops = std::mem::take(&mut block.ops).into_iter().flat_map(expand).collect();
        }
    }
    full
}

/// The kinds of channels that represent an exchange.
const KINDS: [ChannelKind; 2] = [ChannelKind::Memory, ChannelKind::Port];

/// Returns the kind of channel that represents the exchange of counts between two ranks: only ports connect nodes.
fn exchange_kind(plan: &PlanTree, one: u32, other: u32) -> ChannelKind {
    let per_node = if plan.ranks_per_node == 0 { u32::MAX } else { plan.ranks_per_node };
    if one / per_node == other / per_node { ChannelKind::Memory } else { ChannelKind::Port }
}

/// Returns the peers of a rank's channels of a kind, `Memory` or `Port`.
fn channels_of(rank: &mut RankPlan, kind: ChannelKind) -> Option<&mut Vec<u32>> {
    let is_wanted = |table: &ChannelTable| match table {
        ChannelTable::Memory(_) => kind == ChannelKind::Memory,
        ChannelTable::Port(_) => kind == ChannelKind::Port,
        ChannelTable::Switch { .. } => false,
    };
    if !rank.channels.iter().any(is_wanted) {
        let new = if kind == ChannelKind::Port { ChannelTable::Port } else { ChannelTable::Memory };
        rank.channels.push(new(Vec::new()));
    }
    match rank.channels.iter_mut().find(|table| is_wanted(table))? {
        ChannelTable::Memory(peers) | ChannelTable::Port(peers) => Some(peers),
        ChannelTable::Switch { .. } => None,
    }
}

/// Returns the number of a rank's channels of a kind to each peer.
fn channels_to(rank: &RankPlan, kind: ChannelKind) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for peer in rank.peers(kind) {
        *counts.entry(*peer).or_default() += 1;
    }
    counts
}

/// The line of a location whose file is the position of an operation in its plan.
pub(super) const POSITION: u32 = u32::MAX;

/// Gives operations without a source location their position as one.
fn locate(op: &mut Op, origins: &mut mscclpp_plan::origin::Origins, position: &str) {
    if origins.get(op.origin).is_none() {
        let file = format!("{position} ({})", op.kind.name());
        op.origin = origins.add(SourceLocation { file: file.into(), line: POSITION, ..SourceLocation::default() });
    }
    let kind = op.kind;
    for (index, inner) in op.body.iter_mut().flat_map(|body| body.ops.iter_mut().enumerate()) {
        locate(inner, origins, &format!("{position} ({}) / operation {index}", kind.name()));
    }
}

/// Returns findings about a plan at full counts as findings about the plan.
pub(super) fn findings(found: Diagnostics) -> Diagnostics {
    let mut all = Diagnostics::default();
    all.extend(found.into_iter().map(|mut finding| {
        let restore = |site: &mut Site| *site = original_site(std::mem::take(site));
        restore(&mut finding.site);
        finding.notes.iter_mut().for_each(|(_, site)| restore(site));
        finding
    }));
    all
}

/// Returns the plan by which one with counts is represented, which has its chunks and channels; any other plan is its own.
pub fn representative(plan: &PlanTree) -> Cow<'_, PlanTree> {
    if plan.is_counted() { Cow::Owned(at_full_counts(plan)) } else { Cow::Borrowed(plan) }
}

/// Returns a location in a plan for one in its [`representative`].
pub fn original_site(site: Site) -> Site {
    match site {
        Site::Source(place) if place.line == POSITION => Site::Path(place.file.to_string()),
        site => site,
    }
}

#[cfg(test)]
mod tests;
