"""Programs of MSCCLPPLang, and their operations on chunks.

The calls are recorded, and made when the program ends, so that findings about them are raised there, with their files and lines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextvars import ContextVar
from enum import Enum
from types import TracebackType

from msccl.language.buffers import Buffer
from msccl.language.collectives import Collective
from msccl.language.types import ChannelType, DataFormat, ReplicationPolicy
from msccl.topologies import Topology
from mscclpp.language.internal.unchecked import plan_for_json
from mscclpp_rs import Plan, PlanError
from mscclpp_rs._native import Recorder

__all__ = ["Check", "ChunkRef", "Json", "MSCCLPPProgram", "RankRef", "chunk", "rank"]

_current: ContextVar[MSCCLPPProgram | None] = ContextVar("program", default=None)
_Argument = int | str | list[int] | None


def _program() -> MSCCLPPProgram:
    program = _current.get()
    if program is None:
        raise PlanError("there is no program: use chunks within `with MSCCLPPProgram(...)`")
    return program


def _place() -> tuple[str, int, int]:
    """Returns file, line and column of the innermost call from outside of this module."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    positions, instruction = list(frame.f_code.co_positions()), frame.f_lasti // 2
    column = positions[instruction][2] if instruction < len(positions) else None
    return frame.f_code.co_filename, frame.f_lineno or 0, 0 if column is None else column + 1


