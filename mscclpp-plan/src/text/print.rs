//! Prints a tree as text.

use std::fmt::{self, Display, Formatter, Write};

use super::name::Name;
use super::names::{BlockNames, RankNames, Use};
use super::tables::{RankTables, Uses};
use crate::collective::CollectiveKind;
use crate::types::{BlockSync, ChannelKind};
use crate::{BufferRef, ChannelTable, Expectation, Op, Operand, PlanTree, RankPlan};

/// A plan as text. [`parse`](super::parse) reads what [`Display`] writes, unless the text is limited to one rank.
#[derive(Clone, Copy, Debug)]
pub struct PlanText<'a> {
    plan: &'a PlanTree,
    rank: Option<u32>,
    comments: bool,
}

impl<'a> PlanText<'a> {
    /// Returns the whole plan, without comments.
    pub const fn new(plan: &'a PlanTree) -> Self {
        Self { plan, rank: None, comments: false }
    }

    /// Limits the text to the header and one rank, or to the header if the plan has no such rank.
    #[must_use]
    pub const fn with_rank(self, rank: u32) -> Self {
        Self { rank: Some(rank), ..self }
    }

    /// Adds a comment to every operation: its number in messages, and its source location if known.
    #[must_use]
    pub const fn with_comments(self) -> Self {
        Self { comments: true, ..self }
    }
}

impl Display for PlanText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        header(self.plan, f)?;
        for (number, tables) in (0_u32..).zip(&self.plan.ranks) {
            if self.rank.is_none_or(|wanted| wanted == number) {
                let RankPlan { input_chunks, output_chunks, scratch_chunks, .. } = tables;
                write!(f, "\nrank {number} (input {input_chunks}, output {output_chunks}, ")?;
                writeln!(f, "scratch {scratch_chunks}) {{")?;
                self.rank(&RankNames::new(tables), f)?;
                f.write_str("}\n")?;
            }
        }
        Ok(())
    }
}

fn header(plan: &PlanTree, f: &mut Formatter<'_>) -> fmt::Result {
    let collective = plan.collective;
    write!(f, "plan {}\ncollective {}", Name(&plan.name), collective.kind.name())?;
    if let CollectiveKind::Custom { input, output } | CollectiveKind::Test { input, output } = collective.kind {
        write!(f, " {input} -> {output}")?;
    }
    writeln!(f, "\nranks {}", plan.ranks.len())?;
    if plan.ranks_per_node as usize != plan.ranks.len() {
        writeln!(f, "ranks_per_node {}", plan.ranks_per_node)?;
    }
    if collective.chunk_factor != 1 {
        writeln!(f, "chunk_factor {}", collective.chunk_factor)?;
    }
    if collective.root != 0 {
        writeln!(f, "root {}", collective.root)?;
    }
    writeln!(f, "protocol {}", plan.protocol.name())?;
    writeln!(f, "threads_per_block {}", plan.threads_per_block)?;
    writeln!(f, "buffer_alignment {}", plan.buffer_alignment)?;
    if plan.min_message_size != 0 {
        writeln!(f, "min_message_size {}", plan.min_message_size)?;
    }
    if plan.max_message_size != u64::MAX {
        writeln!(f, "max_message_size {}", plan.max_message_size)?;
    }
    let flags = [
        ("in_place", collective.in_place),
        ("double_scratch", plan.double_scratch),
        ("reuse_resources", plan.reuse_resources),
        ("dividing", collective.dividing),
        ("rows", collective.rows),
    ];
    for (flag, _) in flags.iter().filter(|(_, set)| *set) {
        writeln!(f, "{flag}")?;
    }
    for (key, value) in &plan.tags {
        writeln!(f, "tag {} = {value}", Name(key))?;
    }
    plan.expectations.iter().try_for_each(|expected| expectation(expected, f))
}

fn expectation(expected: &Expectation, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "expect rank {} output{} =", expected.rank, Range(expected.chunk, expected.len))?;
    for (i, (rank, chunk)) in expected.inputs.iter().enumerate() {
        write!(f, "{} rank {rank} input{}", if i == 0 { "" } else { " +" }, Range(*chunk, expected.len))?;
    }
    f.write_str("\n")
}

/// Chunks: the first and their number.
struct Range(u32, u32);

impl Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.0, u64::from(self.0) + u64::from(self.1)) {
            (first, _) if self.1 == 1 => write!(f, "[{first}]"),
            (first, end) => write!(f, "[{first}..{end}]"),
        }
    }
}

/// Items with commas between them; the first one after a space.
fn list<T>(
    items: impl IntoIterator<Item = T>,
    f: &mut Formatter<'_>,
    mut each: impl FnMut(T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        f.write_str(if i == 0 { " " } else { ", " })?;
        each(item, f)?;
    }
    Ok(())
}

