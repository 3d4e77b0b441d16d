//! Declarations of a program: ranks, buffers, channels, semaphores, groups.

use std::rc::Rc;

use super::{Recorder, describe_buffer};
use crate::diag::Code;
use crate::dsl::value::{BufferValue, ChannelValue, ChunkValue, GroupValue, POISON, RangeValue, SwitchValue};
use crate::plan::{ChannelTable, RemoteBuffer};
use crate::types::{BufferKind, ChannelKind};

/// Initial capacity of a rank's tables: mostly the number of ranks in a node.
const MIN_CAPACITY: usize = 8;

/// A switch channel of the program.
pub(super) struct Switch {
    pub(super) buffer: BufferKind,
    /// Member ranks, and for each the rank-level number of the channel.
    pub(super) members: Vec<(u32, u32)>,
}

impl Recorder {
    /// Returns the number of a rank, or poison and a diagnostic.
    pub(in crate::dsl) fn rank(&mut self, id: usize) -> u32 {
        self.rank_number(id as i128)
    }

    pub(super) fn rank_number(&mut self, id: i128) -> u32 {
        let ranks = self.spec().num_ranks;
        match u32::try_from(id) {
            Ok(id) if self.is_rejected(id) => POISON,
            // There are no tables if the specification is rejected, which says enough.
            Ok(id) if id < ranks && self.trace.ranks.is_empty() => POISON,
            Ok(id) if id < ranks => id,
            _ => {
                self.report_error(
                    Code::RankOutOfRange,
                    format!("expected a rank in 0..{ranks}, found {id}"),
                    format!(
                        "use a rank from 0 to {}; around a ring, `(rank.id() + 1) % p.num_ranks()`",
                        ranks.saturating_sub(1)
                    ),
                );
                POISON
            }
        }
    }

    /// Returns whether a number is that of a rejected rank, of which there is a finding. Programs can state the same number.
    pub(super) fn is_rejected(&self, id: u32) -> bool {
        id == POISON && !self.diagnostics.is_empty()
    }

    pub(in crate::dsl) fn buffer(&mut self, rank: u32, buffer: BufferKind) -> BufferValue {
        let Some(table) = self.trace.ranks.get(rank as usize) else {
            return BufferValue::poison(buffer);
        };
        let len = match buffer {
            BufferKind::Input => table.input_chunks,
            BufferKind::Output => table.output_chunks,
            BufferKind::Scratch => table.scratch_chunks,
        };
        BufferValue { rank, buffer, start: 0, len }
    }

    pub(in crate::dsl) fn scratch(&mut self, rank: u32, chunks: usize) -> BufferValue {
        let buffer = BufferKind::Scratch;
        let instances = self.spec().instances.max(1);
        let Some(table) = self.trace.ranks.get_mut(rank as usize) else {
            return BufferValue::poison(buffer);
        };
        let start = table.scratch_chunks;
        if chunks == 0 {
            self.report_error(
                Code::EmptyChunk,
                format!("rank {rank} allocates 0 chunks of scratch"),
                "allocate at least one chunk, or remove the allocation",
            );
            return BufferValue::poison(buffer);
        }
        let total = u32::try_from(chunks).ok().and_then(|chunks| start.checked_add(chunks));
        match total.filter(|total| total.checked_mul(instances).is_some()) {
            Some(total) => {
                table.scratch_chunks = total;
                BufferValue { rank, buffer, start, len: total - start }
            }
            None => {
                self.report_error(
                    Code::TooLarge,
                    format!(
                        "rank {rank} allocates {chunks} chunks of scratch after {start} others, for each of \
                         {instances} instances: more than 2^32 - 1"
                    ),
                    "the argument counts chunks, not bytes: allocate the number of chunks that the program names",
                );
                BufferValue::poison(buffer)
            }
        }
    }

    pub(in crate::dsl) fn chunk(&mut self, buffer: BufferValue, range: RangeValue) -> ChunkValue {
        if buffer.rank == POISON {
            return ChunkValue::POISON;
        }
        let what = || match buffer.buffer {
            BufferKind::Scratch => format!("this scratch of rank {}", buffer.rank),
            kind => describe_buffer(kind, buffer.rank),
        };
        let more = match buffer.buffer {
            BufferKind::Scratch => "allocate more scratch",
            _ => "a larger `chunk_factor`",
        };
        match self.range(what, buffer.len, range, more) {
            Some((start, size)) => {
                ChunkValue { rank: buffer.rank, buffer: buffer.buffer, index: buffer.start + start, size }
            }
            None => ChunkValue::POISON,
        }
    }

