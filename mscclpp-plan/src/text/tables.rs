//! Tables of a rank and of a thread block while they are read: stated by separate lines, or filled in the order in
//! which operations first name their entries.

use std::collections::BTreeMap;

use super::names::Peer;
use crate::types::{BufferKind, ChannelKind};
use crate::{BlockTable, BlockTables, ChannelTable, RemoteBuffer};

/// Channels and remote buffers of a rank.
#[derive(Default)]
pub(super) struct RankTables {
    pub(super) channels: Vec<ChannelTable>,
    pub(super) buffers: Vec<RemoteBuffer>,
    has_channel_lines: bool,
    has_buffer_lines: bool,
    numbers: BTreeMap<(ChannelKind, Peer), u32>,
    counts: BTreeMap<(ChannelKind, u32), u32>,
    by_name: BTreeMap<(u32, BufferKind), u32>,
    switches: Vec<BufferKind>,
}

impl RankTables {
    /// Adds a stated channel table.
    pub(super) fn state_channels(&mut self, table: ChannelTable) {
        let (kind, peers) = match &table {
            ChannelTable::Memory(peers) => (ChannelKind::Memory, peers.as_slice()),
            ChannelTable::Port(peers) => (ChannelKind::Port, peers.as_slice()),
            ChannelTable::Switch { buffer, groups } => {
                self.switches.extend(groups.iter().map(|_| *buffer));
                (ChannelKind::Switch, &[][..])
            }
        };
        self.has_channel_lines |= kind != ChannelKind::Switch;
        // Of several tables of a kind, the first counts.
        if !self.channels.iter().any(|table| kind_of(table) == kind) {
            for (number, &rank) in (0..).zip(peers) {
                let nth = self.counts.entry((kind, rank)).or_insert(0);
                self.numbers.insert((kind, Peer { rank, nth: *nth }), number);
                *nth += 1;
            }
        }
        self.channels.push(table);
    }

    /// Adds stated remote buffers.
    pub(super) fn state_buffers(&mut self, buffers: Vec<RemoteBuffer>) {
        self.has_buffer_lines = true;
        for buffer in buffers {
            self.by_name.entry((buffer.rank, buffer.buffer)).or_insert(self.buffers.len() as u32);
            self.buffers.push(buffer);
        }
    }

    /// Returns the number of a memory or port channel, which is added if no line states channels of these kinds. Added
    /// tables precede those of switch channels.
    pub(super) fn channel(&mut self, kind: ChannelKind, peer: Peer) -> Option<u32> {
        if let Some(number) = self.numbers.get(&(kind, peer)) {
            return Some(*number);
        }
        let count = self.counts.entry((kind, peer.rank)).or_insert(0);
        if self.has_channel_lines || peer.nth != *count {
            return None;
        }
        *count += 1;
        let found = self.channels.iter().position(|table| kind_of(table) == kind);
        let position = found.unwrap_or_else(|| {
            let added = self.channels.iter().filter(|table| kind_of(table) != ChannelKind::Switch).count();
            let table = if kind == ChannelKind::Port { ChannelTable::Port } else { ChannelTable::Memory };
            self.channels.insert(added, table(Vec::new()));
            added
        });
        let (ChannelTable::Memory(peers) | ChannelTable::Port(peers)) = self.channels.get_mut(position)? else {
            return None;
        };
        peers.push(peer.rank);
        let number = peers.len() as u32 - 1;
        self.numbers.insert((kind, peer), number);
        Some(number)
    }

    /// Returns the number of a remote buffer, which is added if no line states the buffers.
    pub(super) fn buffer(&mut self, kind: ChannelKind, (rank, buffer): (u32, BufferKind)) -> Option<u32> {
        let found = self.by_name.get(&(rank, buffer)).copied();
        if self.has_buffer_lines {
            return found;
        }
        let number = found.unwrap_or_else(|| {
            self.buffers.push(RemoteBuffer { rank, buffer, memory: false, port: false });
            self.by_name.insert((rank, buffer), self.buffers.len() as u32 - 1);
            self.buffers.len() as u32 - 1
        });
        let added = self.buffers.get_mut(number as usize)?;
        added.memory |= kind == ChannelKind::Memory;
        added.port |= kind == ChannelKind::Port;
        Some(number)
    }

    /// Returns the buffer of a switch channel.
    pub(super) fn switch(&self, number: u32) -> Option<BufferKind> {
        self.switches.get(number as usize).copied()
    }
}

fn kind_of(table: &ChannelTable) -> ChannelKind {
    match table {
        ChannelTable::Memory(_) => ChannelKind::Memory,
        ChannelTable::Port(_) => ChannelKind::Port,
        ChannelTable::Switch { .. } => ChannelKind::Switch,
    }
}

/// The channels, or remote buffers, that a thread block uses.
#[derive(Default)]
pub(super) struct Uses {
    pub(super) tables: BlockTables,
    has_lines: bool,
    positions: BTreeMap<(ChannelKind, u32), u32>,
}

impl Uses {
    /// Adds a stated table.
    pub(super) fn state(&mut self, kind: ChannelKind, numbers: BlockTable) {
        self.has_lines = true;
        if !self.tables.iter().any(|(other, _)| *other == kind) {
            for (position, number) in (0..).zip(&numbers) {
                self.positions.entry((kind, *number)).or_insert(position);
            }
        }
        self.tables.push((kind, numbers));
    }

    /// Returns the position of a number, which is added if no line states the tables.
    pub(super) fn position(&mut self, kind: ChannelKind, number: u32) -> Option<u32> {
        if let Some(position) = self.positions.get(&(kind, number)) {
            return Some(*position);
        }
        if self.has_lines {
            return None;
        }
        let found = self.tables.iter().position(|(other, _)| *other == kind);
        let at = found.unwrap_or_else(|| {
            self.tables.push((kind, BlockTable::new()));
            self.tables.len() - 1
        });
        let (_, numbers) = self.tables.get_mut(at)?;
        numbers.push(number);
        let position = numbers.len() as u32 - 1;
        self.positions.insert((kind, number), position);
        Some(position)
    }
}
