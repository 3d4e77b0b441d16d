"""All-reduce over two or more nodes."""

from __future__ import annotations

from mscclpp.default_algos._size import positive
from mscclpp.language.program import CollectiveProgram
from mscclpp.language.utils import AlgoSpec

__all__ = ["allreduce_multi_nodes"]


def allreduce_multi_nodes(spec: AlgoSpec, thread_block_group_size: int) -> CollectiveProgram:
    """All-reduce with packets over two or more nodes; each transfer is divided among that many thread blocks.

    In place. Raises `ValueError` for an unsupported specification.
    """
    return CollectiveProgram.from_builtin(spec, "allreduce_hierarchical_packets", group=positive(thread_block_group_size))
