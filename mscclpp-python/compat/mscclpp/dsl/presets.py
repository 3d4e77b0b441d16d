"""Algorithms that `jit.compile` takes as they are: built-in ones of `mscclpp_rs`, as programs of a specification."""

from __future__ import annotations

from mscclpp.default_algos import allgather_multi_nodes, allreduce_multi_nodes, reducescatter_multi_nodes
from mscclpp.language.program import CollectiveProgram
from mscclpp.language.utils import AlgoSpec

__all__ = [
    "allgather_all_pairs",
    "allgather_multi_nodes",
    "allreduce_all_pairs",
    "allreduce_multi_nodes",
    "allreduce_nvls",
    "allreduce_packets",
    "allreduce_ring",
    "reducescatter_all_pairs",
    "reducescatter_multi_nodes",
]


def allreduce_nvls(spec: AlgoSpec) -> CollectiveProgram:
    """All-reduce by the switch of a node. In place. Raises `ValueError` for an unsupported specification, as the others do."""
    return CollectiveProgram.from_builtin(spec, "allreduce_switch")


def allreduce_packets(spec: AlgoSpec) -> CollectiveProgram:
    """All-reduce of short messages by packets."""
    return CollectiveProgram.from_builtin(spec, "allreduce_packets")


def allreduce_all_pairs(spec: AlgoSpec) -> CollectiveProgram:
    """All-reduce in which each rank reduces its part and sends it to all."""
    return CollectiveProgram.from_builtin(spec, "allreduce_all_pairs")


def allreduce_ring(spec: AlgoSpec) -> CollectiveProgram:
    """All-reduce around a ring."""
    return CollectiveProgram.from_builtin(spec, "allreduce_ring")


def allgather_all_pairs(spec: AlgoSpec) -> CollectiveProgram:
    """All-gather in which each rank sends its input to all."""
    return CollectiveProgram.from_builtin(spec, "allgather_all_pairs")


def reducescatter_all_pairs(spec: AlgoSpec) -> CollectiveProgram:
    """Reduce-scatter in which each rank reduces its part."""
    return CollectiveProgram.from_builtin(spec, "reducescatter_all_pairs")
