"""Collectives: the chunks of every rank's buffers, and what the outputs hold at the end."""

from __future__ import annotations

from mscclpp.language.internal.types import BufferType
from mscclpp.language.rank import BaseBuffer

__all__ = ["AllGather", "AllReduce", "AllToAll", "Collective", "ReduceScatter", "SendRecv", "TestCollective"]


class Collective:
    """A collective of `num_ranks` ranks whose data is divided into `chunk_factor` chunks per rank's part.

    `inplace`: input and output of a call are one buffer. A subclass with other buffers sets another `name` and
    defines `init_buffers`; its plans have no postcondition.
    """

    name = "custom"

    def __init__(self, num_ranks: int, chunk_factor: int, inplace: bool) -> None:
        self.num_ranks = num_ranks
        self.chunk_factor = chunk_factor
        self.inplace = inplace

    def init_buffers(self) -> list[dict[BufferType, BaseBuffer]]:
        """Returns input and output of every rank."""
        raise NotImplementedError(f"{type(self).__name__} does not define init_buffers")

    def _buffers(self, num_input: int, num_output: int) -> list[dict[BufferType, BaseBuffer]]:
        return [
            {
                BufferType.input: BaseBuffer(rank, BufferType.input, 0, num_input),
                BufferType.output: BaseBuffer(rank, BufferType.output, 0, num_output),
            }
            for rank in range(self.num_ranks)
        ]


class TestCollective(Collective):
    """A fragment with any number of input and output chunks. It has no postcondition."""

    name = "test"
    # Not a class of tests, although its name begins like one.
    __test__ = False

    def __init__(self, num_ranks: int, input_size: int, output_size: int) -> None:
        super().__init__(num_ranks, 1, False)
        self.input_size = input_size
        self.output_size = output_size

    def init_buffers(self) -> list[dict[BufferType, BaseBuffer]]:
        return self._buffers(self.input_size, self.output_size)


class AllGather(Collective):
    """Every rank ends with the concatenation of all inputs. Inputs have `chunk_factor` chunks, outputs those of all ranks."""

    name = "allgather"

    def init_buffers(self) -> list[dict[BufferType, BaseBuffer]]:
        return self._buffers(self.chunk_factor, self.num_ranks * self.chunk_factor)


class AllReduce(Collective):
    """Every rank ends with the reduction of all inputs. Both buffers have `num_ranks * chunk_factor` chunks."""

    name = "allreduce"

    def init_buffers(self) -> list[dict[BufferType, BaseBuffer]]:
        return self._buffers(self.num_ranks * self.chunk_factor, self.num_ranks * self.chunk_factor)


class ReduceScatter(Collective):
    """Rank `r` ends with part `r` of the reduction of all inputs, of `chunk_factor` chunks."""

    name = "reducescatter"

    def init_buffers(self) -> list[dict[BufferType, BaseBuffer]]:
        return self._buffers(self.num_ranks * self.chunk_factor, self.chunk_factor)


class AllToAll(Collective):
    """Rank `r` ends with part `r` of every rank's input. Both buffers have `num_ranks * chunk_factor` chunks."""

    name = "alltoall"

    def init_buffers(self) -> list[dict[BufferType, BaseBuffer]]:
        return self._buffers(self.num_ranks * self.chunk_factor, self.num_ranks * self.chunk_factor)


class SendRecv(Collective):
    """Rank `r` sends its input, of `chunk_factor` chunks, to rank `r + 1` modulo the number of ranks."""

    name = "sendrecv"

    def init_buffers(self) -> list[dict[BufferType, BaseBuffer]]:
        return self._buffers(self.chunk_factor, self.chunk_factor)
