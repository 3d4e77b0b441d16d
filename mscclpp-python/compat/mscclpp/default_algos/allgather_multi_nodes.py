"""All-gather over one or more nodes."""

from __future__ import annotations

from mscclpp.language.program import CollectiveProgram
from mscclpp.language.utils import AlgoSpec

__all__ = ["allgather_multi_nodes"]


def allgather_multi_nodes(spec: AlgoSpec) -> CollectiveProgram:
    """All-gather with packets over one or more nodes. Raises `ValueError` for an unsupported specification."""
    return CollectiveProgram.from_builtin(spec, "allgather_hierarchical_packets")
