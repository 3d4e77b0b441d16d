"""Plans for calls of `torch.distributed`."""

from __future__ import annotations

from mscclpp._core.comm import ExecutionPlan
from mscclpp_rs import _selection

__all__ = ["register"]

_names: set[str] = set()


def register(plan: ExecutionPlan) -> str:
    """Adds a plan to the groups that are created afterwards, those of the backend `mscclpp`, and of nccl where this project's library serves it.

    Returns the name under which calls have it.
    """
    # Plans of one name are told apart.
    name = f"{plan.name}-{plan.plan.digest}"
    if name not in _names:
        _selection.register_plan(plan.plan, name)
        _names.add(name)
    return name
