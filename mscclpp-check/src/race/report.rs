//! Diagnostics about accesses that are unordered.

use super::super::access::access_site;
use super::super::model::{Model, Space};
use super::super::place::{LocatedOp, each};
use super::shadow_memory::RecordedAccess;
use crate::counted::POSITION;
use mscclpp_plan::diag::{Code, Diagnostic, Site};
use mscclpp_plan::raw::{Op, OpClass};
use mscclpp_plan::types::{BufferKind, ChannelKind};

/// An access in words.
struct DescribedAccess<'p> {
    at: LocatedOp<'p>,
    /// "`put` (rank 0, thread block 1)".
    who: String,
    name: String,
    does: &'static str,
    /// The operand with the atom.
    site: Site,
}

fn describe<'p>(model: &Model<'p>, access: &RecordedAccess, atom: usize) -> DescribedAccess<'p> {
    let step = access.step as usize;
    let at = model.placed(model.agent_of(step), step);
    let name = at.display_name(model.plan);
    DescribedAccess {
        who: format!("{name} ({})", at.agent()),
        site: access_site(model.plan, &at, access.write, chunk(model, atom)),
        at,
        name,
        does: if access.write { "writes" } else { "reads" },
    }
}

/// Returns the chunk with an atom.
fn chunk(model: &Model, atom: usize) -> (u32, BufferKind, u64) {
    let (rank, memory) = model.atoms.memory(atom);
    (rank, memory.buffer(), model.atoms.range(atom).start / model.size.chunk().max(1))
}

/// Returns a text such as "output chunk 3 of rank 1".
pub(super) fn place(model: &Model, atom: usize) -> String {
    let (rank, buffer, chunk) = chunk(model, atom);
    let packets = if model.atoms.memory(atom).1 == Space::Packets { "the packets of " } else { "" };
    format!("{packets}{buffer} chunk {chunk} of rank {rank}")
}

/// What is ordered about the earlier one of two accesses that are unordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing relevant.
    Nothing,
    /// It happens before, but what it wrote is not visible.
    Over,
    /// It is a put over a port channel whose source was read.
    Flushed,
}

impl Known {
    /// Returns the sentence to add to a message about the earlier access.
    fn note(self) -> &'static str {
        match self {
            Self::Flushed => {
                "; the flush after the put guarantees that its source was read, not that the data has arrived"
            }
            Self::Nothing | Self::Over => "",
        }
    }
}

/// Help that makes a rank wait for what a port puts into its memory.
const HEAR_FROM_PORT: &str = "signal on the same port channel after the put, and wait for the signal on the \
    receiving rank";

/// Returns the finding about two conflicting accesses at an atom, given what is ordered about the earlier one, and
/// whether the later one's thread block waits on a counter that is used unordered.
pub(super) fn race(
    model: &Model,
    blocks: usize,
    (old, new): (&RecordedAccess, &RecordedAccess),
    atom: usize,
    (known, vague): (Known, bool),
) -> Diagnostic {
    let (first, second) = (describe(model, old, atom), describe(model, new, atom));
    let accesses = match known {
        Known::Over => format!(
            "{} {} it before the write by {} is visible to rank {}",
            second.who, second.does, first.who, second.at.rank
        ),
        Known::Nothing | Known::Flushed => {
            format!("{} {} it and {} {} it, unordered{}", second.who, second.does, first.who, first.does, known.note())
        }
    };
    let message = format!("data race on {}: {accesses}", place(model, atom));
    let by_port = |access: &RecordedAccess| access.agent as usize >= blocks;
    let is_packet = model.atoms.memory(atom).1 == Space::Packets;
    let help = if is_packet && old.write && new.write {
        "write the second packet to separate scratch: both have the flag of the launch, so a reader cannot \
         distinguish them; or write it after a signal from every reader"
    } else if known == Known::Over && has_relaxed(model) && model.has_packets() {
        "neither a relaxed signal nor a packet publishes the earlier writes of its thread block; signal after that \
         write and wait for the signal, both without `.relaxed()`"
    } else if known == Known::Over && has_relaxed(model) {
        "a relaxed signal does not publish writes; use `signal` and `wait` without `.relaxed()`"
    } else if known == Known::Over {
        "a packet publishes only its own data, not the earlier writes of its writer; signal after that write and \
         wait for the signal"
    } else if known == Known::Flushed {
        HEAR_FROM_PORT
    } else if by_port(old) && !by_port(new) && first.at.rank == second.at.rank {
        "a port put reads its source asynchronously; flush the channel or wait for the receiver's signal first"
    } else if old.agent == new.agent {
        "insert a block sync between them: `rank.barrier([block])`, or a block sync on a signal or wait between them"
    } else if vague {
        "several threads signal on a channel or release a semaphore that this thread block waits on, unordered or \
         in loops, so a wait does not identify the signal that it consumed; order the signals outside of loops, or \
         give each thread block its own channel or semaphore"
    } else if first.at.rank == second.at.rank {
        "order the thread blocks with a barrier or a semaphore"
    } else {
        "signal after the first access and wait before the second, with a block sync between each access and its \
         signal or wait"
    };
    let finding =
        Diagnostic::new(Code::Race, second.site, message).note(format!("{} {}", first.name, first.does), first.site);
    let is_between_blocks = old.agent != new.agent && !by_port(old) && !by_port(new);
    let missing = (is_between_blocks && known == Known::Nothing && !is_packet && !vague)
        .then(|| {
            missing_sync(model, &first.at, true, second.at.rank)
                .or_else(|| missing_sync(model, &second.at, false, first.at.rank))
        })
        .flatten();
    finding.help(missing.unwrap_or_else(|| help.to_owned()))
}

