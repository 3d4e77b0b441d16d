//! Operations on plain data: copies within a rank and between two, and reductions.

use super::super::ChannelType;
use super::ChunkRef;
use crate::types::BufferKind;

impl ChunkRef<'_> {
    /// Copies these chunks to rank `dst`; returns the destination.
    #[track_caller]
    pub fn put(
        &self,
        dst: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        sendtb: usize,
        chan_type: ChannelType,
    ) -> Self {
        let Some(target) = self.remote("put", dst, buffer.into(), index) else {
            return Self::poison(self.context);
        };
        match chan_type {
            ChannelType::Sm => self.memory(target, sendtb).put(target.plain(), self.plain(), sendtb),
            ChannelType::Proxy => self.port(target, sendtb).put(target.plain(), self.plain(), sendtb),
        }
        target
    }

    /// Copies chunks of rank `src` into these.
    ///
    /// # Errors
    /// Reports M0022 over [`ChannelType::Proxy`], which cannot read.
    #[track_caller]
    pub fn get(
        &self,
        src: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        recvtb: usize,
        chan_type: ChannelType,
    ) {
        let Some(source) = self.remote("get", src, buffer.into(), index) else {
            return;
        };
        if self.only("get", chan_type, ChannelType::Sm, "let the other rank `put` the data") {
            self.memory(source, recvtb).get(self.plain(), source.plain(), recvtb);
        }
    }

    /// Copies these chunks to other chunks of the same rank; returns the destination. Copying chunks onto themselves,
    /// as programs that are also used in place do, records nothing.
    #[track_caller]
    pub fn copy(
        &self,
        dst: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        sendtb: usize,
    ) -> Self {
        let Some(target) = self.local("copy", dst, buffer.into(), index) else {
            return Self::poison(self.context);
        };
        if target != *self {
            self.own_rank().copy(target.plain(), self.plain(), sendtb);
        }
        target
    }

    /// Reduces other chunks, of this or another rank, into these; returns these.
    ///
    /// # Errors
    /// Reports M0022 for chunks of another rank over [`ChannelType::Proxy`], which cannot read.
    #[track_caller]
    pub fn reduce(&self, other: Self, recvtb: usize, chan_type: ChannelType) -> Self {
        if !self.combines("reduce", other) {
            return *self;
        }
        if other.rank() == self.rank() {
            self.own_rank().reduce(self.plain(), other.plain(), recvtb);
        } else if self.only("reduce", chan_type, ChannelType::Sm, "first put the chunks into the scratch of this rank")
        {
            self.memory(other, recvtb).reduce(self.plain(), other.plain(), recvtb);
        }
        *self
    }
}
