//! Writes a tree as a plan file.
//!
//! Keys are in the order in which the MSCCL++ DSL writes them; lists keep the order of the tree.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Style, chunking};
use crate::types::{BufferKind, ChannelKind};
use crate::{
    BufferRef, ChannelTable, Count, Expectation, IdList, LoopBody, Op, OpKind, Operand, PlanTree, RankPlan,
    RemoteBuffer, Slice, ThreadBlock,
};

pub(super) fn write(plan: &PlanTree, style: Style) -> String {
    let text = match style {
        Style::Pretty => serde_json::to_string_pretty(&File(plan)),
        Style::Compact => serde_json::to_string(&File(plan)),
    };
    text.expect("strings, numbers and string keys always have a JSON form")
}

struct File<'a>(&'a PlanTree);

impl Serialize for File<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plan = self.0;
        let collective = plan.collective;
        let ranks = plan.ranks.len() as u32;
        let counts = plan.ranks.first().map_or((0, 0), |rank| (rank.input_chunks, rank.output_chunks));
        let implied = chunking::collective(collective.kind.name(), counts, ranks);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &plan.name)?;
        map.serialize_entry("collective", collective.kind.name())?;
        map.serialize_entry("protocol", plan.protocol.name())?;
        map.serialize_entry("inplace", &collective.in_place)?;
        map.serialize_entry("reuse_resources", &plan.reuse_resources)?;
        map.serialize_entry("gpus", &list(&plan.ranks, |id, rank| Rank { id, rank }))?;
        map.serialize_entry("num_threads_per_block", &plan.threads_per_block)?;
        map.serialize_entry("use_double_scratch_buffer", &plan.double_scratch)?;
        map.serialize_entry("buffer_alignment", &plan.buffer_alignment)?;
        map.serialize_entry("min_message_size", &plan.min_message_size)?;
        map.serialize_entry("max_message_size", &plan.max_message_size)?;
        // Keys of this library, only if the other keys do not imply their values.
        if collective.root != 0 {
            map.serialize_entry("root", &collective.root)?;
        }
        if collective.chunk_factor != implied.chunk_factor {
            map.serialize_entry("chunk_factor", &collective.chunk_factor)?;
        }
        if plan.ranks_per_node != ranks {
            map.serialize_entry("ranks_per_node", &plan.ranks_per_node)?;
        }
        if !plan.tags.is_empty() {
            map.serialize_entry("tags", &plan.tags)?;
        }
        if !plan.expectations.is_empty() {
            map.serialize_entry("expectations", &list(&plan.expectations, |_, expectation| Expected(expectation)))?;
        }
        if collective.dividing {
            map.serialize_entry("dividing", &true)?;
        }
        if collective.rows {
            map.serialize_entry("rows", &true)?;
        }
        map.end()
    }
}

/// The elements of a slice, each converted before it is written.
struct List<'a, T, F> {
    items: &'a [T],
    write: F,
}

fn list<'a, T, W: Serialize, F: Fn(usize, &'a T) -> W>(items: &'a [T], write: F) -> List<'a, T, F> {
    List { items, write }
}

impl<'a, T, W: Serialize, F: Fn(usize, &'a T) -> W> Serialize for List<'a, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items.iter().enumerate().map(|(i, item)| (self.write)(i, item)))
    }
}

struct Rank<'a> {
    id: usize,
    rank: &'a RankPlan,
}

impl Serialize for Rank<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, rank } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", id)?;
        map.serialize_entry("input_chunks", &rank.input_chunks)?;
        map.serialize_entry("output_chunks", &rank.output_chunks)?;
        map.serialize_entry("scratch_chunks", &rank.scratch_chunks)?;
        map.serialize_entry(
            "threadblocks",
            &list(&rank.blocks, |block_id, block| Block { rank: *id, tables: rank, id: block_id, block }),
        )?;
        map.serialize_entry("channels", &list(&rank.channels, |_, table| Channels(table)))?;
        map.serialize_entry("remote_buffers", &list(&rank.remote_buffers, |_, buffer| Remote(buffer)))?;
        map.serialize_entry("semaphores", &list(&rank.semaphores, |_, value| Object([("init_value", *value)])))?;
        map.end()
    }
}

struct Expected<'a>(&'a Expectation);

impl Serialize for Expected<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Expectation { rank, chunk, len, inputs, .. } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rank", rank)?;
        map.serialize_entry("index", chunk)?;
        map.serialize_entry("size", len)?;
        let input = |_: usize, &(rank, chunk): &(u32, u32)| Object([("rank", rank), ("index", chunk)]);
        map.serialize_entry("inputs", &list(inputs, input))?;
        map.end()
    }
}

/// An object whose values are of one type.
struct Object<T, const N: usize>([(&'static str, T); N]);

impl<T: Serialize, const N: usize> Serialize for Object<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

struct Channels<'a>(&'a ChannelTable);

impl Serialize for Channels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let (kind, peers) = match self.0 {
            ChannelTable::Memory(peers) => (ChannelKind::Memory, peers),
            ChannelTable::Port(peers) => (ChannelKind::Port, peers),
            ChannelTable::Switch { buffer, groups } => {
                map.serialize_entry("channel_type", ChannelKind::Switch.name())?;
                map.serialize_entry("buffer_type", buffer.letter())?;
                map.serialize_entry("rank_groups", &list(groups, |_, ranks| Group(ranks)))?;
                return map.end();
            }
        };
        map.serialize_entry("channel_type", kind.name())?;
        map.serialize_entry("connected_to", peers)?;
        map.end()
    }
}

struct Group<'a>(&'a [u32]);

impl Serialize for Group<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("size", &self.0.len())?;
        map.serialize_entry("ranks", self.0)?;
        map.end()
    }
}

