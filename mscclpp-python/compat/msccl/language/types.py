"""Enumerations of the language."""

from enum import Enum

__all__ = ["ChannelType", "DataFormat", "ReplicationPolicy"]


class ChannelType(Enum):
    """How an operation reaches another rank: the device copies, or a thread of the host."""

    sm = "sm"
    proxy = "proxy"
    memory = "sm"
    port = "proxy"


class DataFormat(Enum):
    """The source of a packet put: plain data, or packets in scratch."""

    raw = "raw"
    packet = "packet"


class ReplicationPolicy(Enum):
    """How instances divide chunks. Instances are interleaved under each of them."""

    duplicated = "duplicated"
    interleaved = "interleaved"
    none = "none"
