//! Ranks and thread blocks of a plan file.

use super::context::ReadState;
use super::lexer::Stop;
use super::ops::objects;
use super::value::{Fields, Read};
use crate::diag::Code;
use crate::types::{BufferKind, ChannelKind};
use crate::{BlockTables, ChannelTable, Op, RankPlan, RemoteBuffer, ThreadBlock};

/// The keys of a rank.
#[derive(Default)]
struct RawRank {
    id: u32,
    rank: RankPlan,
    channels: Vec<RawChannels>,
    remote_buffers: Vec<RawRemote>,
    semaphores: Vec<RawSemaphore>,
}

impl Fields for RawRank {
    const KEYS: &'static [&'static str] = &[
        "id",
        "input_chunks",
        "output_chunks",
        "scratch_chunks",
        "threadblocks",
        "channels",
        "remote_buffers",
        "semaphores",
    ];

    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
        match key {
            0 => cx.read(&mut self.id)?,
            1 => cx.read(&mut self.rank.input_chunks)?,
            2 => cx.read(&mut self.rank.output_chunks)?,
            3 => cx.read(&mut self.rank.scratch_chunks)?,
            4 => cx.read(&mut self.rank.blocks)?,
            5 => cx.read(&mut self.channels)?,
            6 => cx.read(&mut self.remote_buffers)?,
            _ => cx.read(&mut self.semaphores)?,
        }
        Ok(())
    }
}

impl Read for RankPlan {
    const WANT: &'static str = "a rank: an object with \"id\" and \"threadblocks\"";

    fn fallback() -> Self {
        Self::default()
    }

    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        let position = cx.position();
        cx.rank = position as u32;
        let mut raw = RawRank::default();
        let seen = cx.fields(&mut raw)?;
        cx.require(RawRank::KEYS, 0b111_1111, seen, "rank");
        if seen & 1 != 0 && raw.id as usize != position {
            cx.error(
                Code::InconsistentValue,
                format!("expected id {position} for the rank at position {position}, found {}", raw.id),
            );
        }
        let mut rank = raw.rank;
        raw.channels.into_iter().for_each(|table| table.add_to(&mut rank.channels));
        rank.remote_buffers = raw.remote_buffers.into_iter().map(RawRemote::build).collect();
        rank.semaphores = raw.semaphores.into_iter().map(|semaphore| semaphore.init_value).collect();
        cx.check_switch_buffers(&rank);
        *self = rank;
        Ok(true)
    }
}

/// One of a rank's channel tables.
struct RawChannels {
    kind: ChannelKind,
    peers: Vec<u32>,
    buffer: BufferKind,
    groups: Vec<RawGroup>,
}

impl RawChannels {
    /// Adds the table. Memory and port channels are numbered across all tables of their kind, so those tables are
    /// merged into one.
    fn add_to(self, tables: &mut Vec<ChannelTable>) {
        let found = tables.iter_mut().find_map(|table| match (table, self.kind) {
            (ChannelTable::Memory(peers), ChannelKind::Memory) => Some(peers),
            (ChannelTable::Port(peers), ChannelKind::Port) => Some(peers),
            _ => None,
        });
        match (found, self.kind) {
            (Some(peers), _) => peers.extend(self.peers),
            (None, ChannelKind::Memory) => tables.push(ChannelTable::Memory(self.peers)),
            (None, ChannelKind::Port) => tables.push(ChannelTable::Port(self.peers)),
            (None, ChannelKind::Switch) => {
                let groups = self.groups.into_iter().map(|group| group.ranks).collect();
                tables.push(ChannelTable::Switch { buffer: self.buffer, groups });
            }
        }
    }
}

impl Fields for RawChannels {
    const KEYS: &'static [&'static str] = &["channel_type", "connected_to", "buffer_type", "rank_groups"];

    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
        match key {
            0 => cx.read(&mut self.kind)?,
            1 => cx.read(&mut self.peers)?,
            2 => cx.read(&mut self.buffer)?,
            _ => cx.read(&mut self.groups)?,
        }
        Ok(())
    }
}

impl Read for RawChannels {
    const WANT: &'static str = "channels: an object with \"channel_type\"";

    fn fallback() -> Self {
        Self { kind: ChannelKind::Memory, peers: Vec::new(), buffer: BufferKind::Scratch, groups: Vec::new() }
    }

    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        let seen = cx.fields(self)?;
        let (needs, what) = match self.kind {
            ChannelKind::Switch => (0b1101, "channel table of type switch"),
            _ => (0b0011, "channel table of type memory or port"),
        };
        cx.require(Self::KEYS, if seen & 1 == 0 { 1 } else { needs }, seen, what);
        for (key, name) in Self::KEYS.iter().enumerate() {
            if seen & !needs & 1 << key != 0 {
                cx.unknown_key(name, format!("the key \"{name}\" has no meaning on a {what} and is ignored"));
            }
        }
        Ok(true)
    }
}

/// The members of a switch channel.
struct RawGroup {
    size: u32,
    ranks: Vec<u32>,
}

