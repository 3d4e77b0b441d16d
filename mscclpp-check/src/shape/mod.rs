//! Rule 1: indexes are in range, chunks are inside their buffers, and operations have what their kind requires. It
//! proves that
//!
//! 1. the header is valid: at least one rank, a valid number of threads and alignment, a range of message sizes that is
//!    not empty, the root one of the ranks (M0001 to M0003);
//! 2. all ranks have equal chunk counts, which match the collective and the number of ranks (M0206);
//! 3. indexes between tables are valid: blocks' channels and remote buffers are those of their rank, peers are other
//!    ranks, the members of a switch channel are distinct and all have it (M0202, M0012, M0014, M0015);
//! 4. an operation has as many operands, channels and numbers as its kind requires, each local or remote as it must be,
//!    on channels that lead to the ranks of its buffers, and a thread for each of its channels (M0203, M0202, M0022,
//!    M0222);
//! 5. operands are inside their buffers, are equally long and not empty, are packets only in scratch, and a written
//!    operand does not partly overlap any other operand of the operation (M0004, M0006, M0008, M0019, M0009);
//! 6. loops have a unit that does not divide vectors, packets and elements, do not nest, and every operand in them has
//!    the length that they state, so that the last iteration ends at the end of the chunks (M0204);
//! 7. a barrier is used by as many thread blocks of its rank as it states (M0205).
//!
//! The rule checks every entry separately. After this rule, executors and the other rules index without checks, and
//! windows and slices of an operand stay inside of it.

mod operation;
mod overlap;

use std::collections::BTreeMap;

use super::MAX_FINDINGS;
use super::place::{LocatedOp, each_of};
use super::view::View;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_plan::parallel::{both, is_worth};
use mscclpp_plan::raw::{BlockTable, ChannelTable, Expectation, OpKind, PlanTree, RankPlan};
use mscclpp_plan::types::{BufferKind, ChannelKind};

pub(super) fn check(view: View) -> Diagnostics {
    let plan = view.plan;
    let mut found = Findings { list: Diagnostics::default() };
    header(plan, &mut found);
    chunk_counts(plan, &mut found);
    expectations(plan, &mut found);
    for (rank, tables) in plan.ranks.iter().enumerate() {
        rank_tables(plan, rank, tables, &mut found);
        block_tables(rank, tables, &mut found);
    }
    switch_groups(plan, &mut found);
    // Operations are resolved with the tables, which must be valid for that.
    if found.list.is_empty() {
        let some = |ranks| {
            let (mut found, mut barriers) = (Findings { list: Diagnostics::default() }, Vec::new());
            each_of(view, ranks, &mut |at| {
                if !found.is_full() {
                    operation::check(plan, &at, &mut found);
                }
                if at.op.kind == OpKind::Barrier {
                    barriers.push(at);
                }
            });
            (found, barriers)
        };
        let (all, middle) = (plan.ranks.len(), plan.ranks.len() / 2);
        let (second, first) = both(is_worth(view.operations()), || some(middle..all), || some(0..middle));
        let mut barriers = first.1;
        barriers.extend(second.1);
        first.0.list.into_iter().chain(second.0.list).for_each(|finding| found.push(finding));
        if found.list.is_empty() {
            check_barriers(plan, &barriers, &mut found);
        }
    }
    found.list
}

struct Findings {
    list: Diagnostics,
}

impl Findings {
    fn is_full(&self) -> bool {
        self.list.len() >= MAX_FINDINGS
    }

    fn push(&mut self, finding: Diagnostic) {
        if !self.is_full() {
            self.list.push(finding);
        }
    }

    fn at_plan(&mut self, code: Code, message: String) {
        self.push(Diagnostic::new(code, Site::None, message));
    }

    fn at_rank(&mut self, code: Code, rank: usize, message: String) {
        self.push(Diagnostic::new(code, Site::Path(format!("rank {rank}")), message));
    }
}