def _number(value: object, parameter: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected a number as {parameter}, found {value!r}")
    return int(value.__index__())


def _block(tb: object, parameter: str) -> int:
    """Returns the number of a thread block, which an operation needs: without one it would not be executed."""
    number = _number(tb, parameter)
    if number < 0:
        raise ValueError(f"expected the number of a thread block as {parameter}, found {number}")
    return number


def _member(value: object, kind: type[Enum], parameter: str) -> str:
    """Returns the text of a member, which programs may write instead of it."""
    if isinstance(value, str) and value in kind.__members__:
        value = kind[value]
    if not isinstance(value, kind):
        raise TypeError(f"expected a {kind.__name__} as {parameter}, found {value!r}")
    return str(value.value)


class MSCCLPPProgram:
    """A program: `with MSCCLPPProgram(name, collective, num_ranks, instances):`.

    The number of ranks may also be that of a topology before the collective, as first versions have it. `replication_policy` has no
    effect on results. Raises `PlanError` at its end, `Json()` or `Check()`, if the program or its plan is rejected.
    """

    def __init__(
        self,
        name: str,
        collective: Collective | Topology,
        num_ranks: int | Collective,
        instances: int,
        protocol: str = "Simple",
        instr_fusion: bool = True,
        replication_policy: ReplicationPolicy = ReplicationPolicy.duplicated,
        num_threads_per_block: int = 1024,
        use_double_scratch_buffer: bool = False,
        min_message_size: int = 0,
        max_message_size: int = 2**64 - 1,
    ) -> None:
        if isinstance(collective, Topology) and isinstance(num_ranks, Collective):
            collective, num_ranks = num_ranks, collective.num_ranks
        if not isinstance(collective, Collective):
            raise TypeError(f"expected a Collective, such as AllReduce(2, 2, True), found {collective!r}")
        _member(replication_policy, ReplicationPolicy, "replication_policy")
        self._spec = {
            "name": name,
            "collective": collective.name,
            "num_ranks": collective.num_ranks,
            "chunk_factor": collective.chunk_factor,
            "in_place": collective.inplace,
            "root": collective.root,
            "program_ranks": _number(num_ranks, "num_ranks"),
            "instances": instances,
            "protocol": protocol,
            "instr_fusion": instr_fusion,
            "num_threads_per_block": num_threads_per_block,
            "use_double_scratch_buffer": use_double_scratch_buffer,
            "min_message_size": min_message_size,
            "max_message_size": max_message_size,
        }
        self._calls: list[tuple[tuple[str, int, int], str, int | None, list[_Argument]]] = []
        self._references = 0
        self._plan: Plan | None = None
        self._has_ended = False

    def __enter__(self) -> MSCCLPPProgram:
        self._outer = _current.get()
        _current.set(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.set(self._outer)

    def plan(self) -> Plan:
        """Ends the program and returns its plan, after the checks."""
        if self._plan is None:
            self._plan = self._made(True)
            self._has_ended = True
        return self._plan

    def _made(self, check: bool) -> Plan:
        return Recorder.lang(self._spec, self._calls).plan(check=check)

    def to_json(self) -> str:
        """Ends the program and returns its plan as JSON. With `MSCCLPP_UNCHECKED_JSON=1` findings of the checks are warnings."""
        plan = self._plan or plan_for_json(self._made)
        self._has_ended = True
        return plan.to_json()

    def _record(self, method: str, receiver: int | None, *arguments: _Argument) -> None:
        if self._has_ended:
            raise PlanError("the program is complete: its plan was made, and no operation can be added; create another program")
        self._calls.append((_place(), method, receiver, list(arguments)))

    def _refer(self) -> ChunkRef:
        self._references += 1
        return ChunkRef(self, self._references - 1)


class ChunkRef:
    """Some chunks of one rank's buffer: `chunk(...)` makes one, and operations return their destination as one.

    A buffer of `None` is that of the chunks, an index of -1 theirs, or in scratch the end of what the rank has used.
    """

    def __init__(self, program: MSCCLPPProgram, number: int) -> None:
        self._program = program
        self._reference = number

    def _to(
        self, method: str, rank: int, buffer: Buffer | str | None, index: int, block: int, *more: _Argument, refers: bool = True
    ) -> ChunkRef:
        name = None if buffer is None else _member(buffer, Buffer, "buffer")
        self._program._record(method, self._reference, _number(rank, "the rank"), name, _number(index, "index"), block, *more)
        return self._program._refer() if refers else self

    def put(
        self, dst: int, buffer: Buffer | str | None = None, index: int = -1, sendtb: int = -1, chan_type: ChannelType | str = ChannelType.sm
    ) -> ChunkRef:
        """Copies the chunks to another rank."""
        return self._to("put", dst, buffer, index, _block(sendtb, "sendtb"), _member(chan_type, ChannelType, "chan_type"))

    def get(
        self, src: int, buffer: Buffer | str | None = None, index: int = -1, recvtb: int = -1, chan_type: ChannelType | str = ChannelType.sm
    ) -> None:
        """Copies chunks of another rank into these."""
        channel = _member(chan_type, ChannelType, "chan_type")
        self._to("get", src, buffer, index, _block(recvtb, "recvtb"), channel, refers=False)

    def signal(
        self, dst: int, buffer: Buffer | str | None = None, index: int = -1, sendtb: int = -1, chan_type: ChannelType | str = ChannelType.sm
    ) -> None:
        """Signals another rank about its chunks at `index`."""
        channel = _member(chan_type, ChannelType, "chan_type")
        self._to("signal", dst, buffer, index, _block(sendtb, "sendtb"), channel, refers=False)

    def wait(
        self, src: int, buffer: Buffer | str | None = None, index: int = -1, recvtb: int = -1, chan_type: ChannelType | str = ChannelType.sm
    ) -> None:
        """Waits for a signal of another rank about these chunks."""
        channel = _member(chan_type, ChannelType, "chan_type")
        self._to("wait", src, buffer, index, _block(recvtb, "recvtb"), channel, refers=False)

    def flush(
        self, dst: int, buffer: Buffer | str | None = None, index: int = -1, sendtb: int = -1, chan_type: ChannelType | str = ChannelType.proxy
    ) -> None:
        """Waits until the puts over a proxy to another rank have read their sources."""
        channel = _member(chan_type, ChannelType, "chan_type")
        self._to("flush", dst, buffer, index, _block(sendtb, "sendtb"), channel, refers=False)

    def copy(self, dst: int, buffer: Buffer | str | None = None, index: int = -1, sendtb: int = -1) -> ChunkRef:
        """Copies the chunks within their rank."""
        return self._to("copy", dst, buffer, index, _block(sendtb, "sendtb"))

    def reduce(self, other_chunkref: ChunkRef, recvtb: int = -1, channel_type: ChannelType = ChannelType.sm) -> ChunkRef:
        """Reduces other chunks, of this or another rank, into these."""
        channel = _member(channel_type, ChannelType, "channel_type")
        return self._with("reduce", _reference(other_chunkref), _block(recvtb, "recvtb"), channel)

    def put_packet(
        self,
        dst: int,
        buffer: Buffer | str | None = None,
        index: int = -1,
        sendtb: int = -1,
        src_format: DataFormat = DataFormat.raw,
        chan_type: ChannelType | str = ChannelType.sm,
        temp_buffer: Buffer | str | None = None,
        temp_buffer_index: int = -1,
    ) -> ChunkRef:
        """Stores the chunks as packets in the scratch of another rank; over a proxy through `temp_buffer`."""
        temporary = None if temp_buffer is None else _member(temp_buffer, Buffer, "temp_buffer")
        channel, source = _member(chan_type, ChannelType, "chan_type"), _member(src_format, DataFormat, "src_format")
        return self._to("put_packet", dst, buffer, index, _block(sendtb, "sendtb"), channel, temporary, temp_buffer_index, source)

    packet_put = put_packet

    def copy_packet(self, dst: int, buffer: Buffer | str | None = None, index: int = -1, sendtb: int = -1) -> ChunkRef:
        """Copies within the rank between plain data and packets in scratch."""
        return self._to("copy_packet", dst, buffer, index, _block(sendtb, "sendtb"))

    def reduce_packet(self, other_chunkref: ChunkRef, recvtb: int = -1) -> ChunkRef:
        """Waits for packets in the rank's scratch and reduces them into these chunks."""
        return self._with("reduce_packet", _reference(other_chunkref), _block(recvtb, "recvtb"))

    def split(self, num: int) -> list[ChunkRef]:
        """Divides the chunks into equal parts."""
        self._program._record("split", self._reference, _block(num, "num"))
        return [self._program._refer() for _ in range(num)]

    def group(self, other: ChunkRef) -> ChunkRef:
        """Returns one reference to these chunks and adjacent ones."""
        return self._with("group", _reference(other))

    def group_load_reduce(
        self, other_chunkrefs: Sequence[ChunkRef], recvtb: int = -1, chan_type: ChannelType | str = ChannelType.sm
    ) -> ChunkRef:
        """Reduces the chunks at the same index of other ranks into these, by the switch."""
        others = [_reference(other) for other in other_chunkrefs]
        return self._with("group_load_reduce", others, _block(recvtb, "recvtb"))

    def group_store(
        self, dsts: Sequence[int], index: int = -1, sendtb: int = -1, chan_type: ChannelType | str = ChannelType.sm
    ) -> None:
        """Stores the chunks at the same index of other ranks, by the switch."""
        if index != -1:
            raise ValueError(f"expected the index of the chunks, -1, found {index}")
        ranks: list[int] = [_number(rank, "a rank") for rank in dsts]
        self._program._record("group_store", self._reference, ranks, _block(sendtb, "sendtb"))

    def _with(self, method: str, *arguments: _Argument) -> ChunkRef:
        self._program._record(method, self._reference, *arguments)
        return self._program._refer()


def _reference(other: object) -> int:
    if not isinstance(other, ChunkRef):
        raise TypeError(f"expected a ChunkRef, such as chunk(0, Buffer.input, 0), found {other!r}")
    return other._reference


class RankRef:
    """A rank, for its barriers."""

    def __init__(self, rank: int) -> None:
        self._rank = _number(rank, "rank")

    def barrier(self, tb_list: Sequence[int]) -> None:
        """Synchronizes thread blocks of the rank."""
        blocks: list[int] = [_block(tb, "tb_list") for tb in tb_list]
        _program()._record("barrier", None, self._rank, blocks)


def chunk(rank: int, buffer: Buffer | str, index: int, size: int = 1) -> ChunkRef:
    """Returns a reference to `size` chunks of a rank's buffer from `index` on."""
    program = _program()
    name = _member(buffer, Buffer, "buffer")
    program._record("chunk", None, _number(rank, "rank"), name, _number(index, "index"), _number(size, "size"))
    return program._refer()


def rank(rank: int) -> RankRef:
    """Returns a rank."""
    return RankRef(rank)


def Json() -> None:
    """Ends the program and prints its plan as JSON. Raises `PlanError` with all findings if it is rejected.

    With `MSCCLPP_UNCHECKED_JSON=1` the findings of the checks are warnings on standard error instead.
    """
    print(_program().to_json())


def Check() -> bool:
    """Ends the program and returns true. Raises `PlanError` with all findings if it is rejected."""
    _program().plan()
    return True
