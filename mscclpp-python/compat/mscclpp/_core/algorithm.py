"""Algorithms and collections of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from mscclpp._core.comm import Communicator, ExecutionPlan, Executor, checked, execute
from mscclpp._core.default_algorithm import DefaultAlgorithm
from mscclpp._core.native import NativeAlgorithm
from mscclpp._core.native_module import HostAlgorithm, is_capsule
from mscclpp._core.types import CollectiveBufferMode, CommResult, DataType, ReduceOp
from mscclpp_rs import Error
from mscclpp_rs._native import Target

__all__ = ["Algorithm", "AlgorithmBuilder", "AlgorithmCollection"]

_logger = logging.getLogger("mscclpp")



class Algorithm:
    """An algorithm that serves calls: a plan, a built-in algorithm, or a kernel."""

    class Constraint:
        """The world that an algorithm is for; 0 is any."""

        def __init__(self, world_size: int = 0, n_ranks_per_node: int = 0) -> None:
            self.world_size = world_size
            self.n_ranks_per_node = n_ranks_per_node

    def __init__(
        self,
        id: str | None = None,
        execution_plan: ExecutionPlan | None = None,
        native_handle: str | None = None,
        tags: dict[str, int] | None = None,
        constraint: Constraint | None = None,
        *,
        name: str | None = None,
        collective: str | None = None,
    ) -> None:
        if (execution_plan is None) == (native_handle is None):
            raise ValueError("expected an execution plan, or the name of a built-in algorithm as native_handle")
        if execution_plan is not None and not isinstance(execution_plan, ExecutionPlan):
            raise TypeError(f"expected an ExecutionPlan as execution_plan, found {execution_plan!r}")
        self.id = id
        self._plan = execution_plan
        self._native = native_handle
        self._kernel: NativeAlgorithm | None = None
        self._host: HostAlgorithm | None = None
        self._target: Target | None = None
        self._default: DefaultAlgorithm | None = None
        self._scratch_bytes = 0
        self.tags = dict(tags or {})
        self.constraint = constraint or Algorithm.Constraint()
        if execution_plan is not None:
            self.name = name or execution_plan.name
            self.collective = execution_plan.collective
            self._range = (execution_plan.min_message_size, execution_plan.max_message_size)
        else:
            self.name = name or str(native_handle)
            self.collective = collective or self.name.removeprefix("default_").split("_")[0]
            self._range = (0, 2**64 - 1)

    @classmethod
    def create_from_native_capsule(cls, obj: object) -> Algorithm:
        """Returns the algorithm of a capsule that a module of `mscclpp.compile_native` makes, or of its `create_NAME_algorithm()`.

        Raises `TypeError` for anything else, such as a capsule of the reference's own library, whose objects have another layout.
        """
        if is_capsule(obj):
            return cls._of_host(HostAlgorithm(obj))
        if not isinstance(obj, NativeAlgorithm):
            raise TypeError(
                "expected an algorithm of the module that mscclpp.compile_native returns, such as a capsule with the name "
                f"mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME, found {obj!r}"
            )
        algorithm = cls(native_handle=obj.name, collective=obj.collective)
        algorithm._kernel = obj
        algorithm._range = (0, obj.shared_bytes)
        return algorithm

    @classmethod
    def of_default(cls, default: DefaultAlgorithm, scratch_bytes: int) -> Algorithm:
        """Returns one of the reference's default algorithms."""
        algorithm = cls(native_handle=default.name)
        algorithm._default = default
        algorithm._scratch_bytes = scratch_bytes
        return algorithm

    @classmethod
    def _of_host(cls, host: HostAlgorithm) -> Algorithm:
        constraint = cls.Constraint(host.world_size, host.ranks_per_node)
        algorithm = cls(native_handle=host.name, tags=host.tags, constraint=constraint, collective=host.collective)
        algorithm._host = host
        algorithm._range = host.range
        return algorithm

    @property
    def execution_plan(self) -> ExecutionPlan | None:
        """The plan, of an algorithm that has one."""
        return self._plan

    @property
    def message_size_range(self) -> tuple[int, int]:
        """The smallest and the largest message in bytes."""
        return self._range

    def set_message_size_range(self, min_message_size: int, max_message_size: int) -> None:
        """Sets the messages that selectors should select the algorithm for. Raises `TypeError` for plans."""
        if self._plan is not None:
            raise TypeError("the range of a plan is that of its program")
        if not 0 <= min_message_size <= max_message_size:
            raise ValueError(f"expected a range of bytes, found {min_message_size} to {max_message_size}")
        self._range = (min_message_size, max_message_size)
        if self._host is not None:
            self._host.set_range(min_message_size, max_message_size)

    @property
    def buffer_mode(self) -> CollectiveBufferMode:
        """Whether calls are in place."""
        if self._plan is None:
            return CollectiveBufferMode.ANY if self._host is None else CollectiveBufferMode(self._host.buffer_mode)
        return CollectiveBufferMode.IN_PLACE if self._plan.is_in_place else CollectiveBufferMode.OUT_OF_PLACE

    def _find_target(self) -> Target:
        """Returns what calls take, which is made once."""
        if self._target is None:
            self._target = self._plan.target if self._plan is not None else Target(None, self._native or "", self.collective)
        return self._target

    def is_dsl_algorithm(self) -> bool:
        """Returns whether the algorithm is a plan."""
        return self._plan is not None

    def is_native_algorithm(self) -> bool:
        """Returns whether the algorithm is a built-in one or a kernel."""
        return self._plan is None

    def execute(
        self,
        comm: Communicator,
        input_buffer: int,
        output_buffer: int,
        input_size: int,
        output_size: int,
        dtype: DataType,
        op: ReduceOp = ReduceOp.NOP,
        stream: int = 0,
        executor: Executor | None = None,
        nblocks: int = 0,
        nthreads_per_block: int = 0,
        symmetric_memory: bool = False,
        extras: dict[str, int] | None = None,
        accum_dtype: DataType | None = None,
    ) -> int:
        """Makes a call on `input_size` bytes at `input_buffer` and `output_size` bytes at `output_buffer`.

        A call of all ranks. `nblocks` and `nthreads_per_block` configure built-in algorithms; 0 is their usual number. Plans have their own.
        `symmetric_memory`: input and output are at the same places of a `RawGpuBuffer` each on all ranks. The first call of an
        allocation registers it, and calls use it in place; without, what other ranks access is copied. On devices the call is
        enqueued on `stream`, else it is complete when it returns; the memory must exist until then. `executor` has no effect.

        Returns 0. If the algorithm does not serve the call, logs why and returns, on all ranks, 5 (`CommResult.COMM_INVALID_USAGE`),
        or 4 (`COMM_INVALID_ARGUMENT`) where a default algorithm refuses a size, or numbers of blocks and threads, as the reference's
        does. Raises `mscclpp_rs.Error` for other failures, such as other memory with `symmetric_memory`. Algorithms of capsules take
        `extras`, `symmetric_memory` and `accum_dtype`, return what their functions return, and raise what these throw.
        """
        comm = checked(comm)
        memory = ((int(input_buffer), input_size), (int(output_buffer), output_size))
        if self._host is not None:
            return self._host.launch(
                comm,
                *memory,
                DataType(dtype),
                ReduceOp(op),
                int(stream),
                (nblocks, nthreads_per_block),
                symmetric_memory,
                extras or {},
                accum_dtype,
            )
        if accum_dtype is not None and accum_dtype != dtype:
            raise ValueError(f"expected sums in the elements' type {dtype!r}, found accum_dtype {accum_dtype!r}")
        if extras:
            raise ValueError(f"expected no extras, found {sorted(extras)}")
        if self._kernel is not None:
            if not self._kernel.serves(input_size, output_size):
                _logger.warning("%s of %d bytes with %s: expected at most %d bytes", self.collective, input_size, self.name, self._range[1])
                return int(CommResult.COMM_INVALID_USAGE)
            self._kernel.launch(comm, *memory, dtype, op, int(stream), nblocks, nthreads_per_block)
            return int(CommResult.COMM_SUCCESS)
        if self._default is not None:
            limits = (input_size, self._scratch_bytes, nblocks, nthreads_per_block)
            if reason := self._default.refusal(comm.native.size - 1, *limits):
                _logger.warning("%s of %d bytes with %s: %s", self.collective, input_size, self.name, reason)
                return int(CommResult.COMM_INVALID_ARGUMENT)
            nblocks = self._default.blocks(nblocks)
        try:
            execute(
                comm,
                self._find_target(),
                *memory,
                dtype,
                op,
                int(stream),
                nblocks or None,
                nthreads_per_block or None,
                symmetric=symmetric_memory,
            )
        except Error as error:
            if error.kind != "unsupported":
                raise
            _logger.warning("%s of %d bytes with %s: %s", self.collective, input_size, self.name, error)
            return int(CommResult.COMM_INVALID_USAGE)
        return int(CommResult.COMM_SUCCESS)

    def synchronize(self, comm: Communicator, stream: int = 0) -> None:
        """Waits until the kernels of an algorithm on a stream are complete.

        Raises `mscclpp_rs.Error` with the channel if one has waited longer than the timeout. Plans and built-in algorithms have no kernels of
        their own to wait for: `torch.cuda.synchronize` waits for them.
        """
        native = self._host or self._kernel
        if native is not None:
            native.synchronize(checked(comm), int(stream))

    def reset(self) -> None:
        """Drops the connections of a kernel's ranks. What is prepared for others belongs to the communicator: `Executor.reset` releases it."""
        native = self._host or self._kernel
        if native is not None:
            native.reset()


