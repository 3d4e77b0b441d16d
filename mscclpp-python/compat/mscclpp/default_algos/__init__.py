"""The default algorithms for several nodes, as programs of a specification.

They are built-in algorithms of `mscclpp-rs`: the plans of all-reduce and all-gather equal those of the reference's
programs; that of reduce-scatter moves data in the same two steps in other slots.
"""

from __future__ import annotations

from dataclasses import replace

from mscclpp.language.program import CollectiveProgram
from mscclpp.language.utils import AlgoSpec

__all__ = ["allgather_multi_nodes", "allreduce_multi_nodes", "reducescatter_multi_nodes"]


def allgather_multi_nodes(spec: AlgoSpec) -> CollectiveProgram:
    """All-gather with packets over one or more nodes. Raises `ValueError` for an unsupported specification."""
    return CollectiveProgram.from_builtin(spec, "allgather_hierarchical_packets")


def allreduce_multi_nodes(spec: AlgoSpec, thread_block_group_size: int) -> CollectiveProgram:
    """All-reduce with packets over two or more nodes; each transfer is divided among that many thread blocks.

    In place. Raises `ValueError` for an unsupported specification.
    """
    return CollectiveProgram.from_builtin(spec, "allreduce_hierarchical_packets", group=_positive(thread_block_group_size))


def reducescatter_multi_nodes(spec: AlgoSpec, thread_block_group_size: int = 1) -> CollectiveProgram:
    """Reduce-scatter with packets over two or more nodes, in that many instances.

    In place. Raises `ValueError` for an unsupported specification.
    """
    spec = replace(spec, instances=spec.instances * _positive(thread_block_group_size))
    return CollectiveProgram.from_builtin(spec, "reducescatter_hierarchical_packets")


def _positive(size: int) -> int:
    if size < 1:
        raise ValueError(f"expected a thread block group of at least 1 thread block, found {size}")
    return size
