"""Reduce-scatter over two or more nodes."""

from __future__ import annotations

from dataclasses import replace

from mscclpp.default_algos._size import positive
from mscclpp.language.program import CollectiveProgram
from mscclpp.language.utils import AlgoSpec

__all__ = ["reducescatter_multi_nodes"]


def reducescatter_multi_nodes(spec: AlgoSpec, thread_block_group_size: int = 1) -> CollectiveProgram:
    """Reduce-scatter with packets over two or more nodes, in that many instances.

    In place. Raises `ValueError` for an unsupported specification.
    """
    spec = replace(spec, instances=spec.instances * positive(thread_block_group_size))
    return CollectiveProgram.from_builtin(spec, "reducescatter_hierarchical_packets")