fn header(plan: &PlanTree, found: &mut Findings) {
    if plan.ranks.is_empty() {
        found.at_plan(Code::NoRanks, "the plan has no ranks".to_owned());
    }
    if !(1..=1024).contains(&plan.threads_per_block) {
        let message = format!("expected 1 to 1024 threads per block, found {}", plan.threads_per_block);
        found.at_plan(Code::BadSpecification, message);
    }
    if !plan.buffer_alignment.is_power_of_two() {
        let message =
            format!("expected a buffer alignment that is a power of two, found {} bytes", plan.buffer_alignment);
        found.at_plan(Code::BadSpecification, message);
    }
    let (min, max) = (plan.min_message_size, plan.max_message_size);
    if min > max {
        found.at_plan(
            Code::BadSpecification,
            format!("the smallest message, {min} bytes, is larger than the largest, {max}"),
        );
    }
    let root = plan.collective.root;
    if root as usize >= plan.ranks.len() && !plan.ranks.is_empty() {
        let message = format!("the root is rank {root}, expected a rank below {}", plan.ranks.len());
        found.at_plan(Code::RankOutOfRange, message);
    }
}

/// Checks that the program's expectations are about existing chunks.
fn expectations(plan: &PlanTree, found: &mut Findings) {
    for (number, expectation) in plan.expectations.iter().enumerate() {
        let Expectation { rank, chunk, len, inputs, .. } = expectation;
        if inputs.is_empty() {
            found.at_plan(Code::EmptyList, format!("expectation {number} has no inputs"));
        }
        let output = std::iter::once((BufferKind::Output, *rank, *chunk));
        for (buffer, rank, chunk) in output.chain(inputs.iter().map(|&(rank, chunk)| (BufferKind::Input, rank, chunk)))
        {
            let Some(tables) = plan.ranks.get(rank as usize) else {
                let message =
                    format!("expectation {number} names rank {rank}, expected a rank below {}", plan.ranks.len());
                found.at_plan(Code::RankOutOfRange, message);
                continue;
            };
            let chunks = tables.chunks(buffer);
            if chunk.checked_add(*len).is_none_or(|end| end > chunks) {
                let message = format!(
                    "expectation {number} names {len} chunks of the {buffer} of rank {rank} from chunk {chunk}, but \
                     there are {chunks}"
                );
                found.at_plan(Code::ChunkOutOfRange, message);
            }
        }
    }
    contradictions(plan, found);
}

/// Checks that expectations of the same chunk agree: they state the same inputs at the same distances from the chunk.
fn contradictions(plan: &PlanTree, found: &mut Findings) {
    let mut sorted: Vec<_> = plan.expectations.iter().collect();
    sorted.sort_by_key(|one| (one.rank, one.chunk));
    let mut reach: Option<(&Expectation, Vec<(u32, i64)>)> = None;
    for next in sorted {
        let given = distances(next);
        let Some((last, wanted)) = reach.replace((next, given.clone())) else { continue };
        let end = u64::from(last.chunk) + u64::from(last.len);
        if last.rank != next.rank || end <= u64::from(next.chunk) {
            continue;
        }
        if wanted != given && !found.is_full() {
            let Expectation { rank, chunk, .. } = *next;
            let message = format!(
                "output chunk {chunk} of rank {rank} is expected to hold {}, and also to hold {}",
                contents(last, chunk),
                contents(next, chunk)
            );
            let site = |one: &Expectation| plan.origins.get(one.origin).cloned().map_or(Site::None, Site::Source);
            let finding = Diagnostic::new(Code::ContradictingExpectations, site(next), message)
                .note("the other expectation", site(last))
                .help("remove one of the two expectations; to expect a reduction, pass all inputs to one `expect`");
            found.push(finding);
        }
        // All that overlap so far agree, so the one with the largest end represents them.
        if u64::from(next.chunk) + u64::from(next.len) < end {
            reach = Some((last, wanted));
        }
    }
}

/// Returns the locations of an expectation's inputs, relative to its chunks.
fn distances(one: &Expectation) -> Vec<(u32, i64)> {
    let distance = |&(rank, chunk): &(u32, u32)| (rank, i64::from(chunk) - i64::from(one.chunk));
    let mut distances: Vec<_> = one.inputs.iter().map(distance).collect();
    distances.sort_unstable();
    distances
}

/// Maximum number of inputs of an expectation in a message.
const MAX_INPUTS: usize = 8;

/// Returns the expected contributions of a chunk, for messages.
fn contents(one: &Expectation, chunk: u32) -> String {
    let offset = u64::from(chunk.saturating_sub(one.chunk));
    let input = |&(rank, chunk): &(u32, u32)| format!("chunk {} of rank {rank}", u64::from(chunk) + offset);
    match &one.inputs[..] {
        [only] => format!("input {}", input(only)),
        several => {
            let some: Vec<_> = several.iter().take(MAX_INPUTS).map(input).collect();
            let more = if several.len() > some.len() { ", …" } else { "" };
            format!("the reduction of input {}{more}", some.join(", "))
        }
    }
}

