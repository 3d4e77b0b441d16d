"""The language of collective programs.

Programs are recorded by the recorder of `mscclpp-rs` and checked by it: `to_json`, `JSON` and `plan` raise
`mscclpp_rs.PlanError` with the file and line of every place that is involved in a finding.
"""

from mscclpp.language.utils import AlgoSpec, ReplicationPolicy  # isort: skip
from mscclpp.language.channel import Channel, MemoryChannel, PortChannel, SwitchChannel
from mscclpp.language.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    Collective,
    ReduceScatter,
    SendRecv,
    TestCollective,
)
from mscclpp.language.general import JSON
from mscclpp.language.internal.types import BufferType, ChannelType, Chunk, ReduceOperationType, SyncType
from mscclpp.language.loop import Loop, LoopIterationContext
from mscclpp.language.program import CollectiveProgram
from mscclpp.language.rank import BaseBuffer, Buffer, Rank, Semaphore
from mscclpp.language.thread_block_group import ThreadBlockGroup

__all__ = [
    "JSON",
    "AlgoSpec",
    "AllGather",
    "AllReduce",
    "AllToAll",
    "BaseBuffer",
    "Buffer",
    "BufferType",
    "Channel",
    "ChannelType",
    "Chunk",
    "Collective",
    "CollectiveProgram",
    "Loop",
    "LoopIterationContext",
    "MemoryChannel",
    "PortChannel",
    "Rank",
    "ReduceOperationType",
    "ReduceScatter",
    "ReplicationPolicy",
    "Semaphore",
    "SendRecv",
    "SwitchChannel",
    "SyncType",
    "TestCollective",
    "ThreadBlockGroup",
]
