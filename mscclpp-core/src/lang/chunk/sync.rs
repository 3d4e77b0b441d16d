//! Signals and waits between ranks.

use super::super::ChannelType;
use super::ChunkRef;
use crate::dsl::{MemoryChannel, PortChannel};
use crate::types::{BlockSync, BufferKind};

impl ChunkRef<'_> {
    /// Signals rank `dst`: these chunks have arrived at its `buffer[index]`, or may be read or overwritten, depending
    /// on the program.
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
            ChannelType::Sm => _ = self.memory(target, sendtb).signal(sendtb).sync(BlockSync::Before),
            ChannelType::Proxy => _ = self.port(target, sendtb).signal(sendtb).sync(BlockSync::Before),
        }
    }

    /// Waits for the signal of rank `src` for its `buffer[index]` and these chunks.
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
        // The sender's buffer is first in the key of the signal's channel.
        let ends = [self.value.rank, source.value.rank];
        let buffers = [source.buffer(), self.buffer()];
        let channel = self.context.channel(ends, chan_type.kind(), recvtb, buffers);
        let program = self.context.program();
        match chan_type {
            ChannelType::Sm => _ = MemoryChannel::new(program, channel).wait(recvtb).sync(BlockSync::After),
            ChannelType::Proxy => _ = PortChannel::new(program, channel).wait(recvtb).sync(BlockSync::After),
        }
    }

    /// Waits until the sources of all puts to rank `dst` over a proxy have been read from these chunks.
    ///
    /// # Errors
    /// Reports M0022 over [`ChannelType::Sm`], which has nothing to wait for.
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
        if self.only("flush", chan_type, ChannelType::Proxy, "remove the `flush`: a put by the GPU is synchronous") {
            self.port(target, sendtb).flush(sendtb).sync(BlockSync::After);
        }
    }
}
