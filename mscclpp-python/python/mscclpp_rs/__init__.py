"""Collective communication for PyTorch and Python, with plans that are proved correct.

``init_process_group("mscclpp")`` makes the backend of this package serve the calls of ``torch.distributed``. PyTorch 2.14 and later find it
by its name. Earlier versions find it when ``torch`` is imported, where the package is installed by pip; otherwise import
``mscclpp_rs`` after ``torch``.
"""

import sys
from typing import TYPE_CHECKING

from ._errors import (
    Error,
    InvalidInputError,
    MismatchError,
    RankLostError,
    ResourceError,
    TimeoutError,
    UnsupportedError,
)
from ._native import Finding, Location, Plan, PlanError, __version__
from ._plans import Timing, run, sizes, time

if TYPE_CHECKING:
    import torch

__all__ = [
    "Error",
    "Finding",
    "InvalidInputError",
    "Location",
    "MismatchError",
    "Plan",
    "PlanError",
    "RankLostError",
    "ResourceError",
    "TimeoutError",
    "Timing",
    "UnsupportedError",
    "__version__",
    "call_counts",
    "new_buffer",
    "register_backend",
    "register_plan",
    "run",
    "set_order",
    "sizes",
    "time",
]


def register_backend() -> None:
    """Registers the backend ``mscclpp`` with ``torch.distributed``, which it imports. Later calls change nothing."""
    from ._torch import register

    register()


def new_buffer(
    *shape: int, dtype: "torch.dtype | None" = None, group: "torch.distributed.ProcessGroup | None" = None
) -> "torch.Tensor":
    """Returns a tensor of zeros in registered memory of a process group, by default of all ranks; ``torch.float32`` by default.

    Calls of ``torch.distributed`` on it move no data besides the results: the other ranks of the node read and write it where it is. A call of
    all ranks of the group. Raises ``InvalidInputError`` if another backend serves the group, or a length is not positive.
    """
    import torch

    from ._torch import backend_of

    return backend_of(group).new_buffer(*shape, dtype=torch.float32 if dtype is None else dtype)


def set_order(order: str, group: "torch.distributed.ProcessGroup | None" = None) -> None:
    """Sets what calls of a process group demand of the order in which they reduce floats, by default those of all ranks.

    ``rank-order``: each element is reduced from left to right in the order of ranks, so that its bits depend neither on its place in a tensor,
    nor on the size of the tensor, nor on how a batch is divided into calls. ``same-on-all-ranks``, the default, ``in-switch`` and ``any``
    demand less. ``MSCCLPP_ORDER`` sets it for all groups. All ranks of the group set the same; calls of ranks that differ raise
    ``MismatchError``. Raises ``InvalidInputError`` for another name, or if another backend serves the group.
    """
    from ._torch import backend_of

    backend_of(group).set_order(order)


def call_counts(group: "torch.distributed.ProcessGroup | None" = None) -> dict[str, int]:
    """Returns how often each algorithm has served a call of this rank in a process group, by default that of all ranks.

    A started call is counted when it is done. Raises ``InvalidInputError`` if another backend serves the group.
    """
    from ._torch import backend_of

    return backend_of(group).call_counts()


def register_plan(plan: Plan, group: "torch.distributed.ProcessGroup | None" = None) -> str:
    """Adds a plan to a process group, by default that of all ranks, and returns its name.

    It serves the calls that it is for, in preference to those of this package: its collective, ranks, mode, sizes and reduction.
    ``MSCCLPP_PLANS`` names a folder of plans for all groups. A call of all ranks of the group, with the same plan. Raises
    ``InvalidInputError`` if the group has a plan of this name, or another backend serves it, and ``MismatchError`` if ranks differ.
    """
    from ._torch import backend_of

    return backend_of(group).register_plan(plan)


if "torch" in sys.modules and hasattr(sys.modules["torch"], "distributed"):
    register_backend()
