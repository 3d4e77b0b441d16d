"""The modules of FlashInfer that engines import for fused all-reduces."""

from __future__ import annotations

import importlib
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any


class CommBackend:
    """Base of what engines pass as ``comm_backend``."""


def is_mnnvl_fabric_supported(device_idx: int) -> bool:
    """Returns that memory is exchanged as file descriptors."""
    return False


class TorchDistBackend(CommBackend):
    """A process group, by default of all ranks."""

    def __init__(self, group: Any = None) -> None:
        self._group = group


#: What the modules have where FlashInfer is not installed: there are no compiled kernels, and thus no folder of them.
_MODULES: dict[str, dict[str, Any]] = {
    "flashinfer": {},
    "flashinfer.comm": {},
    "flashinfer.comm.mnnvl": {
        "CommBackend": CommBackend,
        "TorchDistBackend": TorchDistBackend,
        "is_mnnvl_fabric_supported": is_mnnvl_fabric_supported,
    },
    "flashinfer.jit": {},
    "flashinfer.jit.env": {"FLASHINFER_JIT_DIR": None},
}


def _module(name: str) -> types.ModuleType:
    """Returns a module of FlashInfer, or an empty one where it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError:
        pass
    module = types.ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


def install(functions: dict[str, Any]) -> None:
    """Makes ``flashinfer.comm`` have functions and classes, and makes the modules beside it where they are missing."""
    for name, items in _MODULES.items():
        module = _module(name)
        for item, value in items.items():
            if not hasattr(module, item):
                setattr(module, item, value)
    for item, value in functions.items():
        setattr(sys.modules["flashinfer.comm"], item, value)