struct Remote<'a>(&'a RemoteBuffer);

impl Serialize for Remote<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let buffer = self.0;
        let access: &[&str] = match (buffer.memory, buffer.port) {
            (true, true) => &["memory", "port"],
            (true, false) => &["memory"],
            (false, true) => &["port"],
            (false, false) => &[],
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rank", &buffer.rank)?;
        map.serialize_entry("type", buffer.buffer.letter())?;
        map.serialize_entry("access_channel_types", access)?;
        map.end()
    }
}

#[derive(Clone, Copy)]
struct Block<'a> {
    rank: usize,
    tables: &'a RankPlan,
    id: usize,
    block: &'a ThreadBlock,
}

impl Serialize for Block<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let block = self.block;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("ops", &self.operations(&block.ops))?;
        map.serialize_entry(
            "channels",
            &list(&block.channels, |_, (kind, ids)| Table { kind: ("channel_type", *kind), ids: ("channel_ids", ids) }),
        )?;
        map.serialize_entry(
            "remote_buffer_refs",
            &list(&block.remote_buffers, |_, (kind, ids)| Table {
                kind: ("access_channel_type", *kind),
                ids: ("remote_buffer_ids", ids),
            }),
        )?;
        map.end()
    }
}

impl<'a> Block<'a> {
    fn operations(self, ops: &'a [Op]) -> impl Serialize + use<'a> {
        list(ops, move |_, op| Operation { block: self, op })
    }

    /// Returns the buffer of one of the block's switch channels; input if there is no such channel.
    fn switch_buffer(&self, channel: u32) -> BufferKind {
        let number = self.block.channels(ChannelKind::Switch).get(channel as usize);
        let channel = number.and_then(|number| self.tables.switch_channels().nth(*number as usize));
        channel.map_or(BufferKind::Input, |(buffer, _)| buffer)
    }
}

struct Table<'a> {
    kind: (&'static str, ChannelKind),
    ids: (&'static str, &'a [u32]),
}

impl Serialize for Table<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.kind.0, self.kind.1.name())?;
        map.serialize_entry(self.ids.0, self.ids.1)?;
        map.end()
    }
}

struct Operation<'a> {
    block: Block<'a>,
    op: &'a Op,
}

impl Serialize for Operation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { block, op } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", op.kind.name())?;
        if op.kind == OpKind::SwitchReduce {
            self.switch_reduce(&mut map)?;
        } else if op.kind.is_data() {
            let is_broadcast = op.channel == Some(ChannelKind::Switch) && !op.kind.is_reduce();
            let rank = is_broadcast.then_some(block.rank);
            map.serialize_entry("src_buff", &list(&op.srcs, |_, at| Reference { rank, at }))?;
            map.serialize_entry("dst_buff", &list(&op.dsts, |_, at| Reference { rank: None, at }))?;
        }
        if op.kind.lists_channels(op.channel) {
            map.serialize_entry("channel_ids", &op.ids[..])?;
        }
        if let Some(kind) = op.channel {
            map.serialize_entry("channel_type", kind.name())?;
        }
        if let Some(reduce) = op.reduce {
            map.serialize_entry("reduce_op", reduce.name())?;
        }
        if let Some(Slice { index, count: of }) = op.slice {
            map.serialize_entry("tbg_info", &Object([("tb_id", index), ("tbg_size", of)]))?;
        }
        if let Some(Count { sender, receiver }) = op.count {
            map.serialize_entry("count", &Object([("sender", sender), ("receiver", receiver)]))?;
        }
        match op.kind.ids() {
            IdList::Barrier => {
                map.serialize_entry("barrier_id", &op.ids.first().copied().unwrap_or(0))?;
                map.serialize_entry("num_threadblocks", &op.num_blocks)?;
            }
            IdList::Semaphores => map.serialize_entry("semaphore_ids", &op.ids[..])?,
            IdList::Nothing | IdList::Channels | IdList::ChannelPerPair | IdList::ChannelPerPortDestination => {}
        }
        if let Some(body) = &op.body {
            let LoopBody { unit, num_chunks, ops } = &**body;
            map.serialize_entry(
                "iter_context",
                &Object([("unit_size", *unit), ("num_chunks", u64::from(*num_chunks))]),
            )?;
            map.serialize_entry("ops", &block.operations(ops))?;
        }
        map.end()
    }
}

impl Operation<'_> {
    /// Writes the window of a `glre`, which has separate keys.
    fn switch_reduce<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let source = self.op.srcs.first().copied().unwrap_or(Operand::local(BufferKind::Input, 0, 0));
        let channel = match source.buffer {
            BufferRef::Switch(channel) => channel,
            _ => 0,
        };
        map.serialize_entry("buffer_type", self.block.switch_buffer(channel).letter())?;
        map.serialize_entry("buffer_offset", &source.index)?;
        map.serialize_entry("size", &source.size)?;
        if let Some(at) = self.op.dsts.first() {
            map.serialize_entry("dst_chunk", &Reference { rank: Some(self.block.rank), at })?;
        }
        map.serialize_entry("channel_ids", &[channel])
    }
}

struct Reference<'a> {
    /// Written if the format has it.
    rank: Option<usize>,
    at: &'a Operand,
}

impl Serialize for Reference<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(rank) = self.rank {
            map.serialize_entry("rank", &rank)?;
        }
        match self.at.buffer {
            BufferRef::Local(buffer) => map.serialize_entry("type", buffer.letter())?,
            BufferRef::Remote(number) => map.serialize_entry("buffer_id", &number)?,
            BufferRef::Switch(number) => map.serialize_entry("switch_channel_id", &number)?,
        }
        map.serialize_entry("index", &self.at.index)?;
        map.serialize_entry("size", &self.at.size)?;
        map.end()
    }
}
