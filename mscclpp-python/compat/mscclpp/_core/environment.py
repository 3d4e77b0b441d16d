"""Variables of the environment as attributes, by the reference's names."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache

__all__ = ["Environment", "env"]


def _of(variable: str, default: str = "") -> str:
    name = f"MSCCLPP_{variable}"
    return field(default_factory=lambda: os.environ.get(name, default))


def _number_of(variable: str) -> int:
    name = f"MSCCLPP_{variable}"

    def read() -> int:
        text = os.environ.get(name, "0")
        named = {"true": 1, "false": 0}.get(text.lower())
        if named is None and not text.removeprefix("-").isdecimal():
            raise ValueError(f"{name}: expected a number, found {text!r}")
        return int(text) if named is None else named

    return field(default_factory=read)


@dataclass(frozen=True)
class Environment:
    """The variables as they were at the first call of `env`. Those without an effect here are shown all the same."""

    debug: str = _of("DEBUG")
    debug_subsys: str = _of("DEBUG_SUBSYS")
    debug_file: str = _of("DEBUG_FILE")
    hca_devices: str = _of("HCA_DEVICES")
    hostid: str = _of("HOSTID")
    socket_family: str = _of("SOCKET_FAMILY")
    socket_ifname: str = _of("SOCKET_IFNAME")
    comm_id: str = _of("COMM_ID")
    ibv_mode: str = _of("IBV_MODE", "host")
    cache_dir: str = _of("CACHE_DIR", os.path.join(os.path.expanduser("~"), ".cache", "mscclpp"))
    npkit_dump_dir: str = _of("NPKIT_DUMP_DIR")
    cuda_ipc_use_default_stream: int = _number_of("CUDAIPC_USE_DEFAULT_STREAM")
    ib_gid_index: int = _number_of("IB_GID_INDEX")


@cache
def env() -> Environment:
    """Returns the variables, read once. Raises `ValueError` for a variable that is no number where one is expected."""
    return Environment()