/// Checks that all ranks have the chunk counts of rank 0, and that those match the collective.
fn chunk_counts(plan: &PlanTree, found: &mut Findings) {
    let Some(first) = plan.ranks.first() else { return };
    let (input, output) = (u64::from(first.input_chunks), u64::from(first.output_chunks));
    for (rank, tables) in plan.ranks.iter().enumerate() {
        if (tables.input_chunks, tables.output_chunks) != (first.input_chunks, first.output_chunks) {
            let message = format!(
                "expected {input} input and {output} output chunks as on rank 0, found {} and {}",
                tables.input_chunks, tables.output_chunks
            );
            found.at_rank(Code::ChunkCountMismatch, rank, message);
        }
    }
    let ranks = plan.ranks.len() as u64;
    use CollectiveKind as K;
    let (fits, demand) = match plan.collective.kind {
        K::AllGather => (output == input * ranks, "as many output chunks as input chunks of all ranks"),
        K::ReduceScatter => (input == output * ranks, "as many input chunks as output chunks of all ranks"),
        K::AllReduce | K::AllToAll | K::AllToAllV | K::Broadcast | K::Reduce => {
            (input == output && input % ranks == 0, "equal counts, divisible by the number of ranks")
        }
        K::SendRecv => (input == output, "equal counts"),
        // Instances multiply both.
        K::Custom { input: i, output: o } | K::Test { input: i, output: o } => {
            let (i, o) = (u64::from(i), u64::from(o));
            let fits = input.is_multiple_of(i) && output.is_multiple_of(o) && input * o == output * i;
            (fits, "the stated counts, or equal multiples of them,")
        }
    };
    if !fits {
        let name = plan.collective.kind.name();
        let message =
            format!("expected {demand} for {name} over {ranks} ranks, found {input} input and {output} output chunks");
        found.at_plan(Code::ChunkCountMismatch, message);
    }
}

fn rank_tables(plan: &PlanTree, rank: usize, tables: &RankPlan, found: &mut Findings) {
    let ranks = plan.ranks.len();
    let peer = |what: &dyn Fn() -> String, peer: u32, found: &mut Findings| {
        if peer as usize >= ranks {
            let message = format!("{} is rank {peer}, expected a rank below {ranks}", what());
            found.at_rank(Code::IndexOutOfRange, rank, message);
        } else if peer as usize == rank {
            found.at_rank(Code::SelfChannel, rank, format!("{} is rank {rank} itself", what()));
        }
    };
    for kind in [ChannelKind::Memory, ChannelKind::Port] {
        let of_kind = |table: &&ChannelTable| match table {
            ChannelTable::Memory(_) => kind == ChannelKind::Memory,
            ChannelTable::Port(_) => kind == ChannelKind::Port,
            ChannelTable::Switch { .. } => false,
        };
        let count = tables.channels.iter().filter(of_kind).count();
        if count > 1 {
            let message = format!("expected one table of {kind} channels, found {count}");
            found.at_rank(Code::IndexOutOfRange, rank, message);
        }
        for (number, &other) in tables.peers(kind).iter().enumerate() {
            peer(&|| format!("the peer of {kind} channel {number}"), other, found);
        }
    }
    for (number, remote) in tables.remote_buffers.iter().enumerate() {
        peer(&|| format!("the owner of remote buffer {number}"), remote.rank, found);
    }
    for (number, (_, group)) in tables.switch_channels().enumerate() {
        if !group.contains(&(rank as u32)) {
            let message = format!("switch channel {number} connects ranks {group:?}, but not rank {rank}");
            found.at_rank(Code::NotAMember, rank, message);
        }
        if let Some(member) = group.iter().find(|&&member| member as usize >= ranks) {
            let message = format!("switch channel {number} has member {member}, expected a rank below {ranks}");
            found.at_rank(Code::IndexOutOfRange, rank, message);
        }
        let mut sorted = group.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("switch channel {number} has rank {} as a member twice", pair[0]);
            found.at_rank(Code::BadGroup, rank, message);
        }
    }
    for (number, &initial) in tables.semaphores.iter().enumerate() {
        if !(0..=i64::from(i32::MAX)).contains(&initial) {
            let message =
                format!("expected an initial value of 0 to {} for semaphore {number}, found {initial}", i32::MAX);
            found.at_rank(Code::BadSpecification, rank, message);
        }
    }
}

