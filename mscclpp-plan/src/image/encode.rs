//! Encodes a tree as an image.

use super::hash::hash;
use super::layout::*;
use crate::collective::CollectiveKind;
use crate::types::ChannelKind;
use crate::{BlockTable, BufferRef, ChannelTable, Expectation, LoopBody, Op, Operand, PlanTree, RankPlan};

/// Returns the image of a plan.
pub(super) fn encode(plan: &PlanTree) -> Vec<u8> {
    let mut out = vec![0; HEADER + 8 * (plan.ranks.len() + 1)];
    header(plan, &mut out);
    out.extend_from_slice(plan.name.as_bytes());
    let tags = out.len();
    for (key, value) in &plan.tags {
        out.extend_from_slice(&value.to_le_bytes());
        out.extend_from_slice(&(key.len() as u64).to_le_bytes());
        out.extend_from_slice(key.as_bytes());
    }
    let tags = (out.len() - tags) as u64;
    put(&mut out, TAGS_LENGTH, &tags.to_le_bytes());
    let expected = out.len();
    if !plan.expectations.is_empty() {
        push_words(&mut out, &expectations(&plan.expectations));
    }
    let expected = (out.len() - expected) as u64;
    put(&mut out, EXPECTED_LENGTH, &expected.to_le_bytes());
    for (rank, tree) in plan.ranks.iter().enumerate() {
        let start = out.len() as u64;
        put(&mut out, HEADER + 8 * rank, &start.to_le_bytes());
        push_words(&mut out, &Section::new(tree).words());
    }
    let end = out.len() as u64;
    put(&mut out, HEADER + 8 * plan.ranks.len(), &end.to_le_bytes());
    out.extend_from_slice(&[0; PADDING]);
    let length = out.len() as u64;
    put(&mut out, LENGTH, &length.to_le_bytes());
    let hash = hash(&out);
    put(&mut out, HASH, &hash.to_le_bytes());
    out
}

fn header(plan: &PlanTree, out: &mut [u8]) {
    let collective = &plan.collective;
    let (kind, input, output) = kind_number(collective.kind);
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    put(out, 0, &MAGIC);
    put(out, VERSION, &FORMAT.to_le_bytes());
    put(out, RANKS, &(plan.ranks.len() as u32).to_le_bytes());
    put(out, RANKS_PER_NODE, &plan.ranks_per_node.to_le_bytes());
    put(out, KIND, &[kind]);
    put(out, PROTOCOL, &[plan.protocol as u8]);
    put(
        out,
        FLAGS,
        &[flag(collective.in_place, IN_PLACE)
            | flag(plan.reuse_resources, REUSE_RESOURCES)
            | flag(plan.double_scratch, DOUBLE_SCRATCH)
            | flag(collective.dividing, DIVIDING)
            | flag(collective.rows, ROWS)],
    );
    put(out, KIND_INPUT, &input.to_le_bytes());
    put(out, KIND_OUTPUT, &output.to_le_bytes());
    put(out, CHUNK_FACTOR, &collective.chunk_factor.to_le_bytes());
    put(out, ROOT, &collective.root.to_le_bytes());
    put(out, THREADS, &plan.threads_per_block.to_le_bytes());
    put(out, ALIGNMENT, &plan.buffer_alignment.to_le_bytes());
    put(out, MIN_SIZE, &plan.min_message_size.to_le_bytes());
    put(out, MAX_SIZE, &plan.max_message_size.to_le_bytes());
    put(out, NAME_LENGTH, &(plan.name.len() as u64).to_le_bytes());
}