impl PlanText<'_> {
    fn rank(&self, names: &RankNames<'_>, f: &mut Formatter<'_>) -> fmt::Result {
        let tables = names.tables;
        let blocks: Vec<_> = tables.blocks.iter().map(|block| BlockNames::new(names, block)).collect();
        let stated: Vec<_> = blocks.iter().map(Stated::of).collect();
        let (derived, in_order) = derived(names, &blocks, &stated);
        let all = !in_order || derived.channels != tables.channels;
        let mut stated_tables =
            tables.channels.iter().filter(|table| all || matches!(table, ChannelTable::Switch { .. }));
        stated_tables.try_for_each(|table| channels(table, f))?;
        if derived.buffers != tables.remote_buffers {
            f.write_str("  buffers")?;
            list(&tables.remote_buffers, f, |found, f| {
                write!(f, "rank {} {}", found.rank, found.buffer)?;
                f.write_str(if found.memory { " memory" } else { "" })?;
                f.write_str(if found.port { " port" } else { "" })
            })?;
            f.write_str("\n")?;
        }
        if !tables.semaphores.is_empty() {
            f.write_str("  semaphores")?;
            list(&tables.semaphores, f, |value, f| write!(f, "{value}"))?;
            f.write_str("\n")?;
        }
        for (number, (names, stated)) in blocks.iter().zip(&stated).enumerate() {
            writeln!(f, "  block {number}:")?;
            stated.write(names, f)?;
            self.ops(&names.block.ops, names, 2, &mut 0, f)?;
        }
        Ok(())
    }

    fn ops(
        &self,
        ops: &[Op],
        names: &BlockNames<'_>,
        depth: usize,
        number: &mut u32,
        f: &mut Formatter<'_>,
    ) -> fmt::Result {
        for op in ops {
            write!(f, "{:width$}{}", "", Operation { op, names }, width = 2 * depth)?;
            if op.body.is_some() {
                f.write_str(" {")?;
            }
            if self.comments {
                write!(f, "  ; operation {number}")?;
                if let Some(location) = self.plan.origins.get(op.origin) {
                    f.write_str(", ")?;
                    // A file's name may contain anything.
                    let location = location.to_string();
                    location.chars().try_for_each(|c| f.write_char(if c.is_control() { ' ' } else { c }))?;
                }
            }
            f.write_str("\n")?;
            *number += 1;
            if let Some(body) = &op.body {
                self.ops(&body.ops, names, depth + 1, number, f)?;
                writeln!(f, "{:width$}}}", "", width = 2 * depth)?;
            }
        }
        Ok(())
    }
}

