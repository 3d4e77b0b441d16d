"""Buffers of a rank."""

from enum import Enum

__all__ = ["Buffer"]


class Buffer(Enum):
    """A buffer; `intermediate` is another name of `scratch`."""

    input = "input"
    output = "output"
    scratch = "scratch"
    intermediate = "scratch"
