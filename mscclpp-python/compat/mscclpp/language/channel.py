"""Channels between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from mscclpp.language.internal.globals import get_program
from mscclpp.language.internal.types import BufferType, ChannelType, Chunk, RankGroup, ReduceOperationType, SyncType
from mscclpp.language.loop import InLoop, check_loop
from mscclpp.language.rank import SUM, block, blocks, chunk_list, constant, in_scratch, rank_number, reduction, sync_type
from mscclpp.language.thread_block_group import ThreadBlockGroup

if TYPE_CHECKING:
    from mscclpp_rs._native import Handle

# Programs of the reference take these names from this module.
__all__ = [
    "BufferType",
    "Channel",
    "ChannelType",
    "Chunk",
    "MemoryChannel",
    "PortChannel",
    "ReduceOperationType",
    "SwitchChannel",
    "SyncType",
    "ThreadBlockGroup",
]


class _Channel:
    """A channel from `src_rank`, which executes its operations, to `dst_rank`."""

    channel_type: ChannelType

    def __init__(self, dst_rank: int, src_rank: int) -> None:
        self._program = get_program()
        owner = self._program._call(None, "rank", rank_number(self._program, src_rank))
        method = f"{self.channel_type.value}_channel"
        self._handle = self._program._call(owner, method, rank_number(self._program, dst_rank))
        self.dst_rank = dst_rank
        self.src_rank = src_rank

    def _sync(self, method: str, tb: int, where: SyncType, relaxed: bool = False) -> None:
        recorded = self._program._call(self._handle, method, block(tb))
        if relaxed:
            self._program._call(recorded, "relaxed")
        if where is not SyncType.both:
            self._program._call(recorded, "sync", constant(where))

    def _move(self, method: str, dst_chunk: Chunk, src_chunk: Chunk, at: int | Handle, loop: InLoop) -> None:
        check_loop(self._program, loop)
        dst, src = self._program._chunk(dst_chunk, "dst_chunk"), self._program._chunk(src_chunk, "src_chunk")
        self._program._call(self._handle, method, dst, src, at)

    def read_put_packets(
        self,
        dst_chunk: Chunk,
        src_chunk: Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Forwards packets of the rank's own scratch into the peer's scratch, waiting for them."""
        in_scratch(self._program, src_chunk, "read_put_packets", "src_chunk")
        in_scratch(self._program, dst_chunk, "read_put_packets", "dst_chunk")
        self._move("read_put_packets", dst_chunk, src_chunk, blocks(self._program, tb, tb_group), loop)


