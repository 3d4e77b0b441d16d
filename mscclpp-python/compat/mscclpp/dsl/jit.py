"""`compile`: makes the plan of a program, as the integration guide of the DSL uses it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from mscclpp._core.comm import ExecutionPlan
from mscclpp.language.collectives import AllGather, AllReduce, AllToAll, Collective, ReduceScatter, SendRecv
from mscclpp.language.program import CollectiveProgram
from mscclpp.language.utils import AlgoSpec
from mscclpp.plan import ExecutionPlanHandle

__all__ = ["compile"]

_COLLECTIVES: dict[str, type[Collective]] = {
    kind.name: kind for kind in (AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv)
}


def compile(
    algo: Callable[..., CollectiveProgram],
    name: str,
    collective: str,
    nranks_per_node: int,
    world_size: int,
    instances: int = 1,
    protocol: str = "Simple",
    num_threads_per_block: int = 1024,
    min_msg_size: int = 0,
    max_msg_size: int = 2**64 - 1,
    tags: Mapping[str, int] | Collection[str] = (),
    rank: int | None = None,
    in_place: bool = True,
    chunk_factor: int = 1,
    **options: Any,
) -> ExecutionPlanHandle:
    """Runs a program and returns its plan for the registry.

    `algo` takes an `AlgoSpec`, or `name, gpu_size, num_threads_per_block, min_message_size, max_message_size`. `rank`:
    `RANK` of the environment unless given, or 0. `options`: further fields of `AlgoSpec`.

    Raises `ValueError` for an unknown collective and `mscclpp_rs.PlanError` if the plan is rejected.
    """
    if collective not in _COLLECTIVES:
        raise ValueError(f"expected one of {', '.join(sorted(_COLLECTIVES))}, found {collective!r}")
    named = dict(tags) if isinstance(tags, Mapping) else {tag: 1 for tag in tags}
    spec = AlgoSpec(
        name=name,
        collective=_COLLECTIVES[collective](world_size, chunk_factor, in_place),
        nranks_per_node=nranks_per_node,
        world_size=world_size,
        in_place=in_place,
        instances=instances,
        protocol=protocol,
        num_threads_per_block=num_threads_per_block,
        min_message_size=min_msg_size,
        max_message_size=max_msg_size,
        tags=named,
        **options,
    )
    if "gpu_size" in inspect.signature(algo).parameters:
        program = algo(name, world_size, num_threads_per_block, min_msg_size, max_msg_size)
    else:
        program = algo(spec)
    if not isinstance(program, CollectiveProgram):
        raise TypeError(f"expected {algo!r} to return a CollectiveProgram, found {program!r}")
    plan = program.plan()
    own = int(os.environ.get("RANK", "0")) if rank is None else rank
    execution_plan = ExecutionPlan.from_plan(plan, own)
    return ExecutionPlanHandle.create(plan.digest, world_size, nranks_per_node, execution_plan, named)
