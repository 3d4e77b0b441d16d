//! Targets of operations, and their channels; reports targets that they cannot access.

use super::super::ChannelType;
use super::ChunkRef;
use crate::diag::Code;
use crate::dsl::registry::ChannelValue;
use crate::dsl::{MemoryChannel, PortChannel};
use crate::types::BufferKind;

impl<'c> ChunkRef<'c> {
    /// Returns the target of an operation with these chunks: -1 is the same index, or in scratch the end of what has
    /// been used.
    #[track_caller]
    pub(super) fn target(&self, rank: usize, buffer: Option<BufferKind>, index: i64) -> Self {
        if self.is_poison() {
            return *self;
        }
        let index = match (index, buffer) {
            (-1, Some(BufferKind::Scratch)) => i64::from(self.context.scratch_len(rank)),
            (-1, _) => i64::from(self.value.index),
            _ => index,
        };
        self.context.reference(rank, buffer.unwrap_or(self.buffer()), index, self.size())
    }

    /// Returns a target on another rank, or nothing and a diagnostic.
    #[track_caller]
    pub(super) fn remote(
        &self,
        call: &str,
        rank: usize,
        buffer: Option<BufferKind>,
        index: impl TryInto<i64>,
    ) -> Option<Self> {
        let target = self.target(rank, buffer, index.try_into().unwrap_or(i64::MAX));
        if target.is_poison() {
            return None;
        }
        if target.rank() == self.rank() {
            self.file(
                Code::SelfChannel,
                format!("`{call}` expects a chunk of a rank other than {rank}, found one of the rank itself"),
                "use `copy` for data within a rank",
            );
            return None;
        }
        Some(target)
    }

    /// Returns a target on the same rank, or nothing and a diagnostic.
    #[track_caller]
    pub(super) fn local(
        &self,
        call: &str,
        rank: usize,
        buffer: Option<BufferKind>,
        index: impl TryInto<i64>,
    ) -> Option<Self> {
        let target = self.target(rank, buffer, index.try_into().unwrap_or(i64::MAX));
        if target.is_poison() {
            return None;
        }
        if target.rank() != self.rank() {
            self.file(
                Code::WrongRank,
                format!("`{call}` expects a destination on rank {}, found rank {rank}", self.rank()),
                "use `put` for data of another rank",
            );
            return None;
        }
        Some(target)
    }

    /// Returns whether another chunk can be reduced into this one; reports it otherwise.
    #[track_caller]
    pub(super) fn combines(&self, call: &str, other: Self) -> bool {
        if self.is_poison() || other.is_poison() {
            return false;
        }
        if self.size() != other.size() {
            self.file(
                Code::SizeMismatch,
                format!("`{call}` expects chunks of equal size, found {self} and {other}"),
                "use equal numbers of chunks",
            );
            return false;
        }
        true
    }

    /// Returns whether an operation uses a channel that supports it; reports it otherwise.
    #[track_caller]
    pub(super) fn only(&self, call: &str, found: ChannelType, expected: ChannelType, help: &str) -> bool {
        if found != expected {
            let message = format!("`{call}` expects a {} channel, found a {} channel", expected.kind(), found.kind());
            self.file(Code::WrongChannel, message, help);
        }
        found == expected
    }

    #[track_caller]
    pub(super) fn memory(&self, peer: Self, tb: usize) -> MemoryChannel<'c> {
        MemoryChannel::new(self.program(), self.channel(peer, ChannelType::Sm, tb))
    }

    #[track_caller]
    pub(super) fn port(&self, peer: Self, tb: usize) -> PortChannel<'c> {
        PortChannel::new(self.program(), self.channel(peer, ChannelType::Proxy, tb))
    }

    #[track_caller]
    fn channel(&self, peer: Self, chan_type: ChannelType, tb: usize) -> ChannelValue {
        let ends = [self.value.rank, peer.value.rank];
        self.context.channel(ends, chan_type.kind(), tb, [self.buffer(), peer.buffer()])
    }
}
