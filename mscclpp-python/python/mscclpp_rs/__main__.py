"""The command ``python -m mscclpp_rs``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import sys
from importlib import metadata

from . import __version__
from ._native import GIT_COMMIT


def _doctor() -> int:
    """Prints what the backend needs and finds here. Returns 1 if it cannot run."""
    problems = 0
    commit = f" of commit {GIT_COMMIT[:12]}" if GIT_COMMIT else ""
    print(f"mscclpp-rs {__version__}{commit}, Python {platform.python_version()}, {platform.platform()}")
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"processors: {processors}; more ranks than these wait for each other by yielding")
    if os.path.isdir("/dev/shm"):
        print(f"shared memory: {shutil.disk_usage('/dev/shm').free >> 20} MiB free in /dev/shm")
    if importlib.util.find_spec("torch") is None:
        print("PyTorch: not installed; expected 2.11 or later for the backend of torch.distributed")
        return 1
    import torch
    import torch.distributed as dist

    print(f"PyTorch: {torch.__version__}")
    if not dist.is_available():
        print("torch.distributed: not in this build of PyTorch")
        return 1
    names = {point.name for point in metadata.entry_points(group="torch.distributed.backends")}
    is_found = "mscclpp" in names and hasattr(dist.Backend, "_ensure_backend_registered")
    is_found = is_found or "MSCCLPP" in dist.Backend._plugins
    print("backend: init_process_group finds it by its name" if is_found else "backend: import mscclpp_rs before init_process_group")
    try:
        from ._torch import register

        register()
    except (RuntimeError, AttributeError) as error:
        print(f"backend: cannot be registered: {error}")
        problems += 1
    else:
        from ._bench import run_ranks

        problems += int(run_ranks(["--begin", "4096", "--end", "4096", "--iterations", "3", "--quiet"], 2, 60) != 0)
        print("a call of two processes: " + ("failed" if problems else "right"))
    return 1 if problems else 0


def main(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m mscclpp_rs", description="Collective communication for PyTorch.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="print what the backend needs and finds on this machine")
    bench = commands.add_parser("bench", help="measure calls beside those of gloo, in processes of this machine")
    launch = commands.add_parser("launch", help="start a program once per rank on this machine, and end all ranks when one fails")
    from . import _bench, _launch

    _bench.add_arguments(bench)
    _launch.add_arguments(launch)
    chosen = parser.parse_args(arguments)
    if chosen.command == "doctor":
        return _doctor()
    return _bench.main(chosen) if chosen.command == "bench" else _launch.main(chosen)


if __name__ == "__main__":
    sys.exit(main())