fn block_tables(rank: usize, tables: &RankPlan, found: &mut Findings) {
    let switch_channels = tables.switch_channels().count();
    for (number, block) in tables.blocks.iter().enumerate() {
        let mut list = |what: &str, lists: &[(ChannelKind, BlockTable)], known: &dyn Fn(ChannelKind) -> usize| {
            for (i, (kind, numbers)) in lists.iter().enumerate() {
                let known = known(*kind);
                if lists[..i].iter().any(|(other, _)| other == kind) {
                    let message = format!("thread block {number} has two tables of {kind} {what}");
                    found.at_rank(Code::IndexOutOfRange, rank, message);
                }
                if let Some(beyond) = numbers.iter().find(|&&id| id as usize >= known) {
                    let message =
                        format!("thread block {number} lists {kind} {what} {beyond}, expected one below {known}");
                    found.at_rank(Code::IndexOutOfRange, rank, message);
                }
            }
        };
        list("channel", &block.channels, &|kind| match kind {
            ChannelKind::Switch => switch_channels,
            kind => tables.peers(kind).len(),
        });
        list("remote buffer", &block.remote_buffers, &|kind| match kind {
            ChannelKind::Switch => 0,
            _ => tables.remote_buffers.len(),
        });
        for (kind, numbers) in &block.remote_buffers {
            let accessible = |id: &u32| match (tables.remote_buffers.get(*id as usize), kind) {
                (Some(remote), ChannelKind::Memory) => remote.memory,
                (Some(remote), _) => remote.port,
                (None, _) => true,
            };
            if let Some(id) = numbers.iter().find(|id| !accessible(id)) {
                let message = format!(
                    "thread block {number} uses remote buffer {id} over {kind} channels, which its rank does not \
                     list among the buffer's accesses"
                );
                found.at_rank(Code::IndexOutOfRange, rank, message);
            }
        }
    }
}

/// Checks that every member of a switch channel has it, the same number of times and over the same buffer: its setup requires all
/// of them.
fn switch_groups(plan: &PlanTree, found: &mut Findings) {
    let mut seen: BTreeMap<(BufferKind, &[u32]), BTreeMap<usize, usize>> = BTreeMap::new();
    for (rank, tables) in plan.ranks.iter().enumerate() {
        for channel in tables.switch_channels() {
            *seen.entry(channel).or_default().entry(rank).or_default() += 1;
        }
    }
    for ((buffer, group), counts) in &seen {
        let most = counts.values().max().copied().unwrap_or(0);
        let lacking = group.iter().find(|&&member| counts.get(&(member as usize)).is_none_or(|&count| count < most));
        if let Some(&member) = lacking {
            let message = format!(
                "ranks {} have up to {most} switch channels over their {buffer}, expected {most} on rank {member} too, \
                 found {}",
                some(group),
                counts.get(&(member as usize)).unwrap_or(&0)
            );
            found.at_rank(Code::NotAMember, member as usize, message);
        }
    }
}

/// Returns the first of some ranks, and their number if those are not all.
fn some(ranks: &[u32]) -> String {
    const MOST: usize = 8;
    let first: Vec<_> = ranks.iter().take(MOST).map(u32::to_string).collect();
    let all = if ranks.len() > MOST { format!(", … ({} in all)", ranks.len()) } else { String::new() };
    format!("{}{all}", first.join(", "))
}

/// Checks that every barrier is used by as many blocks as it states.
fn check_barriers(plan: &PlanTree, barriers: &[LocatedOp], found: &mut Findings) {
    let mut users: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
    for at in barriers {
        let blocks = users.entry((at.rank, at.number(at.op.ids[0]))).or_default();
        if blocks.last() != Some(&at.block) {
            blocks.push(at.block);
        }
    }
    for at in barriers {
        let number = at.number(at.op.ids[0]);
        let blocks = &users[&(at.rank, number)];
        if blocks.len() != at.op.num_blocks as usize {
            let message = format!(
                "barrier {number} of rank {} expects {} thread blocks, but thread blocks {blocks:?} use it",
                at.rank, at.op.num_blocks
            );
            found.push(Diagnostic::new(Code::BarrierMismatch, at.site(plan), message));
        }
    }
}

#[cfg(test)]
mod tests;
