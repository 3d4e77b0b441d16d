"""Communicators, by the module that the integration guide of the DSL names."""

from mscclpp._core.comm import CommGroup, Communicator

__all__ = ["CommGroup", "Communicator"]
