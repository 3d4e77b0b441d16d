"""Collective communication for PyTorch and Python, with plans that are proved correct."""

from ._native import __version__

__all__ = ["__version__"]