fn channels(table: &ChannelTable, f: &mut Formatter<'_>) -> fmt::Result {
    let numbers = |peers: &[u32], f: &mut Formatter<'_>| list(peers, f, |peer, f| write!(f, "{peer}"));
    match table {
        ChannelTable::Memory(peers) => {
            f.write_str("  channels memory")?;
            numbers(peers, f)?;
        }
        ChannelTable::Port(peers) => {
            f.write_str("  channels port")?;
            numbers(peers, f)?;
        }
        ChannelTable::Switch { buffer, groups } => {
            write!(f, "  channels switch {buffer}")?;
            list(groups, f, |group, f| {
                f.write_str("(")?;
                for (i, rank) in group.iter().enumerate() {
                    write!(f, "{}{rank}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            })?;
        }
    }
    f.write_str("\n")
}

/// The tables of a thread block that are stated, because they differ from what the operations name in their order.
struct Stated {
    channels: bool,
    buffers: bool,
}

impl Stated {
    fn of(names: &BlockNames<'_>) -> Self {
        let [mut channels, mut buffers] = [Uses::default(), Uses::default()];
        each_op(&names.block.ops, &mut |op| {
            names.uses(op, &mut |named| {
                match named {
                    Use::Channel(kind, number) => channels.position(kind, number),
                    Use::Buffer(kind, number) => buffers.position(kind, number),
                };
            });
        });
        Self {
            channels: channels.tables != names.block.channels,
            buffers: buffers.tables != names.block.remote_buffers,
        }
    }

    fn channels<'a>(&self, names: &'a BlockNames<'_>) -> &'a [(ChannelKind, crate::BlockTable)] {
        if self.channels { &names.block.channels } else { &[] }
    }

    fn buffers<'a>(&self, names: &'a BlockNames<'_>) -> &'a [(ChannelKind, crate::BlockTable)] {
        if self.buffers { &names.block.remote_buffers } else { &[] }
    }

    fn write(&self, names: &BlockNames<'_>, f: &mut Formatter<'_>) -> fmt::Result {
        for (kind, numbers) in self.channels(names) {
            write!(f, "    uses channels {kind}")?;
            list(numbers, f, |number, f| channel(names.rank, *kind, *number, f))?;
            f.write_str("\n")?;
        }
        for (kind, numbers) in self.buffers(names) {
            write!(f, "    uses buffers {kind}")?;
            list(numbers, f, |number, f| match names.rank.buffer(*number) {
                Some((rank, buffer)) => write!(f, "rank {rank} {buffer}"),
                None => write!(f, "#{number}"),
            })?;
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// Returns the tables of a rank that a reader derives from its switch channels and the lines of its thread blocks
/// alone, if these name channels to a peer in order.
fn derived(names: &RankNames<'_>, blocks: &[BlockNames<'_>], stated: &[Stated]) -> (RankTables, bool) {
    let (mut tables, mut in_order) = (RankTables::default(), true);
    let switches = names.tables.channels.iter().filter(|table| matches!(table, ChannelTable::Switch { .. }));
    switches.cloned().for_each(|table| tables.state_channels(table));
    for (names, stated) in blocks.iter().zip(stated) {
        let mut add = |named| {
            match named {
                Use::Channel(kind, number) => {
                    let peer = names.rank.peer(kind, number);
                    in_order &= peer.is_none_or(|peer| tables.channel(kind, peer).is_some());
                }
                Use::Buffer(kind, number) => {
                    names.rank.buffer(number).and_then(|name| tables.buffer(kind, name));
                }
            };
        };
        for (kind, numbers) in stated.channels(names) {
            numbers.iter().for_each(|number| add(Use::Channel(*kind, *number)));
        }
        for (kind, numbers) in stated.buffers(names) {
            numbers.iter().for_each(|number| add(Use::Buffer(*kind, *number)));
        }
        each_op(&names.block.ops, &mut |op| names.uses(op, &mut add));
    }
    (tables, in_order)
}

fn each_op(ops: &[Op], each: &mut dyn FnMut(&Op)) {
    for op in ops {
        each(op);
        each_op(op.body.as_ref().map_or(&[], |body| &body.ops), each);
    }
}

/// Writes a channel by its number in the rank's table.
fn channel(names: &RankNames<'_>, kind: ChannelKind, number: u32, f: &mut Formatter<'_>) -> fmt::Result {
    match names.peer(kind, number) {
        Some(peer) if peer.nth == 0 => write!(f, "rank {}", peer.rank),
        Some(peer) => write!(f, "rank {}.{}", peer.rank, peer.nth),
        None if kind == ChannelKind::Switch => write!(f, "{number}"),
        None => write!(f, "#{number}"),
    }
}

/// An operation on one line, without a pipeline's body.
pub struct Operation<'a> {
    /// The operation.
    pub op: &'a Op,
    /// The names in its thread block.
    pub names: &'a BlockNames<'a>,
}

impl Display for Operation<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let op = self.op;
        f.write_str(op.kind.name())?;
        if let Some(kind) = op.channel {
            write!(f, " {kind}")?;
        }
        if let Some(reduce) = op.reduce {
            write!(f, " {reduce}")?;
        }
        if op.srcs.is_empty() && op.dsts.is_empty() {
            self.ids(f)?;
        } else {
            list(&op.dsts, f, |at, f| self.operand(at, f))?;
            f.write_str(" <-")?;
            list(&op.srcs, f, |at, f| self.operand(at, f))?;
            if !op.ids.is_empty() {
                f.write_str(" via")?;
                self.ids(f)?;
            }
        }
        if op.num_blocks != 0 {
            write!(f, " blocks {}", op.num_blocks)?;
        }
        if let Some(slice) = op.slice {
            write!(f, " slice {}/{}", slice.index, slice.count)?;
        }
        if let Some(count) = op.count {
            write!(f, " count {} -> {}", count.sender, count.receiver)?;
        }
        match op.sync {
            BlockSync::None => {}
            BlockSync::Before => f.write_str(" sync before")?,
            BlockSync::After => f.write_str(" sync after")?,
            BlockSync::Both => f.write_str(" sync both")?,
        }
        if let Some(body) = &op.body {
            write!(f, " unit {} chunks {}", body.unit, body.num_chunks)?;
        }
        Ok(())
    }
}

impl Operation<'_> {
    fn ids(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let op = self.op;
        list(&op.ids, f, |id, f| {
            if op.kind.has_ids_of_rank() {
                return write!(f, "{id}");
            }
            match op.channel.and_then(|kind| Some((kind, self.names.channel(kind, *id)?))) {
                Some((kind, number)) => channel(self.names.rank, kind, number, f),
                None => write!(f, "#{id}"),
            }
        })
    }

    fn operand(&self, at: &Operand, f: &mut Formatter<'_>) -> fmt::Result {
        match at.buffer {
            BufferRef::Local(buffer) => write!(f, "{buffer}")?,
            BufferRef::Remote(position) => match self.names.named_buffer(self.op.channel, position) {
                Some((_, (rank, buffer))) => write!(f, "rank {rank} {buffer}")?,
                None => write!(f, "remote #{position}")?,
            },
            BufferRef::Switch(position) => match self.names.switch(position) {
                Some((number, buffer)) => write!(f, "multicast {number} {buffer}")?,
                None => write!(f, "multicast #{position}")?,
            },
        }
        Range(at.index, at.size).fmt(f)
    }
}