/// Returns the words of the expectations.
fn expectations(list: &[Expectation]) -> Vec<u64> {
    let mut words = Vec::new();
    for Expectation { rank, chunk, len, inputs, .. } in list {
        words.extend([*rank, *chunk, *len].map(u64::from));
        words.push(inputs.len() as u64);
        words.extend(inputs.iter().flat_map(|&(rank, chunk)| [rank, chunk]).map(u64::from));
    }
    words
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Numbers of the collectives that have chunk counts of their own.
pub(super) const WITH_CHUNK_COUNTS: std::ops::RangeInclusive<u8> = 7..=8;

/// Returns a collective's number and its own chunk counts.
fn kind_number(kind: CollectiveKind) -> (u8, u32, u32) {
    match kind {
        CollectiveKind::AllReduce => (0, 0, 0),
        CollectiveKind::AllGather => (1, 0, 0),
        CollectiveKind::ReduceScatter => (2, 0, 0),
        CollectiveKind::AllToAll => (3, 0, 0),
        CollectiveKind::SendRecv => (4, 0, 0),
        CollectiveKind::Broadcast => (5, 0, 0),
        CollectiveKind::Reduce => (6, 0, 0),
        CollectiveKind::Custom { input, output } => (7, input, output),
        CollectiveKind::Test { input, output } => (8, input, output),
        CollectiveKind::AllToAllV => (9, 0, 0),
    }
}

/// Returns the collective with a number.
pub(super) fn kind_of_number(kind: u8, input: u32, output: u32) -> Option<CollectiveKind> {
    Some(match kind {
        0 => CollectiveKind::AllReduce,
        1 => CollectiveKind::AllGather,
        2 => CollectiveKind::ReduceScatter,
        3 => CollectiveKind::AllToAll,
        4 => CollectiveKind::SendRecv,
        5 => CollectiveKind::Broadcast,
        6 => CollectiveKind::Reduce,
        7 => CollectiveKind::Custom { input, output },
        8 => CollectiveKind::Test { input, output },
        9 => CollectiveKind::AllToAllV,
        _ => return None,
    })
}

/// The tables of a rank's section while they are built.
#[derive(Default)]
struct Section {
    head: Vec<u64>,
    channels: Vec<u64>,
    remote: Vec<u64>,
    semaphores: Vec<u64>,
    blocks: Vec<u64>,
    tables: Vec<u64>,
    ops: Vec<u64>,
    refs: Vec<u64>,
    numbers: Vec<u64>,
}

impl Section {
    fn new(rank: &RankPlan) -> Self {
        let head = [rank.input_chunks, rank.output_chunks, rank.scratch_chunks].map(u64::from);
        let mut section = Self { head: head.to_vec(), ..Self::default() };
        for table in &rank.channels {
            section.channel_table(table);
        }
        for buffer in &rank.remote_buffers {
            let access = |set: bool, bit: u64| if set { bit } else { 0 };
            section.remote.extend([
                u64::from(buffer.rank),
                buffer.buffer as u64 | access(buffer.memory, ACCESS_MEMORY) | access(buffer.port, ACCESS_PORT),
            ]);
        }
        // Zigzag, so that small negative values stay small.
        section.semaphores = rank.semaphores.iter().map(|value| ((value << 1) ^ (value >> 63)) as u64).collect();
        for block in &rank.blocks {
            let (first_op, first_table) = (section.ops.len() / OP, section.tables.len() / TABLE);
            block.ops.iter().for_each(|op| section.op(op));
            section.block_tables(&block.channels);
            section.block_tables(&block.remote_buffers);
            section.blocks.extend(
                [
                    first_op,
                    section.ops.len() / OP - first_op,
                    first_table,
                    block.channels.len(),
                    block.remote_buffers.len(),
                ]
                .map(|number| number as u64),
            );
        }
        section
    }

    fn channel_table(&mut self, table: &ChannelTable) {
        let first = self.numbers.len() as u64;
        let (tag, length) = match table {
            ChannelTable::Memory(peers) => (TAG_MEMORY, self.list(peers)),
            ChannelTable::Port(peers) => (TAG_PORT, self.list(peers)),
            ChannelTable::Switch { buffer, groups } => {
                self.numbers.extend(groups.iter().map(|group| group.len() as u64));
                groups.iter().for_each(|group| {
                    self.list(group);
                });
                (TAG_SWITCH + *buffer as u64, groups.len())
            }
        };
        self.channels.extend([tag, first, length as u64]);
    }

    fn list(&mut self, numbers: &[u32]) -> usize {
        for number in numbers {
            self.numbers.push(u64::from(*number));
        }
        numbers.len()
    }

    fn block_tables(&mut self, tables: &[(ChannelKind, BlockTable)]) {
        for (kind, ids) in tables {
            let first = self.numbers.len() as u64;
            let length = self.list(ids) as u64;
            self.tables.extend([*kind as u64, first, length]);
        }
    }

    fn op(&mut self, op: &Op) {
        let first_ref = (self.refs.len() / REF) as u64;
        let first_number = self.numbers.len() as u64;
        let mut attributes = op.channel.map_or(0, |kind| kind as u64 + 1)
            | op.reduce.map_or(0, |reduce| reduce as u64 + 1) << REDUCE_SHIFT
            | (op.sync as u64) << SYNC_SHIFT;
        for references in [&op.srcs, &op.dsts] {
            for reference in references {
                self.reference(reference);
            }
        }
        self.list(&op.ids);
        if let Some(slice) = op.slice {
            attributes |= HAS_SLICE;
            self.list(&[slice.index, slice.count]);
        }
        if let Some(count) = op.count {
            attributes |= HAS_COUNT;
            self.list(&[count.sender, count.receiver]);
        }
        if op.num_blocks != 0 {
            attributes |= HAS_BLOCKS;
            self.list(&[op.num_blocks]);
        }
        if op.body.is_some() {
            attributes |= HAS_BODY;
        }
        self.ops.extend_from_slice(&[
            op.kind as u64,
            attributes,
            op.srcs.len() as u64,
            op.dsts.len() as u64,
            op.ids.len() as u64,
            first_ref,
            first_number,
        ]);
        if let Some(body) = &op.body {
            self.body(body);
        }
    }

    fn body(&mut self, body: &LoopBody) {
        self.numbers.extend([body.unit, u64::from(body.num_chunks), 0]);
        let length = self.numbers.len() - 1;
        let first = self.ops.len();
        body.ops.iter().for_each(|op| self.op(op));
        self.numbers[length] = ((self.ops.len() - first) / OP) as u64;
    }

    fn reference(&mut self, reference: &Operand) {
        let place = match reference.buffer {
            BufferRef::Local(buffer) => buffer as u64,
            BufferRef::Remote(number) => PLACE_REMOTE + 2 * u64::from(number),
            BufferRef::Switch(number) => PLACE_SWITCH + 2 * u64::from(number),
        };
        self.refs.extend_from_slice(&[place, u64::from(reference.index), u64::from(reference.size)]);
    }

    fn words(mut self) -> Vec<u64> {
        let entries = [
            self.channels.len() / CHANNELS,
            self.remote.len() / REMOTE,
            self.semaphores.len(),
            self.blocks.len() / BLOCK,
            self.tables.len() / TABLE,
            self.ops.len() / OP,
            self.refs.len() / REF,
        ];
        let mut words = std::mem::take(&mut self.head);
        words.extend(entries.map(|number| number as u64));
        for table in
            [self.channels, self.remote, self.semaphores, self.blocks, self.tables, self.ops, self.refs, self.numbers]
        {
            words.extend(table);
        }
        words
    }
}
