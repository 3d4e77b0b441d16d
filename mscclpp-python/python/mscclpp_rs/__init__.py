"""Collective communication for PyTorch and Python, with plans that are proved correct.

``init_process_group("mscclpp")`` makes the backend of this package serve the calls of ``torch.distributed``. PyTorch 2.14 and later find it
by its name. Earlier versions find it when ``torch`` is imported, where the package is installed by pip; otherwise import
``mscclpp_rs`` after ``torch``.
"""

import sys
from typing import TYPE_CHECKING

from . import _selection
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
from ._selection import Selector, SelectorCall, set_selector

if TYPE_CHECKING:
    import torch

    from ._torch import Backend
    from ._torch import Options as Options

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
    "Selector",
    "SelectorCall",
    "TimeoutError",
    "Timing",
    "UnsupportedError",
    "__version__",
    "all_to_all_single",
    "call_counts",
    "new_buffer",
    "register_backend",
    "register_plan",
    "run",
    "set_order",
    "set_selector",
    "sizes",
    "time",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        # It is a class of PyTorch's, which not all programs have.
        if name == "Options":
            from ._torch import Options

            return Options
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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


def all_to_all_single(
    output: "torch.Tensor",
    input: "torch.Tensor",
    output_split_sizes: "torch.Tensor",
    input_split_sizes: "torch.Tensor",
    group: "torch.distributed.ProcessGroup | None" = None,
    max_split_size: int | None = None,
) -> None:
    """Sends the first ``input_split_sizes[0]`` rows of ``input`` to rank 0, the next ``input_split_sizes[1]`` to rank 1 and so on.

    Unlike ``torch.distributed.all_to_all_single``, a rank need not know how many rows it receives: they are written one after the other to
    ``output``, which may be longer, and their numbers to ``output_split_sizes``. Sizes are tensors of int64 with an entry for each rank. A
    call of all ranks of the group, by default of all ranks. Raises ``InvalidInputError``, on all ranks and before rows are moved, if the
    output of one of them is too short, and if another backend serves the group.

    All tensors are on the CPU or on one device. On a device, the call is enqueued on the current stream and does not wait for it; it may be
    captured in a graph, whose launches take the sizes that are in memory then. ``max_split_size``, by default the rows of ``input``, is the
    largest number of rows from one rank to another one, and the same on all ranks. Sizes that are too large are reported by a later
    synchronization with the group, on all ranks, and no rows are moved.
    """
    from ._torch import backend_of

    backend_of(group).all_to_all_rows(output, input, output_split_sizes, input_split_sizes, max_split_size)


def _backend(group: "torch.distributed.ProcessGroup | None") -> "Backend | None":
    """Returns the backend of a group; ``None`` before there is a group, and for groups of NCCL's interface."""
    if group is None and "torch" not in sys.modules:
        return None
    from ._torch import find_backend

    return find_backend(group)


def _has_groups() -> bool:
    """Returns whether there is a process group."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()


def set_order(order: str, group: "torch.distributed.ProcessGroup | None" = None) -> None:
    """Sets what calls of a process group demand of the order in which they reduce floats, by default those of all ranks.

    ``rank-order``: each element is reduced from left to right in the order of ranks, so that its bits depend neither on its place in a tensor,
    nor on the size of the tensor, nor on how a batch is divided into calls. ``same-on-all-ranks``: equal calls give equal bits; calls of the
    backend mscclpp demand at least that while ``torch.use_deterministic_algorithms`` is on. ``in-switch``, the default, and ``any`` demand
    less. ``MSCCLPP_ORDER`` sets it for all groups, and so does this function before the first group is created. For the backend nccl, on this
    project's library, it sets that of all groups of that backend. All ranks set the same; calls of ranks that differ fail. Raises
    ``InvalidInputError`` for another name, or if another backend serves the group.
    """
    backend = _backend(group)
    if backend is not None:
        backend.set_order(order)
        return
    _selection.set_order(order, is_of_nccl=_has_groups())


def call_counts(group: "torch.distributed.ProcessGroup | None" = None) -> dict[str, int]:
    """Returns how often each algorithm has served a call of this rank in a process group, by default that of all ranks.

    A started call is counted when it is done. For the backend nccl, on this project's library, calls of all groups are counted. Raises
    ``InvalidInputError`` if another backend serves the group.
    """
    backend = _backend(group)
    if backend is not None:
        return backend.call_counts()
    library = _selection.nccl()
    return {} if library is None else library.call_counts()


def register_plan(
    plan: Plan, group: "torch.distributed.ProcessGroup | None" = None, *, name: "str | None" = None
) -> str:
    """Adds a plan to a process group, by default that of all ranks, and returns its name, by default that of the plan.

    It serves the calls that it is for, in preference to those of this package: its collective, ranks, mode, sizes and reduction.
    Before the first group is created it is added to all groups, those of the backend nccl included if this project's NCCL library is loaded;
    ``MSCCLPP_PLANS`` names a folder of plans for all groups. A call of all ranks, with the same plan. Raises ``InvalidInputError`` if there is a
    plan of this name, or another backend serves the group, and ``MismatchError`` if ranks differ.
    """
    backend = _backend(group)
    if backend is not None:
        return backend.register_plan(plan, name)
    if "torch" in sys.modules and sys.modules["torch"].distributed.is_initialized():
        raise InvalidInputError("register_plan: communicators of NCCL have the plans that were registered before init_process_group")
    return _selection.register_plan(plan, name)


if "torch" in sys.modules and hasattr(sys.modules["torch"], "distributed"):
    register_backend()
