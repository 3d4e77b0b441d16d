"""Ranks, their buffers and their local operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from mscclpp.language.internal.globals import find_program, get_program
from mscclpp.language.internal.types import BufferType, Chunk, ReduceOperationType, SyncType
from mscclpp.language.loop import InLoop, check_loop
from mscclpp.language.thread_block_group import ThreadBlockGroup
from mscclpp_rs import PlanError

if TYPE_CHECKING:
    from mscclpp.language.program import CollectiveProgram
    from mscclpp_rs._native import Handle

# Programs of the reference take these names from this module.
__all__ = ["BaseBuffer", "Buffer", "BufferType", "Chunk", "Rank", "ReduceOperationType", "Semaphore", "SyncType", "ThreadBlockGroup"]


def block(tb: object) -> int:
    """Returns the number of the thread block that executes an operation."""
    if isinstance(tb, bool) or not hasattr(tb, "__index__"):
        raise TypeError(f"expected the number of a thread block as tb, found {tb!r}")
    return int(tb.__index__())


def blocks(program: CollectiveProgram, tb: object, tb_group: object) -> int | Handle:
    """Returns the thread block, or the handle of the group, that executes a data operation."""
    if tb_group is None:
        if tb is None:
            raise TypeError("expected a thread block as tb or a ThreadBlockGroup as tb_group, found neither")
        return block(tb)
    if tb is not None:
        raise TypeError("expected a thread block as tb or a ThreadBlockGroup as tb_group, found both")
    if not isinstance(tb_group, ThreadBlockGroup):
        raise TypeError(f"expected a ThreadBlockGroup as tb_group, found {tb_group!r}")
    return program._call(None, "thread_block_group", [block(tb) for tb in tb_group.tb_list])


def rank_number(program: CollectiveProgram, rank: object) -> int:
    """Returns the number of a rank. Rejects the program if no rank has the number."""
    if isinstance(rank, bool) or not hasattr(rank, "__index__"):
        raise TypeError(f"expected the number of a rank, found {rank!r}")
    number = int(rank.__index__())
    ranks = program.num_ranks
    if not 0 <= number < ranks:
        help = f"use a rank from 0 to {ranks - 1}; around a ring, `(rank + 1) % {ranks}`"
        program._reject("M0002", f"expected a rank in 0..{ranks}, found {number}", help)
    return number


def sync_type(data_sync: object, sync: object = None) -> SyncType:
    """Returns a synchronization: `sync`, the first name of `data_sync`, if it is given. Both may be names, such as "before"."""
    if sync is not None and data_sync is not SyncType.both:
        raise TypeError(f"expected data_sync or its first name sync, found both: {data_sync!r} and {sync!r}")
    given = data_sync if sync is None else sync
    if isinstance(given, str) and given in SyncType.__members__:
        return SyncType[given]
    if not isinstance(given, SyncType):
        raise TypeError(f"expected a SyncType as data_sync, such as SyncType.after, found {given!r}")
    return given


def constant(sync: SyncType) -> str:
    """Returns the recorder's constant of a synchronization."""
    return f"BlockSync.{sync.name.capitalize()}"


def reduction(reduce_op: object, op: object = None) -> str:
    """Returns the recorder's constant of a reduction: `op`, the first name of `reduce_op`, if it is given. Both may be names."""
    if op is not None and reduce_op is not ReduceOperationType.sum:
        raise TypeError(f"expected reduce_op or its first name op, found both: {reduce_op!r} and {op!r}")
    given = reduce_op if op is None else op
    if isinstance(given, str) and given in ReduceOperationType.__members__:
        given = ReduceOperationType[given]
    if not isinstance(given, ReduceOperationType):
        raise TypeError(f"expected a ReduceOperationType as reduce_op, such as ReduceOperationType.sum, found {given!r}")
    return f"ReduceOp.{given.name.capitalize()}"


def chunk_list(program: CollectiveProgram, chunks: object, parameter: str) -> list[Handle]:
    """Returns the handles of several chunks, or of one."""
    if isinstance(chunks, Chunk):
        chunks = [chunks]
    if not isinstance(chunks, Sequence):
        raise TypeError(f"expected a list of chunks as {parameter}, found {chunks!r}")
    return [program._chunk(chunk, parameter) for chunk in chunks]