class MemoryChannel(_Channel):
    """A channel that loads from and stores into the peer's mapped memory. Every object is another channel."""

    channel_type = ChannelType.memory

    def signal(
        self, tb: int, data_sync: SyncType | str = SyncType.both, relaxed: bool = False, *, sync: SyncType | str | None = None
    ) -> None:
        """Increments the peer's counter. A relaxed signal orders execution and publishes no data."""
        self._sync("signal", tb, sync_type(data_sync, sync), relaxed)

    def wait(
        self, tb: int, data_sync: SyncType | str = SyncType.both, relaxed: bool = False, *, sync: SyncType | str | None = None
    ) -> None:
        """Waits for one signal of the peer on the paired channel."""
        self._sync("wait", tb, sync_type(data_sync, sync), relaxed)

    def relaxedSignal(self, tb: int, data_sync: SyncType | str = SyncType.both, *, sync: SyncType | str | None = None) -> None:
        """Signals relaxed, the first name of `signal(relaxed=True)`."""
        self.signal(tb, data_sync, relaxed=True, sync=sync)

    def relaxedWait(self, tb: int, data_sync: SyncType | str = SyncType.both, *, sync: SyncType | str | None = None) -> None:
        """Waits relaxed, the first name of `wait(relaxed=True)`."""
        self.wait(tb, data_sync, relaxed=True, sync=sync)

    def get(
        self,
        dst_chunk: Chunk,
        src_chunk: Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Copies a chunk of the peer into a chunk of this rank."""
        self._move("get", dst_chunk, src_chunk, blocks(self._program, tb, tb_group), loop)

    def put(
        self,
        dst_chunk: Chunk,
        src_chunk: Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Copies a chunk of this rank into a chunk of the peer."""
        self._move("put", dst_chunk, src_chunk, blocks(self._program, tb, tb_group), loop)

    def put_packets(
        self,
        dst_chunk: Chunk,
        src_chunk: Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Stores a chunk of this rank as packets into the peer's scratch."""
        in_scratch(self._program, dst_chunk, "put_packets", "dst_chunk")
        self._move("put_packets", dst_chunk, src_chunk, blocks(self._program, tb, tb_group), loop)

    def reduce(
        self,
        local_src_chunk: Chunk,
        remote_src_chunks: Sequence[Chunk] | Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        local_dst_chunk: Chunk | None = None,
        reduce_op: ReduceOperationType | str = ReduceOperationType.sum,
        *,
        op: ReduceOperationType | str | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Reduces chunks of the peer with a chunk of this rank, into `local_dst_chunk` or else into `local_src_chunk`."""
        program = self._program
        check_loop(program, loop)
        src = program._chunk(local_src_chunk, "local_src_chunk")
        others = chunk_list(program, remote_src_chunks, "remote_src_chunks")
        dst = None if local_dst_chunk is None else program._chunk(local_dst_chunk, "local_dst_chunk")
        operation = reduction(reduce_op, op)
        recorded = program._call(self._handle, "reduce", src, others, blocks(program, tb, tb_group))
        if dst is not None and local_dst_chunk != local_src_chunk:
            program._call(recorded, "to", dst)
        if operation != SUM:
            program._call(recorded, "op", operation)


class PortChannel(_Channel):
    """A channel through a FIFO that a proxy serves, within a node or between nodes. Every object is another channel."""

    channel_type = ChannelType.port

    def signal(self, tb: int, data_sync: SyncType | str = SyncType.both, *, sync: SyncType | str | None = None) -> None:
        """Increments the peer's counter, after the earlier puts of the channel."""
        self._sync("signal", tb, sync_type(data_sync, sync))

    def wait(self, tb: int, data_sync: SyncType | str = SyncType.both, *, sync: SyncType | str | None = None) -> None:
        """Waits for one signal of the peer on the paired channel."""
        self._sync("wait", tb, sync_type(data_sync, sync))

    def flush(self, tb: int, data_sync: SyncType | str = SyncType.both, *, sync: SyncType | str | None = None) -> None:
        """Waits until the sources of all queued puts of this channel have been read."""
        self._sync("flush", tb, sync_type(data_sync, sync))

    def put(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int, **loop: Unpack[InLoop]) -> None:
        """Queues the copy of a chunk of this rank into a chunk of the peer."""
        self._move("put", dst_chunk, src_chunk, block(tb), loop)

    def put_with_signal(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int, **loop: Unpack[InLoop]) -> None:
        """Queues a put and then a signal."""
        self._move("put_with_signal", dst_chunk, src_chunk, block(tb), loop)

    def put_with_signal_and_flush(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int, **loop: Unpack[InLoop]) -> None:
        """Queues a put and then a signal, then waits until the source may be reused."""
        self._move("put_with_signal_and_flush", dst_chunk, src_chunk, block(tb), loop)

    def put_packets(self, dst_chunk: Chunk, src_chunk: Chunk, tb: int, **loop: Unpack[InLoop]) -> None:
        """Stores a chunk of the rank's own scratch that holds packets into the peer's scratch.

        A source of plain data is rejected (M0019, DIFF-23): the peer would wait for flags that it does not have.
        """
        in_scratch(self._program, dst_chunk, "put_packets", "dst_chunk")
        in_scratch(self._program, src_chunk, "put_packets", "src_chunk")
        self._move("put_packets", dst_chunk, src_chunk, block(tb), loop)


class Channel:
    """The first name of channels: `Channel(dst_rank, src_rank, Channel.memory)` is a `MemoryChannel`."""

    memory = ChannelType.memory
    port = ChannelType.port

    def __new__(cls, dst_rank: int, src_rank: int, channel_type: ChannelType = ChannelType.memory) -> MemoryChannel | PortChannel:  # type: ignore[misc]
        """Returns a channel of a type."""
        if channel_type is ChannelType.memory:
            return MemoryChannel(dst_rank, src_rank)
        if channel_type is ChannelType.port:
            return PortChannel(dst_rank, src_rank)
        raise TypeError(f"expected Channel.memory or Channel.port as channel_type, found {channel_type!r}")


class SwitchChannel:
    """One buffer of every rank of a group, with one address. `at_rank` gives the view of a member."""

    channel_type = ChannelType.switch

    def __init__(
        self, rank_list: Sequence[int], buffer_type: BufferType | None = None, *, buffer: BufferType | None = None
    ) -> None:
        buffer_type = buffer if buffer_type is None else buffer_type
        if not isinstance(buffer_type, BufferType):
            raise TypeError(f"expected a BufferType as buffer_type, such as BufferType.input, found {buffer_type!r}")
        self._program = get_program()
        ranks = [rank_number(self._program, rank) for rank in rank_list]
        kind = f"BufferKind.{buffer_type.name.capitalize()}"
        self._handle = self._program._call(None, "switch_channel", ranks, kind)
        self.buffer_type = buffer_type
        self.rank_group = RankGroup(len(ranks), ranks)

    def at_rank(self, rank: int) -> SwitchChannelRankView:
        """Returns the channel of a member. Raises `PlanError` if the rank is none."""
        return SwitchChannelRankView(self, rank)

    def group_load_reduce(self, *arguments: object, **keywords: object) -> None:
        """Raises `PlanError`: a call without a member does not say which rank makes it."""
        self._name_a_member("group_load_reduce")

    def group_store(self, *arguments: object, **keywords: object) -> None:
        """Raises `PlanError`: a call without a member does not say which rank makes it."""
        self._name_a_member("group_store")

    def _name_a_member(self, call: str) -> None:
        self._program._reject(
            "M0015",
            f"`{call}` of the switch channel over ranks {self.rank_group.ranks} names none of its members, which makes the call, and "
            "no chunk of it",
            f"use `at_rank(rank).{call}`",
        )

    def reduce(
        self,
        rank: int,
        buffer_offset: int,
        size: int,
        dst_chunk: Chunk,
        tb: int,
        reduce_op: ReduceOperationType | str = ReduceOperationType.sum,
    ) -> None:
        """Reduces `size` chunks of the buffers of all members into `dst_chunk` of the rank."""
        self.at_rank(rank).reduce(buffer_offset, size, dst_chunk, tb, reduce_op)

    def broadcast(self, rank: int, src_chunk: Chunk, buffer_offset: int, size: int, tb: int) -> None:
        """Stores `src_chunk` of the rank in the buffers of all members."""
        self.at_rank(rank).broadcast(src_chunk, buffer_offset, size, tb)

    def broadcast_packets(self, rank: int, src_chunk: Chunk, buffer_offset: int, size: int, tb: int) -> None:
        """Stores the packets in `src_chunk`, scratch of the rank, in the scratch of all members."""
        self.at_rank(rank).broadcast_packets(src_chunk, buffer_offset, size, tb)


class SwitchChannelRankView:
    """A switch channel, as one of its members uses it."""

    def __init__(self, channel: SwitchChannel, rank: int) -> None:
        self._program = channel._program
        self._buffer_type = channel.buffer_type
        self._handle = self._program._call(channel._handle, "at", rank_number(self._program, rank))

    def reduce(
        self,
        buffer_offset: int,
        size: int,
        dst_chunk: Chunk,
        tb: int,
        reduce_op: ReduceOperationType | str = ReduceOperationType.sum,
        *,
        op: ReduceOperationType | str | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Reduces `size` chunks of the buffers of all members, from `buffer_offset` on, into `dst_chunk` of this rank."""
        check_loop(self._program, loop)
        operation = reduction(reduce_op, op)
        dst = self._program._chunk(dst_chunk, "dst_chunk")
        extent = (buffer_offset, buffer_offset + size)
        recorded = self._program._call(self._handle, "reduce", dst, extent, block(tb))
        if operation != SUM:
            self._program._call(recorded, "op", operation)

    # The first names of the two.
    def group_load_reduce(
        self,
        buffer_offset: int,
        size: int,
        dst_chunk: Chunk,
        tb: int,
        op: ReduceOperationType | str = ReduceOperationType.sum,
        **loop: Unpack[InLoop],
    ) -> None:
        """Does what `reduce` does."""
        self.reduce(buffer_offset, size, dst_chunk, tb, op, **loop)

    def group_store(self, src_chunk: Chunk, buffer_offset: int, size: int, tb: int, **loop: Unpack[InLoop]) -> None:
        """Does what `broadcast` does."""
        self.broadcast(src_chunk, buffer_offset, size, tb, **loop)

    def broadcast(self, src_chunk: Chunk, buffer_offset: int, size: int, tb: int, **loop: Unpack[InLoop]) -> None:
        """Stores `src_chunk` of this rank in the buffers of all members, from `buffer_offset` on."""
        check_loop(self._program, loop)
        src = self._program._chunk(src_chunk, "src_chunk")
        self._program._call(self._handle, "broadcast", (buffer_offset, buffer_offset + size), src, block(tb))

    def broadcast_packets(self, src_chunk: Chunk, buffer_offset: int, size: int, tb: int) -> None:
        """Stores the packets in `src_chunk`, this rank's scratch, in the scratch of all members, waiting for them."""
        in_scratch(self._program, src_chunk, "broadcast_packets", "src_chunk")
        if self._buffer_type is not BufferType.scratch:
            self._program._reject(
                "M0019",
                f"`broadcast_packets` expects a switch channel over scratch, found one over {self._buffer_type.name}",
                "create the channel with `BufferType.scratch`",
            )
        src = self._program._chunk(src_chunk, "src_chunk")
        self._program._call(self._handle, "broadcast_packets", (buffer_offset, buffer_offset + size), src, block(tb))
