"""Enumerations of calls."""

from __future__ import annotations

import enum

__all__ = ["CollectiveBufferMode", "CommResult", "DataType", "GpuBufferGranularity", "PacketType", "ReduceOp"]


class DataType(enum.IntEnum):
    """Types of elements. Those that this package does not support are rejected by calls."""

    int32 = 0
    uint32 = 1
    float16 = 2
    float32 = 3
    bfloat16 = 4
    float8_e4m3fn = 5
    float8_e4m3fnuz = 6
    float8_e5m2 = 7
    float8_e5m2fnuz = 8
    uint8 = 9
    float8_e4m3b15 = 10


# The names of mscclpp_rs, by the numbers of `DataType`.
_NATIVE_TYPES = (
    "int32",
    "uint32",
    "float16",
    "float32",
    "bfloat16",
    "fp8_e4m3",
    None,
    "fp8_e5m2",
    None,
    "uint8",
    "fp8_e4m3b15",
)


def native_type(dtype: DataType) -> str:
    """Returns the name of a type in mscclpp_rs. Raises `ValueError` for one that is not supported."""
    name = _NATIVE_TYPES[dtype] if isinstance(dtype, int) and 0 <= dtype < len(_NATIVE_TYPES) else None
    if name is None:
        raise ValueError(f"expected a data type such as DataType.float32, found {dtype!r}, which is not supported")
    return name


class ReduceOp(enum.IntEnum):
    """Reductions. `NOP` is that of calls that do not reduce, and of plans that have their own."""

    SUM = 0
    MIN = 1
    NOP = 3


# The names of mscclpp_rs, by the numbers of `ReduceOp`.
_NATIVE_REDUCTIONS = ("sum", "min", None, "sum")


def native_reduction(op: ReduceOp) -> str:
    """Returns the name of a reduction in mscclpp_rs. Raises `ValueError` for another number."""
    name = _NATIVE_REDUCTIONS[op] if isinstance(op, int) and 0 <= op < len(_NATIVE_REDUCTIONS) else None
    if name is None:
        raise ValueError(f"expected ReduceOp.SUM, MIN or NOP, found {op!r}")
    return name


class PacketType(enum.IntEnum):
    """Sizes of packets: 8 bytes, 4 of them data, or 16 with 8. All ranks of a call state the same."""

    LL8 = 0
    LL16 = 1


class CollectiveBufferMode(enum.IntEnum):
    """Whether input and output of an algorithm's calls are one buffer."""

    ANY = 0
    IN_PLACE = 1
    OUT_OF_PLACE = 2


class CommResult(enum.IntEnum):
    """Results of `Algorithm.execute`. Failures other than an unsupported call are exceptions."""

    COMM_SUCCESS = 0
    COMM_UNHANDLED_CUDA_ERROR = 1
    COMM_SYSTEM_ERROR = 2
    COMM_INTERNAL_ERROR = 3
    COMM_INVALID_ARGUMENT = 4
    COMM_INVALID_USAGE = 5
    COMM_REMOTE_ERROR = 6
    COMM_IN_PROGRESS = 7
    COMM_NUM_RESULTS = 8


class GpuBufferGranularity(enum.IntEnum):
    """Granularities of allocations, which have no effect here."""

    MultiCastMinimum = 0
    MultiCastRecommended = 1