impl Fields for RawGroup {
    const KEYS: &'static [&'static str] = &["size", "ranks"];

    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
        match key {
            0 => cx.read(&mut self.size)?,
            _ => cx.read(&mut self.ranks)?,
        }
        Ok(())
    }
}

impl Read for RawGroup {
    const WANT: &'static str = "a group: an object with \"size\" and \"ranks\"";

    fn fallback() -> Self {
        Self { size: 0, ranks: Vec::new() }
    }

    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        let seen = cx.fields(self)?;
        cx.require(Self::KEYS, 0b11, seen, "group");
        if seen == 0b11 && self.size as usize != self.ranks.len() {
            cx.error(
                Code::InconsistentValue,
                format!("expected {} ranks in a group of this size, found {}", self.size, self.ranks.len()),
            );
        }
        Ok(true)
    }
}

struct RawRemote {
    rank: u32,
    buffer: BufferKind,
    access: Vec<Access>,
}

impl RawRemote {
    fn build(self) -> RemoteBuffer {
        let through = |kind| self.access.iter().any(|access| access.0 == kind);
        RemoteBuffer {
            rank: self.rank,
            buffer: self.buffer,
            memory: through(ChannelKind::Memory),
            port: through(ChannelKind::Port),
        }
    }
}

/// A channel kind that accesses remote buffers.
struct Access(ChannelKind);

impl Read for Access {
    const WANT: &'static str = "\"memory\" or \"port\"";

    fn fallback() -> Self {
        Self(ChannelKind::Memory)
    }

    fn from_str(name: &str, cx: &mut ReadState<'_>) -> Option<Self> {
        match ChannelKind::from_name(name) {
            Some(ChannelKind::Switch) | None => {
                super::names::unknown(name, "a channel type for remote buffers", &["memory", "port"], cx);
                Some(Self::fallback())
            }
            Some(kind) => Some(Self(kind)),
        }
    }
}

struct RawSemaphore {
    init_value: i64,
}

/// The keys of a thread block.
struct RawBlock {
    id: u32,
    ops: Vec<Op>,
    channels: Vec<RawTable>,
    remote_buffers: Vec<RawAccessTable>,
}

/// Channels of a thread block.
struct RawTable {
    kind: ChannelKind,
    ids: Vec<u32>,
}

/// Remote buffers of a thread block.
struct RawAccessTable {
    kind: Access,
    ids: Vec<u32>,
}

objects! {
    RawRemote, "a remote buffer: an object with \"rank\" and \"type\"", "remote buffer", 0b111,
        Self { rank: 0, buffer: BufferKind::Scratch, access: Vec::new() },
        { "rank" => rank, "type" => buffer, "access_channel_types" => access, };
    RawSemaphore, "a semaphore: an object with \"init_value\"", "semaphore", 0b1, Self { init_value: 0 },
        { "init_value" => init_value, };
    RawTable, "channels: an object with \"channel_type\" and \"channel_ids\"", "channel table", 0b11,
        Self { kind: ChannelKind::Memory, ids: Vec::new() },
        { "channel_type" => kind, "channel_ids" => ids, };
    RawAccessTable, "remote buffers: an object with \"access_channel_type\" and \"remote_buffer_ids\"",
        "remote buffer table", 0b11, Self { kind: Access(ChannelKind::Memory), ids: Vec::new() },
        { "access_channel_type" => kind, "remote_buffer_ids" => ids, };
}

impl Fields for RawBlock {
    const KEYS: &'static [&'static str] = &["id", "ops", "channels", "remote_buffer_refs"];

    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
        match key {
            0 => cx.read(&mut self.id)?,
            1 => cx.read(&mut self.ops)?,
            2 => cx.read(&mut self.channels)?,
            _ => cx.read(&mut self.remote_buffers)?,
        }
        Ok(())
    }
}

impl Read for ThreadBlock {
    const WANT: &'static str = "a thread block: an object with \"id\" and \"ops\"";

    fn fallback() -> Self {
        Self::default()
    }

    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        let position = cx.position();
        cx.block = position;
        let mut raw = RawBlock { id: 0, ops: Vec::new(), channels: Vec::new(), remote_buffers: Vec::new() };
        let seen = cx.fields(&mut raw)?;
        cx.require(RawBlock::KEYS, 0b111, seen, "thread block");
        if seen & 1 != 0 && raw.id as usize != position {
            cx.error(
                Code::InconsistentValue,
                format!("expected id {position} for the thread block at position {position}, found {}", raw.id),
            );
        }
        *self = Self {
            ops: raw.ops,
            channels: merge(raw.channels.into_iter().map(|table| (table.kind, table.ids))),
            remote_buffers: merge(raw.remote_buffers.into_iter().map(|table| (table.kind.0, table.ids))),
        };
        Ok(true)
    }
}

/// Merges tables of one kind, whose positions continue from table to table.
fn merge(tables: impl Iterator<Item = (ChannelKind, Vec<u32>)>) -> BlockTables {
    let mut merged = BlockTables::new();
    for (kind, ids) in tables {
        match merged.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => known.extend(ids),
            None => merged.push((kind, ids.into())),
        }
    }
    merged
}
