"""Algorithms that are kernels of CUDA source."""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING

from mscclpp._core.types import DataType, ReduceOp
from mscclpp_rs import UnsupportedError
from mscclpp_rs._native import Kernel, KernelChannels, KernelModule

if TYPE_CHECKING:
    from mscclpp._core.comm import Communicator

__all__ = ["HEADER", "NativeAlgorithm", "NativeModule"]

#: Name and text of the header that declares the argument of kernels.
HEADER = ("mscclpp_native.h", resources.files("mscclpp._core").joinpath("native.h").read_text())
# As in the header: what precedes the barrier and the channels, and the length of a channel.
_CALL = struct.Struct("<7Q4I")
_CHANNEL_BYTES = 72
_MAX_RANKS = 48
# The collectives by name, with how many of the smaller buffer make the larger one: as input, and as output.
_COLLECTIVES: dict[str, Callable[[int], tuple[int, int]]] = {
    "allreduce": lambda ranks: (1, 1),
    "allgather": lambda ranks: (ranks, 1),
    "reducescatter": lambda ranks: (1, ranks),
    "alltoall": lambda ranks: (1, 1),
    "broadcast": lambda ranks: (1, 1),
    "reduce": lambda ranks: (1, 1),
    "sendrecv": lambda ranks: (1, 1),
}


class NativeAlgorithm:
    """A kernel as an algorithm: what `Algorithm.create_from_native_capsule` takes.

    `shared_bytes`: memory of each rank that the kernels of the others access, at least that of the largest call. `nblocks` and
    `nthreads_per_block`: of calls that name none; the blocks of a rank must run at the same time.
    """

    def __init__(
        self,
        kernel: Kernel,
        collective: str,
        shared_bytes: int = 1 << 20,
        nblocks: int = 4,
        nthreads_per_block: int = 256,
    ) -> None:
        if collective not in _COLLECTIVES:
            raise ValueError(f"expected one of {', '.join(sorted(_COLLECTIVES))} as the collective, found {collective!r}")
        for name, value in (("shared_bytes", shared_bytes), ("nblocks", nblocks), ("nthreads_per_block", nthreads_per_block)):
            if value < 1:
                raise ValueError(f"{name}: expected at least 1, found {value}")
        self.kernel = kernel
        self.collective = collective
        self.shared_bytes = shared_bytes
        self._grid = (nblocks, nthreads_per_block)
        self._connections: dict[object, _Connection] = {}

    @property
    def name(self) -> str:
        return self.kernel.name

    def serves(self, input_size: int, output_size: int) -> bool:
        """Returns whether the shared memory is large enough for a call."""
        return max(input_size, output_size) <= self.shared_bytes

    def launch(
        self,
        comm: Communicator,
        input: tuple[int, int],
        output: tuple[int, int],
        dtype: DataType,
        op: ReduceOp,
        stream: int,
        nblocks: int = 0,
        nthreads_per_block: int = 0,
    ) -> None:
        """Enqueues a call on addresses and bytes. The first one on a communicator connects its ranks."""
        inputs, outputs = _COLLECTIVES[self.collective](comm.native.size)
        if input[1] * inputs != output[1] * outputs:
            raise ValueError(
                f"{self.collective}: expected {inputs} times the input's bytes to be {outputs} times the output's, found "
                f"{input[1]} and {output[1]} bytes"
            )
        if input[1] == 0:
            return
        for what, (address, nbytes) in (("input", input), ("output", output)):
            if address <= 0:
                raise ValueError(f"{what}: expected the address of {nbytes} bytes, found {address:#x}")
        blocks, threads = nblocks or self._grid[0], nthreads_per_block or self._grid[1]
        resident = self.kernel.max_resident_blocks(threads)
        if blocks > resident:
            raise ValueError(
                f"{self.name}: expected at most {resident} blocks of {threads} threads, which run at the same time, found {blocks}"
            )
        connection = self._connections.get(comm.native)
        if connection is None:
            connection = _Connection(comm, self.shared_bytes)
            self._connections[comm.native] = connection
        argument = connection.argument(input, output, DataType(dtype), ReduceOp(op))
        self.kernel.launch(stream, blocks, threads, argument)

    def synchronize(self, comm: Communicator, stream: int = 0) -> None:
        """Waits until the calls on a stream are complete. Raises `mscclpp_rs.Error` if a kernel has waited longer than the timeout."""
        connection = self._connections.get(comm.native)
        if connection is not None:
            connection.channels.synchronize(stream)

    def reset(self) -> None:
        """Drops the connections. No kernel of any rank may use them any more: synchronize, then `CommGroup.barrier`, before it."""
        self._connections.clear()


class _Connection:
    """Channels between the ranks of a communicator, and the calls over them."""

    def __init__(self, comm: Communicator, shared_bytes: int) -> None:
        self._rank, self._size = comm.native.rank, comm.native.size
        if self._size > _MAX_RANKS:
            raise UnsupportedError(f"native algorithm: expected at most {_MAX_RANKS} ranks, found {self._size}")
        self.channels = KernelChannels(comm.native, shared_bytes, 1, 0, 1)
        self._number = 0
        self._input: tuple[int, int] | None = None
        self._rest = b""

    def argument(self, input: tuple[int, int], output: tuple[int, int], dtype: DataType, op: ReduceOp) -> bytes:
        """Returns the argument of the next call."""
        if self._input != input:
            channels = b"".join(self.channels.memory(peer, 0, input) for peer in range(self._size))
            self._rest = self.channels.barrier(0) + channels.ljust(_CHANNEL_BYTES * _MAX_RANKS, b"\0")
            self._input = input
        numbers = (input[0], output[0], input[1], output[1], self.channels.address, self.channels.bytes, self._number)
        self._number += 1
        return _CALL.pack(*numbers, self._rank, self._size, dtype, op) + self._rest


class NativeModule:
    """Kernels of a CUDA source, loaded on the current device: what `mscclpp.compile_native` returns.

    `create_NAME_algorithm()` makes an algorithm of the kernel NAME, whose collective is the beginning of the name, such as
    `allgather` or `allgather_custom`.
    """

    def __init__(self, name: str, title: str, text: str, headers: dict[str, str], defines: dict[str, str]) -> None:
        self.__name__ = name
        self._module = KernelModule(title, text, [HEADER, *headers.items()], list(defines.items()))

    @property
    def log(self) -> str:
        """The output of the compiler: registers, stack and spills of each kernel."""
        return self._module.log

    @property
    def device(self) -> int:
        """The number of the device."""
        return self._module.device

    def function(self, name: str) -> Kernel:
        """Returns a kernel, to be launched with an argument of its own. Raises `mscclpp_rs.Error` if there is none of this name."""
        return self._module.function(name)

    def algorithm(self, kernel: str, collective: str | None = None, **options: int) -> NativeAlgorithm:
        """Returns an algorithm of a kernel whose argument is `mscclpp::NativeCall`. `options`: those of `NativeAlgorithm`."""
        return NativeAlgorithm(self._module.function(kernel), collective or kernel.split("_")[0], **options)

    def __getattr__(self, name: str) -> Callable[..., NativeAlgorithm]:
        kernel = name.removeprefix("create_").removesuffix("_algorithm")
        if name != f"create_{kernel}_algorithm":
            raise AttributeError(f"expected create_NAME_algorithm for the kernel NAME of {self.__name__}, found {name}")
        return lambda **options: self.algorithm(kernel, **options)
