"""Programs."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any

from mscclpp.language.channel import *
from mscclpp.language.collectives import *
from mscclpp.language.internal.globals import get_program, place, set_program
from mscclpp.language.internal.types import BufferType, ChannelType, Chunk, ReduceOperationType, SyncType
from mscclpp.language.internal.unchecked import plan_for_json
from mscclpp.language.loop import LoopIterationContext
from mscclpp.language.rank import BaseBuffer, Semaphore, rank_number
from mscclpp.language.utils import AlgoSpec, ReplicationPolicy
from mscclpp_rs import Plan, PlanError
from mscclpp_rs._native import Handle, Recorder


class CollectiveProgram:
    """A program that implements a collective: `with CollectiveProgram(...):`, in which ranks and channels record.

    `instances`: copies of the program, each of which processes its own part of every chunk.
    `protocol`: `Simple`, or `LL` with scratch that is sized for packets.
    `instr_fusion`: whether neighboring operations are fused. `auto_sync`: whether block syncs are inserted between
    dependent operations of a thread block.
    `reuse_resources`: whether launches of all sizes share one scratch pool.
    `use_double_scratch_buffer`: whether launches alternate between two halves of scratch.
    `buffer_alignment`: granularity of chunk boundaries in bytes, a power of two.
    `min_message_size`, `max_message_size`: the messages, in bytes, for which the plan is meant.
    `nranks_per_node` (of this package): ranks per node; all of them unless given.

    Raises `mscclpp_rs.PlanError` for options that contradict each other, `TypeError` and `ValueError` for others.
    """

    def __init__(
        self,
        name: str,
        collective: Collective,
        num_ranks: int,
        instances: int = 1,
        protocol: str = "Simple",
        instr_fusion: bool = True,
        auto_sync: bool = True,
        replication_policy: ReplicationPolicy = ReplicationPolicy.interleaved,
        reuse_resources: bool = False,
        num_threads_per_block: int = 1024,
        use_double_scratch_buffer: bool = False,
        buffer_alignment: int = 16,
        min_message_size: int = 0,
        max_message_size: int = 2**64 - 1,
        *,
        nranks_per_node: int | None = None,
        tags: dict[str, int] | None = None,
    ) -> None:
        if not isinstance(collective, Collective):
            raise TypeError(f"expected a Collective, such as AllReduce(2, 1, True), found {collective!r}")
        if not isinstance(replication_policy, ReplicationPolicy):
            raise TypeError(
                "expected a ReplicationPolicy as replication_policy, such as ReplicationPolicy.interleaved, found "
                f"{replication_policy!r}"
            )
        if collective.num_ranks != num_ranks:
            raise ValueError(
                f"the collective has {collective.num_ranks} ranks and the program {num_ranks}; give both the same number"
            )
        self.name = name
        self.collective = collective
        self.num_ranks = num_ranks
        self.instances = instances
        self.protocol = protocol
        self.instr_fusion = instr_fusion
        self.auto_sync = auto_sync
        self.replication_policy = replication_policy
        self.reuse_resources = reuse_resources
        self.num_threads_per_block = num_threads_per_block
        self.use_double_scratch_buffer = use_double_scratch_buffer
        self.buffer_alignment = buffer_alignment
        self.min_message_size = min_message_size
        self.max_message_size = max_message_size
        self.buffers = collective.init_buffers()
        num_input, num_output = self._chunks()
        self._spec = {
            "name": name,
            "collective": collective.name,
            "input_chunks": num_input,
            "output_chunks": num_output,
            "chunk_factor": collective.chunk_factor,
            "in_place": collective.inplace,
            "num_ranks": num_ranks,
            "ranks_per_node": num_ranks if nranks_per_node is None else nranks_per_node,
            "instances": instances,
            "protocol": protocol,
            "instr_fusion": instr_fusion,
            "auto_sync": auto_sync,
            "replicate": replication_policy is not ReplicationPolicy.none,
            "reuse_resources": reuse_resources,
            "num_threads_per_block": num_threads_per_block,
            "use_double_scratch_buffer": use_double_scratch_buffer,
            "buffer_alignment": buffer_alignment,
            "min_message_size": min_message_size,
            "max_message_size": max_message_size,
            "tags": {} if tags is None else dict(tags),
        }
        self._recorder = Recorder(self._spec)
        # The loop that is open.
        self._loop: LoopIterationContext | None = None
        # The programs around this one, which may be entered again within itself.
        self._outer: list[CollectiveProgram | None] = []

    @classmethod
    def from_spec(cls, spec: AlgoSpec) -> CollectiveProgram:
        """Returns the program of a specification."""
        return cls(
            spec.name,
            spec.collective,
            spec.world_size,
            instances=spec.instances,
            protocol=spec.protocol,
            instr_fusion=spec.instr_fusion,
            auto_sync=spec.auto_sync,
            replication_policy=spec.replication_policy,
            reuse_resources=spec.reuse_resources,
            num_threads_per_block=spec.num_threads_per_block,
            use_double_scratch_buffer=spec.use_double_scratch_buffer,
            buffer_alignment=spec.buffer_alignment,
            min_message_size=spec.min_message_size,
            max_message_size=spec.max_message_size,
            nranks_per_node=spec.nranks_per_node,
            tags=spec.tags,
        )

    @classmethod
    def from_builtin(cls, spec: AlgoSpec, algorithm: str, **arguments: int) -> CollectiveProgram:
        """Returns the complete program of a built-in algorithm (`mscclpp plan list`) with a specification.

        Raises `ValueError` for a specification or arguments that the algorithm does not support.
        """
        program = cls.from_spec(spec)
        program._recorder = Recorder.builtin(program._spec, algorithm, arguments)
        return program

    def __enter__(self) -> CollectiveProgram:
        self._outer.append(set_program(self))
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        set_program(self._outer.pop())

    def plan(self, *, check: bool = True, allow: list[str] | None = None) -> Plan:
        """Ends the program and returns its plan, after the checks.

        `check=False` makes the plan without the checks. `allow` lists the rules, such as `M0226`, whose findings are
        accepted. Raises `mscclpp_rs.PlanError` with the findings of the program, or else of the checks.
        """
        return self._recorder.plan(check=check, allow=allow or [])

    def to_json(self, indent: int | str | None = 2, *, check: bool = True, **kwargs: Any) -> str:
        """Ends the program and returns its plan as JSON; `indent` and further arguments are those of `json.dumps`.

        Raises as `plan` does. With `MSCCLPP_UNCHECKED_JSON=1` the findings of the checks are warnings on standard error instead.
        """
        plan = plan_for_json(lambda checks: self.plan(check=checks)) if check else self.plan(check=False)
        return json.dumps(json.loads(plan.to_json(pretty=False)), indent=indent, **kwargs)

    def post_process_operations(self) -> None:
        """Does nothing: a plan is complete when it is made, and making it twice gives the same plan."""

    def _chunks(self) -> tuple[int, int]:
        """Returns the chunks of every rank's input and output."""
        if len(self.buffers) != self.num_ranks:
            raise ValueError(f"init_buffers returns the buffers of {len(self.buffers)} ranks, expected {self.num_ranks}")
        sizes = {(buffers[BufferType.input].size, buffers[BufferType.output].size) for buffers in self.buffers}
        if len(sizes) != 1:
            raise ValueError(f"init_buffers returns buffers of different sizes, expected equal ones, found {sorted(sizes)}")
        return sizes.pop()

    def _call(self, receiver: Handle | None, method: str, *arguments: object) -> Handle:
        """Calls the recorder, which knows the place in the program."""
        handle: Handle = self._recorder.call(place(), receiver, method, arguments)
        return handle

    def _chunk(self, chunk: object, parameter: str) -> Handle:
        """Returns the recorder's handle of a chunk."""
        if not isinstance(chunk, Chunk):
            raise TypeError(f"expected a Chunk as {parameter}, such as buffer[0:1], found {chunk!r}")
        if not isinstance(chunk.buffer, BufferType):
            raise TypeError(f"expected a BufferType as the buffer of {parameter}, found {chunk.buffer!r}")
        end = chunk.index + chunk.size
        return self._recorder.chunk(place(), rank_number(self, chunk.rank), chunk.buffer.name, chunk.index, end)

    def _begin_pipeline(self, unit: int, num_chunks: int) -> None:
        self._recorder.begin_pipeline(place(), max(unit, 0), max(num_chunks, 0))

    def _end_pipeline(self) -> None:
        self._recorder.end_pipeline()

    def _reject(self, code: str, message: str, help: str) -> None:
        self._recorder.reject(place(), code, message, help)