class AlgorithmBuilder:
    """Builds an algorithm."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm

    def build(self) -> Algorithm:
        """Returns the algorithm."""
        return self._algorithm


class AlgorithmCollection:
    """Algorithms by collective and name."""

    def __init__(self, algorithms: list[Algorithm] | None = None, selectors: tuple[Any, Any] = (None, None)) -> None:
        self._algorithms = list(algorithms or [])
        self._selectors = selectors

    def __iter__(self) -> Iterator[Algorithm]:
        return iter(self._algorithms)

    def __len__(self) -> int:
        return len(self._algorithms)

    def __getitem__(self, index: int) -> Algorithm:
        return self._algorithms[index]

    def get_by_collective(self, collective: str) -> list[Algorithm]:
        """Returns the algorithms of a collective."""
        return [algorithm for algorithm in self._algorithms if algorithm.collective == collective]

    def register_algorithm(self, collective: str, algo_name: str, algorithm: Algorithm) -> None:
        """Adds an algorithm. Raises `ValueError` for another collective than its own."""
        if collective != algorithm.collective:
            raise ValueError(f"expected the collective {algorithm.collective} of {algo_name}, found {collective}")
        algorithm.name = algo_name
        self._algorithms.append(algorithm)

    def by_name(self) -> dict[str, dict[str, Algorithm]]:
        """Returns the algorithms by collective and name, as selectors get them."""
        found: dict[str, dict[str, Algorithm]] = {}
        for algorithm in self._algorithms:
            found.setdefault(algorithm.collective, {})[algorithm.name] = algorithm
        return found

    def select(self, request: Any) -> Algorithm | None:
        """Returns what the selector selects for a request (`mscclpp.Request`), or else the fallback selector.

        Raises `TypeError` if one returns anything but an algorithm or `None`.
        """
        for selector in self._selectors:
            found: object = selector(self.by_name(), request) if selector is not None else None
            if isinstance(found, Algorithm):
                return found
            if found is not None:
                raise TypeError(f"expected the selector to return an Algorithm or None, found {found!r}")
        return None
