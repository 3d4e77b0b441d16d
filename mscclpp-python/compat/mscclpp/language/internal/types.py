"""Enumerations and chunks of the language."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["BufferType", "ChannelType", "Chunk", "RankGroup", "ReduceOperationType", "ReplicationPolicy", "SyncType"]


class SyncType(enum.Enum):
    """Where an operation also synchronizes the threads of its own thread block."""

    none = "none"
    before = "before"
    after = "after"
    both = "both"

    def __str__(self) -> str:
        return self.value

    def _bits(self) -> int:
        return _SYNC_TYPES.index(self)

    def __or__(self, other: object) -> SyncType:
        if not isinstance(other, SyncType):
            return NotImplemented
        return _SYNC_TYPES[self._bits() | other._bits()]

    def __and__(self, other: object) -> SyncType:
        if not isinstance(other, SyncType):
            return NotImplemented
        return _SYNC_TYPES[self._bits() & other._bits()]

    def __xor__(self, other: object) -> SyncType:
        if not isinstance(other, SyncType):
            return NotImplemented
        return _SYNC_TYPES[self._bits() ^ other._bits()]


# By bits: 1 is before, 2 is after.
_SYNC_TYPES = [SyncType.none, SyncType.before, SyncType.after, SyncType.both]


class ReduceOperationType(enum.Enum):
    """A reduction."""

    sum = "sum"
    min = "min"
    max = "max"

    def __str__(self) -> str:
        return self.value


class BufferType(enum.Enum):
    """A buffer of a rank."""

    input = "i"
    output = "o"
    scratch = "s"

    def __str__(self) -> str:
        return self.value


class ChannelType(enum.Enum):
    """How a rank reaches another one."""

    port = "port"
    memory = "memory"
    switch = "switch"
    none = "none"

    def __str__(self) -> str:
        return self.value


class ReplicationPolicy(enum.Enum):
    """How the instances of a program divide its chunks. `none` requires one instance."""

    interleaved = "interleaved"
    none = "none"

    def __str__(self) -> str:
        return self.value


@dataclass(unsafe_hash=True)
class Chunk:
    """A range of chunks of one rank's buffer: `size` chunks from `index` on.

    The index of scratch counts all of the rank's scratch. A chunk is checked by the operation that uses it.
    """

    rank: int
    buffer: BufferType
    index: int
    size: int

    def to_dict(self) -> dict[str, int | str]:
        return {"rank": self.rank, "type": self.buffer.value, "index": self.index, "size": self.size}


@dataclass
class RankGroup:
    """The ranks of a switch channel."""

    size: int
    ranks: list[int]
