"""The specification of an algorithm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mscclpp.language.internal.types import ReplicationPolicy

if TYPE_CHECKING:
    from mscclpp.language.collectives import Collective

__all__ = ["AlgoSpec", "ReplicationPolicy"]


@dataclass(frozen=True)
class AlgoSpec:
    """How an algorithm is built, and when its plan may be selected.

    `CollectiveProgram` has the same options and documents them; a program that is made from a specification has the
    specification's `nranks_per_node` and `tags`, too. `in_place` repeats that of the collective.
    """

    name: str
    collective: Collective
    nranks_per_node: int
    world_size: int
    in_place: bool
    instances: int
    protocol: str
    instr_fusion: bool = True
    auto_sync: bool = True
    replication_policy: ReplicationPolicy = ReplicationPolicy.interleaved
    reuse_resources: bool = False
    num_threads_per_block: int = 1024
    use_double_scratch_buffer: bool = False
    buffer_alignment: int = 16
    min_message_size: int = 0
    max_message_size: int = 2**64 - 1
    tags: dict[str, int] = field(default_factory=dict)
