//! Operations on packets, whose readers need no signal.

use super::super::{ChannelType, DataFormat, PacketOptions};
use super::ChunkRef;
use crate::diag::Code;
use crate::dsl::{Chunk, Scratch};
use crate::types::BufferKind;

impl<'c> ChunkRef<'c> {
    /// Puts these chunks as packets into the scratch of rank `dst`; returns the destination. Needs no signal: a read of
    /// the packets waits for them.
    ///
    /// # Errors
    /// Reports M0019 for packets outside of scratch, and for plain data over a proxy without a `temp_buffer`.
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
                        "pass scratch of this rank for the packets: `temp_buffer: Some(Buffer::Scratch)`",
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

    /// Puts these chunks as packets: another name of [`put_packet`](Self::put_packet).
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

    /// Copies within a rank between plain data and packets; returns the destination. From scratch it waits for packets
    /// and stores their data; from other buffers it creates packets in scratch.
    ///
    /// # Errors
    /// Reports M0019 if neither side is in scratch.
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

    /// Waits for packets in the rank's own scratch and reduces them into these chunks; returns these.
    #[track_caller]
    pub fn reduce_packet(&self, other: Self, recvtb: usize) -> Self {
        if !self.combines("reduce_packet", other) {
            return *self;
        }
        if other.rank() != self.rank() {
            self.file(
                Code::WrongRank,
                format!("`reduce_packet` expects packets on rank {}, found {other}", self.rank()),
                "first put the packets into the scratch of this rank",
            );
        } else if let Some(packets) = other.packets("reduce_packet", "its operand") {
            self.own_rank().reduce_packets(self.plain(), packets, recvtb);
        }
        *self
    }

    /// Returns these chunks as an operand for packets, or reports why they are not.
    #[track_caller]
    fn packets(&self, call: &str, role: &str) -> Option<Chunk<'c, Scratch>> {
        if self.buffer() == BufferKind::Scratch {
            return Some(Chunk::new(self.program(), self.scaled()));
        }
        self.file(
            Code::NotScratch,
            format!("`{call}` expects {role} in scratch, found {self}"),
            "packets are stored only in scratch: use `Buffer::Scratch`",
        );
        None
    }
}