def in_scratch(program: CollectiveProgram, chunk: object, call: str, parameter: str) -> None:
    """Rejects the program if a chunk that holds packets is not in scratch."""
    if isinstance(chunk, Chunk) and chunk.buffer is not BufferType.scratch:
        program._reject(
            "M0019",
            f"`{call}` expects packets in scratch as {parameter}, found {chunk.buffer.name} chunk {chunk.index} of rank "
            f"{chunk.rank}",
            "allocate scratch with `Buffer(rank, size)` and use a chunk of it",
        )


# The recorder's constant of the usual reduction.
SUM = reduction(ReduceOperationType.sum)


@dataclass
class Rank:
    """A rank of the program that is being recorded. Raises `PlanError` if there is no such rank."""

    rank: int

    def __init__(self, rank: int) -> None:
        self._program = get_program()
        self._handle = self._program._call(None, "rank", rank_number(self._program, rank))
        self.rank = rank

    def get_input_buffer(self) -> BaseBuffer:
        """Returns the buffer that the caller passes for reading."""
        return self._program.buffers[self.rank][BufferType.input]

    def get_output_buffer(self) -> BaseBuffer:
        """Returns the buffer that receives the results."""
        return self._program.buffers[self.rank][BufferType.output]

    def _move(
        self, method: str, dst_chunk: Chunk, src_chunk: Chunk, tb: int | None, tb_group: ThreadBlockGroup | None, loop: InLoop
    ) -> None:
        program = self._program
        check_loop(program, loop)
        dst, src = program._chunk(dst_chunk, "dst_chunk"), program._chunk(src_chunk, "src_chunk")
        program._call(self._handle, method, dst, src, blocks(program, tb, tb_group))

    def copy(
        self,
        dst_chunk: Chunk,
        src_chunk: Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Copies a chunk of this rank to another one of this rank, of the same number of chunks."""
        self._move("copy", dst_chunk, src_chunk, tb, tb_group, loop)

    def unpack_packets(
        self,
        dst_chunk: Chunk,
        src_chunk: Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Waits for packets in the rank's scratch, `src_chunk`, and stores their data."""
        in_scratch(self._program, src_chunk, "unpack_packets", "src_chunk")
        self._move("unpack_packets", dst_chunk, src_chunk, tb, tb_group, loop)

    def copy_packets(
        self,
        dst_chunk: Chunk,
        src_chunk: Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Stores plain data as packets into the rank's scratch, `dst_chunk`."""
        in_scratch(self._program, dst_chunk, "copy_packets", "dst_chunk")
        self._move("copy_packets", dst_chunk, src_chunk, tb, tb_group, loop)

    def reduce(
        self,
        src_chunk: Chunk,
        other_chunks: Sequence[Chunk] | Chunk,
        tb: int | None = None,
        tb_group: ThreadBlockGroup | None = None,
        dst_chunk: Chunk | None = None,
        reduce_op: ReduceOperationType | str = ReduceOperationType.sum,
        packet: bool = False,
        *,
        op: ReduceOperationType | str | None = None,
        **loop: Unpack[InLoop],
    ) -> None:
        """Reduces `src_chunk` with other chunks of this rank, or one, into `dst_chunk` or else into `src_chunk`.

        `packet`: the other chunks hold packets in scratch, for which the operation waits.
        """
        program = self._program
        check_loop(program, loop)
        method = "reduce_packets" if packet else "reduce"
        if packet and isinstance(other_chunks, Sequence):
            for chunk in other_chunks:
                in_scratch(program, chunk, "reduce", "other_chunks")
        src, others = program._chunk(src_chunk, "src_chunk"), chunk_list(program, other_chunks, "other_chunks")
        dst = None if dst_chunk is None else program._chunk(dst_chunk, "dst_chunk")
        operation = reduction(reduce_op, op)
        recorded = program._call(self._handle, method, src, others, blocks(program, tb, tb_group))
        if dst is not None and dst_chunk != src_chunk:
            program._call(recorded, "to", dst)
        if operation != SUM:
            program._call(recorded, "op", operation)

    @staticmethod
    def Semaphore(rank: int, initial_value: int | None = None, *, size: int | None = None) -> Semaphore:
        """Returns a semaphore of a rank, the first name of `Semaphore`. One with a `size`, of which programs release the units
        before they take them, begins at 0."""
        if (initial_value is None) == (size is None):
            raise TypeError("expected initial_value or size, found both or neither")
        return Semaphore(rank, 0 if initial_value is None else initial_value)

    def barrier(self, tb_list: Sequence[int]) -> None:
        """Synchronizes several thread blocks of this rank; with one, its threads."""
        self._program._call(self._handle, "barrier", [block(tb) for tb in tb_list])


class BaseBuffer:
    """A buffer of a rank. A slice of it, such as `buffer[0:2]`, is a `Chunk`."""

    def __init__(self, rank: int, buffer_type: BufferType, offset: int, size: int) -> None:
        self.rank = rank
        self.buffer_type = buffer_type
        self.offset = offset
        # The end of the buffer, as in the reference.
        self.size = offset + size

    def __getitem__(self, key: slice) -> Chunk:
        if not isinstance(key, slice):
            raise TypeError(f"expected a slice, such as buffer[0:1], found {key!r}")
        if key.step is not None and key.step != 1:
            raise ValueError(f"expected a slice of consecutive chunks, found step {key.step}")
        length = self.size - self.offset
        start = 0 if key.start is None else _index(key.start)
        stop = length if key.stop is None else _index(key.stop)
        if start < 0 or stop < 0:
            raise ValueError(f"expected chunks counted from the start of the buffer, found [{start}:{stop}]")
        if start > stop:
            raise ValueError(f"expected a slice that does not end before it starts, found [{start}:{stop}]")
        if stop > length:
            owner = f"the {self.buffer_type.name} of rank {self.rank}"
            message = f"chunks {start}..{stop} are outside of {owner}, which has {length} chunks"
            help = f"use a slice within [0:{length}]"
            program = find_program()
            if program is not None:
                program._reject("M0004", message, help)
            raise PlanError(f"{message}; {help}")
        return Chunk(self.rank, self.buffer_type, self.offset + start, stop - start)


class Buffer(BaseBuffer):
    """Scratch of a rank: `size` chunks after the rank's earlier allocations. One chunk is as long as one of the input."""

    # The first names of `BufferType`.
    input = BufferType.input
    output = BufferType.output
    scratch = BufferType.scratch

    def __init__(self, rank: int, size: int) -> None:
        program = get_program()
        owner = program._call(None, "rank", rank_number(program, rank))
        allocated = program._call(owner, "scratch", size)
        start, length = allocated.extent or (0, 0)
        super().__init__(rank, BufferType.scratch, start, length)


class Semaphore:
    """A counter that the thread blocks of one rank share. A program restores its initial value."""

    def __init__(self, rank: int, initial_value: int) -> None:
        self._program = get_program()
        owner = self._program._call(None, "rank", rank_number(self._program, rank))
        self._handle = self._program._call(owner, "semaphore", initial_value)
        self.rank = rank
        self.initial_value = initial_value

    def _record(self, method: str, tb: int, where: SyncType) -> None:
        recorded = self._program._call(self._handle, method, block(tb))
        if where is not SyncType.both:
            self._program._call(recorded, "sync", constant(where))

    def acquire(self, tb: int, data_sync: SyncType | str = SyncType.both, *, sync: SyncType | str | None = None) -> None:
        """Takes one unit, waiting until there is one."""
        self._record("acquire", tb, sync_type(data_sync, sync))

    def release(self, tb: int, data_sync: SyncType | str = SyncType.both, *, sync: SyncType | str | None = None) -> None:
        """Returns one unit."""
        self._record("release", tb, sync_type(data_sync, sync))


def _index(value: object) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"expected an integer as the bound of a slice, found {value!r}")
    return int(value.__index__())