    pub(in crate::dsl) fn channel(&mut self, kind: ChannelKind, src: u32, peer: i128) -> ChannelValue {
        let dst = if src == POISON { POISON } else { self.rank_number(peer) };
        if dst == POISON {
            return ChannelValue { kind, src: POISON, dst, id: 0 };
        }
        if src == dst {
            self.report_error(
                Code::SelfChannel,
                format!("rank {src} creates a {kind} channel to itself"),
                "skip the rank itself, as in `.filter(|peer| *peer != rank)`; copy data within the rank with \
                 `rank.copy`",
            );
            return ChannelValue { kind, src: POISON, dst, id: 0 };
        }
        let channels = &mut self.trace.ranks[src as usize].channels;
        let peers = channels.iter_mut().find_map(|table| match (table, kind) {
            (ChannelTable::Memory(peers), ChannelKind::Memory) | (ChannelTable::Port(peers), ChannelKind::Port) => {
                Some(peers)
            }
            _ => None,
        });
        let id = match peers {
            Some(peers) => {
                peers.push(dst);
                peers.len() as u32 - 1
            }
            None => {
                // Memory and port tables are before switch tables, as in plan JSON.
                let mut peers = Vec::with_capacity(MIN_CAPACITY);
                peers.push(dst);
                let table = match kind {
                    ChannelKind::Port => ChannelTable::Port(peers),
                    _ => ChannelTable::Memory(peers),
                };
                let position = channels.iter().position(|table| matches!(table, ChannelTable::Switch { .. }));
                channels.insert(position.unwrap_or(channels.len()), table);
                0
            }
        };
        ChannelValue { kind, src, dst, id }
    }

    pub(in crate::dsl) fn channels(&mut self, kind: ChannelKind, src: u32, peers: &[i128]) -> Vec<ChannelValue> {
        peers.iter().map(|&peer| self.channel(kind, src, peer)).collect()
    }

    pub(in crate::dsl) fn semaphore(&mut self, rank: u32, initial: i64) -> u32 {
        if initial < 0 || initial > i64::from(i32::MAX) {
            self.report_error(
                Code::BadSpecification,
                format!("expected an initial value of 0 to {} for the semaphore, found {initial}", i32::MAX),
                "pass the number of units that are available initially",
            );
        }
        let Some(table) = self.trace.ranks.get_mut(rank as usize) else {
            return 0;
        };
        table.semaphores.push(initial);
        table.semaphores.len() as u32 - 1
    }

    pub(in crate::dsl) fn switch_channel(&mut self, ranks: &[i128], buffer: BufferKind) -> SwitchValue {
        let channel = self.switches.len() as u32;
        let mut members = Vec::new();
        if ranks.is_empty() {
            self.report_error(
                Code::EmptyList,
                "a switch channel has no ranks",
                "name its members, such as `p.ranks()`",
            );
        }
        for &rank in ranks.iter().take(self.trace.ranks.len() + 1) {
            let rank = self.rank_number(rank);
            if rank == POISON {
                continue;
            }
            if members.contains(&rank) {
                self.report_error(
                    Code::BadGroup,
                    format!("rank {rank} is named twice in a switch channel"),
                    "name every member once",
                );
                continue;
            }
            members.push(rank);
        }
        let numbered = members
            .iter()
            .map(|&rank| {
                let channels = &mut self.trace.ranks[rank as usize].channels;
                let number = channels.iter().filter(|table| matches!(table, ChannelTable::Switch { .. })).count();
                channels.push(ChannelTable::Switch { buffer, groups: vec![members.clone()] });
                (rank, number as u32)
            })
            .collect();
        self.switches.push(Switch { buffer, members: numbered });
        SwitchValue { channel, member: None }
    }

    pub(in crate::dsl) fn group(&mut self, blocks: &[i128]) -> GroupValue {
        let mut group = Vec::new();
        if blocks.is_empty() {
            self.report_error(Code::EmptyList, "a thread-block group has no members", "name at least one thread block");
        }
        for &block in blocks {
            let Some(block) = self.block(block) else {
                continue;
            };
            if group.contains(&block) {
                self.report_error(
                    Code::BadGroup,
                    format!("thread block {block} is named twice in a group"),
                    "name every thread block once",
                );
                continue;
            }
            group.push(block);
        }
        Rc::from(group)
    }

    /// Returns the number of another rank's buffer in `rank`'s table, and adds it at first use.
    pub(super) fn remote_buffer(&mut self, rank: u32, owner: u32, buffer: BufferKind, kind: ChannelKind) -> u32 {
        let numbers = &mut self.remote_numbers[rank as usize];
        if numbers.is_empty() {
            numbers.resize(self.trace.ranks.len() * BufferKind::ALL.len(), POISON);
        }
        let number = &mut numbers[owner as usize * BufferKind::ALL.len() + buffer as usize];
        let table = &mut self.trace.ranks[rank as usize].remote_buffers;
        if *number == POISON {
            *number = table.len() as u32;
            if table.is_empty() {
                table.reserve(MIN_CAPACITY);
            }
            table.push(RemoteBuffer { rank: owner, buffer, memory: false, port: false });
        }
        let entry = &mut table[*number as usize];
        match kind {
            ChannelKind::Port => entry.port = true,
            _ => entry.memory = true,
        }
        *number
    }
}