/// Returns the help for an access that no block sync separates from the signal after it, or from the wait before it: then
/// other threads of its block signal or wait.
///
/// `other`: the rank that waits for the signal, or from which the wait has one.
fn missing_sync(model: &Model, at: &LocatedOp, after: bool, other: usize) -> Option<String> {
    let (ops, index) = match at.inside {
        Some((inner, pipeline)) => (&pipeline.body.as_ref()?.ops[..], inner),
        None => (model.view.ops(at.rank, at.block), at.index),
    };
    let tables = &model.plan.ranks[at.rank];
    let leads_there = |op: &Op| {
        let kind = op.channel.unwrap_or(ChannelKind::Memory);
        let channels = op.ids.iter().filter_map(|id| tables.blocks[at.block].channels(kind).get(*id as usize));
        let mut peers = channels.filter_map(|number| tables.peers(kind).get(*number as usize));
        peers.any(|peer| *peer as usize == other)
    };
    let is_end = |op: &&Op| match op.kind.class() {
        OpClass::Signal { .. } => after && leads_there(op),
        OpClass::Wait { .. } => !after && leads_there(op),
        OpClass::Release => after && at.rank == other,
        OpClass::Acquire => !after && at.rank == other,
        OpClass::BlockSync | OpClass::Barrier | OpClass::Pipeline | OpClass::ExchangeCounts => true,
        OpClass::Data(..) | OpClass::Flush => false,
    };
    let next = if after { ops[index + 1..].iter().find(is_end) } else { ops[..index].iter().rev().find(is_end) };
    let op = next.filter(|op| op.kind.is_sync())?;
    let signal = LocatedOp { op, ..*at };
    let (name, own) = (signal.display_name(model.plan), at.display_name(model.plan));
    let line = match signal.site(model.plan) {
        Site::Source(place) if place.line != POSITION => format!(" in line {}", place.line),
        _ => String::new(),
    };
    let (what, sync) = if after { ("after", "Before") } else { ("before", "After") };
    Some(format!(
        "separate {own} ({}) from {name}{line} {what} it by a block sync, since different threads execute them: \
         `.sync(BlockSync::{sync})` on {name}",
        at.agent(),
    ))
}

/// Returns whether a plan uses relaxed signals or waits.
fn has_relaxed(model: &Model) -> bool {
    let mut found = false;
    each(model.view, &mut |at| found |= at.op.kind.is_relaxed());
    found
}

