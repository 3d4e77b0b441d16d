"""Memory that ranks share."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from mscclpp._core.types import GpuBufferGranularity
from mscclpp_rs import _native

__all__ = ["GpuBuffer", "RawGpuBuffer"]

_TYPES = {
    "torch.float32": "float32",
    "torch.int32": "int32",
    "torch.uint32": "uint32",
    "torch.bfloat16": "bfloat16",
    "torch.float16": "float16",
    "torch.float8_e4m3fn": "fp8_e4m3",
    "torch.float8_e5m2": "fp8_e5m2",
    "torch.uint8": "uint8",
    # No type of DLPack: bytes.
    "fp8_e4m3b15": "uint8",
}
_SIZES = {"float32": 4, "int32": 4, "uint32": 4, "bfloat16": 2, "float16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "uint8": 1}


class RawGpuBuffer:
    """`nelems` zeroed bytes of the current device, or of the host on a machine without CUDA devices (with PyTorch).

    The first `to_dlpack` passes the memory to the tensor that imports the capsule. Raises `ValueError` for 0 bytes and
    `mscclpp_rs.Error` if there is not enough memory.
    """

    def __init__(
        self, nelems: int, granularity: GpuBufferGranularity = GpuBufferGranularity.MultiCastMinimum
    ) -> None:
        if nelems < 1:
            raise ValueError(f"expected at least 1 byte, found {nelems}")
        self._bytes = nelems
        self._on_device = _native.has_devices()
        self._is_exported = False
        self._memory: Any
        if self._on_device:
            self._memory = _native.Allocation(nelems)
        else:
            import torch

            self._memory = torch.zeros(nelems, dtype=torch.uint8)

    def nelems(self) -> int:
        """Returns the number of bytes."""
        return self._bytes

    def bytes(self) -> int:
        """Returns the number of bytes."""
        return self._bytes

    def data(self) -> int:
        """Returns the address."""
        return int(self._memory.address if self._on_device else self._memory.data_ptr())

    def device_id(self) -> int:
        """Returns the number of the device; -1 for the host."""
        return self._memory.device if self._on_device else -1

    def to_dlpack(self, data_type: str, shape: Sequence[int] = (), strides: Sequence[int] = ()) -> Any:
        """Returns a capsule of DLPack for `torch.utils.dlpack.from_dlpack`.

        `data_type`: the name of a type of PyTorch, such as `str(torch.float16)`. `shape`: one dimension unless given; it
        has all bytes. Raises `ValueError` for an unsupported type and for strides, which are those of row-major order.
        """
        if data_type not in _TYPES:
            raise ValueError(f"expected one of {', '.join(_TYPES)}, found {data_type!r}")
        if strides:
            raise ValueError(f"expected row-major order without strides, found {list(strides)}")
        name = _TYPES[data_type]
        size = _SIZES[name]
        if self._bytes % size:
            raise ValueError(f"expected whole elements of {size} bytes, found {self._bytes} bytes")
        extents = list(shape) or [self._bytes // size]
        if self._on_device:
            return self._memory.to_dlpack(name, extents)
        if any(extent < 0 for extent in extents) or math.prod(extents) * size != self._bytes:
            raise ValueError(f"expected a shape of {self._bytes} bytes, found {extents} of {data_type}")
        if self._is_exported:
            raise ValueError("the memory is that of an earlier tensor; allocate again")
        import torch

        dtype = torch.uint8 if name == "uint8" else getattr(torch, data_type.removeprefix("torch."))
        capsule = self._memory.view(dtype).reshape(extents).__dlpack__()
        self._is_exported = True
        return capsule


def GpuBuffer(
    shape: int | Sequence[int],
    dtype: Any = float,
    strides: Sequence[int] | None = None,
    order: str = "C",
    granularity: GpuBufferGranularity = GpuBufferGranularity.MultiCastMinimum,
) -> Any:
    """Returns a zeroed array of cupy on memory that ranks share, or of numpy on a machine without CUDA devices.

    Raises `ValueError` for strides and for other orders than `C`: arrays are in row-major order.
    """
    import numpy

    if strides is not None or order != "C":
        raise ValueError(f"expected row-major order without strides, found order {order!r} and strides {strides!r}")
    extents: tuple[int, ...]
    try:
        extents = (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        extents = tuple(shape)  # type: ignore[arg-type]
    if any(extent < 1 for extent in extents):
        raise ValueError(f"expected a shape without zeros, found {extents}")
    if not _native.has_devices():
        return numpy.zeros(extents, dtype=dtype)
    import cupy  # type: ignore[import-not-found]

    nbytes = int(numpy.prod(extents)) * numpy.dtype(dtype).itemsize
    buffer = _native.Allocation(nbytes)
    memory = cupy.cuda.UnownedMemory(buffer.address, nbytes, buffer)
    return cupy.ndarray(extents, dtype=dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))
