//! References to chunks and what is done with them.

use super::context::Context;
use super::{ChannelType, DataFormat, PacketOptions};
use crate::diag::Code;
use crate::dsl::{AnyBuffer, Chunk, ChunkValue, MemoryChannel, PortChannel, Scratch, SwitchChannel};
use crate::vocab::{BufferKind, Sync};

/// Parts that a refused split gives at most.
const MAX_REFUSED_PARTS: usize = 1 << 16;

/// Some chunks of one rank's buffer. Made by [`Context::chunk`], and by operations as the reference to their result.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRef<'c> {
    context: &'c Context<'c>,
    value: ChunkValue,
}

impl PartialEq for ChunkRef<'_> {
    /// Whether both name the same chunks of the same rank.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<'c> ChunkRef<'c> {
    pub(super) fn new(context: &'c Context<'c>, rank: u32, buffer: BufferKind, index: u32, size: u32) -> Self {
        Self { context, value: ChunkValue { rank, buffer, index, size } }
    }

    /// A reference that a diagnostic has been filed for; operations on it record nothing.
    pub(super) fn poison(context: &'c Context<'c>) -> Self {
        Self { context, value: ChunkValue::POISON }
    }

    /// The rank.
    pub fn rank(&self) -> usize {
        self.value.rank as usize
    }

    /// The buffer; in place, the larger of input and output.
    pub fn buffer(&self) -> BufferKind {
        self.value.buffer
    }

    /// The first chunk.
    pub fn index(&self) -> usize {
        self.value.index as usize
    }

    /// The number of chunks.
    pub fn size(&self) -> usize {
        self.value.size as usize
    }

    /// `num` references to equal parts.
    ///
    /// # Errors
    /// Files M0008 if the number of chunks is not a multiple of `num`; the parts then record nothing.
    #[track_caller]
    pub fn split(&self, num: usize) -> Vec<Self> {
        let size = self.size();
        // A refused split still gives parts, so that taking one of them is not a second mistake.
        let nothing = || vec![Self::poison(self.context); num.min(MAX_REFUSED_PARTS)];
        if self.is_poison() {
            return nothing();
        }
        if !size.is_multiple_of(num) {
            let parts = (1..=size).rev().find(|parts| *parts <= num && size.is_multiple_of(*parts)).unwrap_or(1);
            self.file(
                Code::SizeMismatch,
                format!("expected a number of parts that divides {size} chunks, found {num}"),
                format!("write `split({parts})`"),
            );
            return nothing();
        }
        let part = self.value.size / num as u32;
        (0..num as u32)
            .map(|i| Self {
                value: ChunkValue { index: self.value.index + i * part, size: part, ..self.value },
                ..*self
            })
            .collect()
    }

    /// One reference to both.
    ///
    /// # Errors
    /// Files M0023 if they lie in different buffers or leave a gap between them.
    #[track_caller]
    pub fn group(&self, other: Self) -> Self {
        if self.is_poison() || other.is_poison() {
            return Self::poison(self.context);
        }
        let (a, b) = (self.value, other.value);
        let (start, end) = (a.index.min(b.index), (a.index + a.size).max(b.index + b.size));
        if (a.rank, a.buffer) != (b.rank, b.buffer) || end - start > a.size + b.size {
            self.file(
                Code::ChunksApart,
                format!("`group` expects chunks side by side in one buffer, found {self} and {other}"),
                "group neighbours of the same buffer of the same rank",
            );
            return Self::poison(self.context);
        }
        Self { value: ChunkValue { index: start, size: end - start, ..a }, ..*self }
    }

    /// Copies these chunks to rank `dst`; returns what was written there.
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
    /// Files M0022 over [`ChannelType::Proxy`], which cannot read.
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
        if self.only("get", chan_type, ChannelType::Sm, "let the other rank `put`") {
            self.memory(source, recvtb).get(self.plain(), source.plain(), recvtb);
        }
    }

    /// Tells rank `dst` that these chunks are at its `buffer[index]`, or may be taken or overwritten, as the program
    /// means it.
    #[track_caller]
    pub fn signal(
        &self,
        dst: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        sendtb: usize,
        chan_type: ChannelType,
    ) {
        let Some(target) = self.remote("signal", dst, buffer.into(), index) else {
            return;
        };
        match chan_type {
            ChannelType::Sm => _ = self.memory(target, sendtb).signal(sendtb).sync(Sync::Before),
            ChannelType::Proxy => _ = self.port(target, sendtb).signal(sendtb).sync(Sync::Before),
        }
    }

    /// Waits for the signal that rank `src` gave for its `buffer[index]` and these chunks.
    #[track_caller]
    pub fn wait(
        &self,
        src: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        recvtb: usize,
        chan_type: ChannelType,
    ) {
        let Some(source) = self.remote("wait", src, buffer.into(), index) else {
            return;
        };
        // The signal's channel is named by the sender's buffer first.
        let ends = [self.value.rank, source.value.rank];
        let buffers = [source.buffer(), self.buffer()];
        let channel = self.context.channel(ends, chan_type.kind(), recvtb, buffers);
        let program = self.context.program();
        match chan_type {
            ChannelType::Sm => _ = MemoryChannel::new(program, channel).wait(recvtb).sync(Sync::After),
            ChannelType::Proxy => _ = PortChannel::new(program, channel).wait(recvtb).sync(Sync::After),
        }
    }

    /// Waits until what was put to rank `dst` over a proxy has left these chunks.
    ///
    /// # Errors
    /// Files M0022 over [`ChannelType::Sm`], which has nothing to wait for.
    #[track_caller]
    pub fn flush(
        &self,
        dst: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        sendtb: usize,
        chan_type: ChannelType,
    ) {
        let Some(target) = self.remote("flush", dst, buffer.into(), index) else {
            return;
        };
        if self.only("flush", chan_type, ChannelType::Proxy, "leave the `flush` out: a put by the GPU has been done") {
            self.port(target, sendtb).flush(sendtb).sync(Sync::After);
        }
    }

    /// Copies these chunks to another place of the same rank; returns what was written. Copying chunks onto themselves, as
    /// programs that are also used in place do, records nothing.
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
    /// Files M0022 for chunks of another rank over [`ChannelType::Proxy`], which cannot read.
    #[track_caller]
    pub fn reduce(&self, other: Self, recvtb: usize, chan_type: ChannelType) -> Self {
        if !self.combines("reduce", other) {
            return *self;
        }
        if other.rank() == self.rank() {
            self.own_rank().reduce(self.plain(), other.plain(), recvtb);
        } else if self.only("reduce", chan_type, ChannelType::Sm, "put the chunks into own scratch first") {
            self.memory(other, recvtb).reduce(self.plain(), other.plain(), recvtb);
        }
        *self
    }

    /// Puts these chunks as packets into the scratch of rank `dst`; returns what was written there. Needs no signal: who
    /// reads the packets waits for them.
    ///
    /// # Errors
    /// Files M0019 where packets are not in scratch, and for plain data over a proxy without a `temp_buffer`.
    #[track_caller]
    pub fn put_packet(
        &self,
        dst: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        sendtb: usize,
        options: impl Into<PacketOptions>,
    ) -> Self {
        let options = options.into();
        let Some(target) = self.remote("put_packet", dst, buffer.into(), index) else {
            return Self::poison(self.context);
        };
        let Some(packets) = target.packets("put_packet", "its destination") else {
            return Self::poison(self.context);
        };
        match (options.src_format, options.chan_type) {
            (DataFormat::Raw, ChannelType::Sm) => {
                self.memory(target, sendtb).put_packets(packets, self.plain(), sendtb);
            }
            (DataFormat::Raw, ChannelType::Proxy) => {
                let Some(buffer) = options.temp_buffer else {
                    self.file(
                        Code::NotScratch,
                        format!("`put_packet` of plain data ({self}) over a proxy has no `temp_buffer`"),
                        "name own scratch in which to make the packets: `temp_buffer: Some(Buffer::Scratch)`",
                    );
                    return Self::poison(self.context);
                };
                let Some(temp) = self.local("put_packet", self.rank(), Some(buffer), options.temp_buffer_index) else {
                    return Self::poison(self.context);
                };
                let Some(made) = temp.packets("put_packet", "its `temp_buffer`") else {
                    return Self::poison(self.context);
                };
                self.own_rank().copy_packets(made, self.plain(), sendtb);
                temp.port(target, sendtb).put_packets(packets, made, sendtb);
            }
            (DataFormat::Packet, chan_type) => {
                let Some(source) = self.packets("put_packet", "its source") else {
                    return Self::poison(self.context);
                };
                match chan_type {
                    ChannelType::Sm => self.memory(target, sendtb).read_put_packets(packets, source, sendtb),
                    ChannelType::Proxy => self.port(target, sendtb).read_put_packets(packets, source, sendtb),
                }
            }
        }
        target
    }

    /// The other name of [`put_packet`](Self::put_packet).
    #[track_caller]
    pub fn packet_put(
        &self,
        dst: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        sendtb: usize,
        options: impl Into<PacketOptions>,
    ) -> Self {
        self.put_packet(dst, buffer, index, sendtb, options)
    }

    /// Copies within a rank between plain data and packets; returns what was written. From scratch it waits for packets
    /// and stores their data; from elsewhere it makes packets in scratch.
    ///
    /// # Errors
    /// Files M0019 if neither side is in scratch.
    #[track_caller]
    pub fn copy_packet(
        &self,
        dst: usize,
        buffer: impl Into<Option<BufferKind>>,
        index: impl TryInto<i64>,
        sendtb: usize,
    ) -> Self {
        let Some(target) = self.local("copy_packet", dst, buffer.into(), index) else {
            return Self::poison(self.context);
        };
        if self.buffer() == BufferKind::Scratch {
            self.own_rank().unpack_packets(
                target.plain(),
                Chunk::<Scratch>::new(self.program(), self.scaled()),
                sendtb,
            );
        } else if let Some(packets) = target.packets("copy_packet", "its source or its destination") {
            self.own_rank().copy_packets(packets, self.plain(), sendtb);
        } else {
            return Self::poison(self.context);
        }
        target
    }

    /// Waits for packets in own scratch and reduces them into these chunks; returns these.
    #[track_caller]
    pub fn reduce_packet(&self, other: Self, recvtb: usize) -> Self {
        if !self.combines("reduce_packet", other) {
            return *self;
        }
        if other.rank() != self.rank() {
            self.file(
                Code::WrongRank,
                format!("`reduce_packet` expects packets on rank {}, found {other}", self.rank()),
                "put the packets into own scratch first",
            );
        } else if let Some(packets) = other.packets("reduce_packet", "what it reduces") {
            self.own_rank().reduce_packets(self.plain(), packets, recvtb);
        }
        *self
    }

    /// Reduces the chunks at the same place of other ranks into these, through the switch; returns these.
    ///
    /// # Errors
    /// Files M0023 if the others lie at another place.
    #[track_caller]
    pub fn group_load_reduce(&self, others: &[Self], recvtb: usize) -> Self {
        if self.is_poison() || others.iter().any(Self::is_poison) {
            return *self;
        }
        let here = |chunk: &Self| ChunkValue { rank: self.value.rank, ..chunk.value } == self.value;
        if let Some(apart) = others.iter().find(|other| !here(other)) {
            self.file(
                Code::ChunksApart,
                format!("`group_load_reduce` expects chunks at the place of {self}, found {apart}"),
                "name the same chunks of the same buffer on every rank",
            );
            return *self;
        }
        let range = self.range();
        self.switch(others.iter().map(|other| other.value.rank)).at(self.rank()).reduce(self.plain(), range, recvtb);
        *self
    }

    /// Stores these chunks at the same place of other ranks, through the switch.
    #[track_caller]
    pub fn group_store(&self, dsts: &[usize], sendtb: usize) {
        let mut members = Vec::new();
        for &dst in dsts {
            let member = self.target(dst, None, -1);
            if member.is_poison() {
                return;
            }
            members.push(member.value.rank);
        }
        if !self.is_poison() {
            self.switch(members.into_iter()).at(self.rank()).broadcast(self.range(), self.plain(), sendtb);
        }
    }

    fn is_poison(&self) -> bool {
        self.value.is_poison()
    }

    fn program(&self) -> &'c crate::dsl::Program {
        self.context.program()
    }

    fn own_rank(&self) -> crate::dsl::Rank<'c> {
        self.program().rank(self.rank())
    }

    /// The value in chunks of the program.
    fn scaled(&self) -> ChunkValue {
        let scale = self.context.scale();
        ChunkValue { index: self.value.index * scale, size: self.value.size * scale, ..self.value }
    }

    fn range(&self) -> std::ops::Range<u32> {
        let scaled = self.scaled();
        scaled.index..scaled.index + scaled.size
    }

    fn plain(&self) -> Chunk<'c, AnyBuffer> {
        Chunk::new(self.program(), self.scaled())
    }

    /// These chunks as a place for packets; files what is wrong.
    #[track_caller]
    fn packets(&self, call: &str, role: &str) -> Option<Chunk<'c, Scratch>> {
        if self.buffer() == BufferKind::Scratch {
            return Some(Chunk::new(self.program(), self.scaled()));
        }
        self.file(
            Code::NotScratch,
            format!("`{call}` expects {role} in scratch, found {self}"),
            "packets live in scratch: use `Buffer::Scratch`",
        );
        None
    }

    /// Where an operation with these chunks goes: -1 is the same index, or in scratch behind what has been used.
    #[track_caller]
    fn target(&self, rank: usize, buffer: Option<BufferKind>, index: i64) -> Self {
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

    /// A target on another rank, or nothing and a diagnostic.
    #[track_caller]
    fn remote(&self, call: &str, rank: usize, buffer: Option<BufferKind>, index: impl TryInto<i64>) -> Option<Self> {
        let target = self.target(rank, buffer, index.try_into().unwrap_or(i64::MAX));
        if target.is_poison() {
            return None;
        }
        if target.rank() == self.rank() {
            self.file(
                Code::SelfChannel,
                format!("`{call}` expects another rank than {rank}, found its own"),
                "use `copy` for data that stays on the rank",
            );
            return None;
        }
        Some(target)
    }

    /// A target on the same rank, or nothing and a diagnostic.
    #[track_caller]
    fn local(&self, call: &str, rank: usize, buffer: Option<BufferKind>, index: impl TryInto<i64>) -> Option<Self> {
        let target = self.target(rank, buffer, index.try_into().unwrap_or(i64::MAX));
        if target.is_poison() {
            return None;
        }
        if target.rank() != self.rank() {
            self.file(
                Code::WrongRank,
                format!("`{call}` expects a destination on rank {}, found rank {rank}", self.rank()),
                "use `put` for data that goes to another rank",
            );
            return None;
        }
        Some(target)
    }

    /// Whether another chunk can be reduced into this one; files what is wrong.
    #[track_caller]
    fn combines(&self, call: &str, other: Self) -> bool {
        if self.is_poison() || other.is_poison() {
            return false;
        }
        if self.size() != other.size() {
            self.file(
                Code::SizeMismatch,
                format!("`{call}` expects chunks of equal size, found {self} and {other}"),
                "give both the same number of chunks",
            );
            return false;
        }
        true
    }

    /// Whether an operation goes over a channel that can do it; files what is wrong.
    #[track_caller]
    fn only(&self, call: &str, found: ChannelType, expected: ChannelType, help: &str) -> bool {
        if found != expected {
            let message = format!("`{call}` expects a {} channel, found a {} channel", expected.kind(), found.kind());
            self.file(Code::WrongChannel, message, help);
        }
        found == expected
    }

    #[track_caller]
    fn memory(&self, peer: Self, tb: usize) -> MemoryChannel<'c> {
        MemoryChannel::new(self.program(), self.channel(peer, ChannelType::Sm, tb))
    }

    #[track_caller]
    fn port(&self, peer: Self, tb: usize) -> PortChannel<'c> {
        PortChannel::new(self.program(), self.channel(peer, ChannelType::Proxy, tb))
    }

    #[track_caller]
    fn channel(&self, peer: Self, chan_type: ChannelType, tb: usize) -> crate::dsl::ChannelValue {
        let ends = [self.value.rank, peer.value.rank];
        self.context.channel(ends, chan_type.kind(), tb, [self.buffer(), peer.buffer()])
    }

    #[track_caller]
    fn switch(&self, others: impl Iterator<Item = u32>) -> SwitchChannel<'c> {
        let mut ranks: Vec<u32> = others.chain([self.value.rank]).collect();
        ranks.sort_unstable();
        ranks.dedup();
        SwitchChannel::new(self.program(), self.context.switch(self.buffer(), ranks))
    }

    #[track_caller]
    fn file(&self, code: Code, message: String, help: impl Into<String>) {
        self.context.file(code, message, help);
    }
}

/// The chunks in words: `input chunks 0..2 of rank 1`.
impl std::fmt::Display for ChunkRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ChunkValue { rank, buffer, index, size } = self.value;
        match size {
            1 => write!(f, "{buffer} chunk {index} of rank {rank}"),
            _ => write!(f, "{buffer} chunks {index}..{} of rank {rank}", index + size),
        }
    }
}