/// Returns the finding about a wait that competes with another thread block, if the two are unordered.
pub(super) fn competing_waits(model: &Model, rival: usize, step: usize) -> Diagnostic {
    let at = model.placed(model.agent_of(step), step);
    let other = &model.agents[rival];
    let what = if at.op.kind.is_data() || at.op.channel.is_some() { "signals" } else { "semaphore units" };
    let message = format!(
        "{} ({}) competes with rank {}, thread block {} for the same {what}: either may consume the first one and \
         block the other forever",
        at.display_name(model.plan),
        at.agent(),
        other.rank,
        other.block,
    );
    Diagnostic::new(Code::Deadlock, at.site(model.plan), message)
        .help("give each of them its own channel or semaphore, or order them")
}

/// Returns the finding about an access to another rank's buffer that does not happen after that rank's start.
pub(super) fn early_access(model: &Model, access: &RecordedAccess) -> Diagnostic {
    let atom = access.atoms.0 as usize;
    let new = describe(model, access, atom);
    let (owner, memory) = model.atoms.memory(atom);
    let caller = match (access.write, memory) {
        (true, _) => "its caller may still be using the buffer",
        (false, _) => "its caller may not have written the buffer yet",
    };
    let message =
        format!("{} {} {} before rank {owner} has started the launch: {caller}", new.who, new.does, place(model, atom));
    let help = missing_sync(model, &new.at, false, owner as usize).unwrap_or_else(|| {
        format!(
            "let rank {owner} signal at its start, and wait for that signal, with a block sync after the wait: \
             `channel.handshake(block).relaxed()` on both ranks does this"
        )
    });
    Diagnostic::new(Code::EarlyAccess, new.site, message).help(help)
}

/// Returns the finding about an access to another rank's buffer that does not happen before the end of that rank, given
/// what is ordered about it.
pub(super) fn late_access(
    model: &Model,
    blocks: usize,
    access: &RecordedAccess,
    atom: usize,
    known: Known,
) -> Diagnostic {
    let old = describe(model, access, atom);
    let (owner, _) = model.atoms.memory(atom);
    let by_port = access.agent as usize >= blocks;
    let through = if by_port { "'s port" } else { "" };
    let doing = if access.write { "writing" } else { "reading" };
    let message = format!(
        "{}{through} may still be {doing} {} after the launch of rank {owner} has finished{}",
        old.who,
        place(model, atom),
        known.note(),
    );
    let help = match (by_port, access.write) {
        (true, true) => HEAR_FROM_PORT.to_owned(),
        (true, false) => {
            "flush the channel, or wait for a signal that the receiver sends after the data has arrived".to_owned()
        }
        (false, _) => missing_sync(model, &old.at, true, owner as usize).unwrap_or_else(|| {
            format!(
                "signal rank {owner} after the access, and let rank {owner} wait for that signal before its launch ends"
            )
        }),
    };
    Diagnostic::new(Code::LateAccess, old.site, message).help(help)
}

/// Returns the finding about an access in a later launch and one of this launch, at an atom of scratch, given what is
/// ordered about the earlier one.
pub(super) fn cross_launch_race(
    model: &Model,
    blocks: usize,
    old: &RecordedAccess,
    new: &RecordedAccess,
    atom: usize,
    known: Known,
) -> Diagnostic {
    let (first, second) = (describe(model, old, atom), describe(model, new, atom));
    let (which, halves) = match model.plan.double_scratch {
        true => ("launch after the next", "with double scratch "),
        false => ("next launch", ""),
    };
    let message = format!(
        "race between launches: in the {which}, {} {} {} {halves}while {} of this launch may still be {} it{}",
        second.who,
        second.does,
        place(model, atom),
        first.who,
        if old.write { "writing" } else { "reading" },
        known.note(),
    );
    let help = match (model.atoms.memory(atom).1, model.plan.double_scratch) {
        _ if old.write && old.agent as usize >= blocks => HEAR_FROM_PORT,
        (Space::Packets, false) => {
            "let launches alternate between two halves of scratch (`double_scratch`), or let the reader acknowledge what \
             it has read before the writer's launch ends"
        }
        _ => {
            "let the reader signal after its read, and let the writer wait for that signal before its launch ends \
            or before it writes"
        }
    };
    Diagnostic::new(Code::CrossLaunchRace, second.site, message)
        .note(format!("{} {}", first.name, first.does), first.site)
        .help(help)
}
