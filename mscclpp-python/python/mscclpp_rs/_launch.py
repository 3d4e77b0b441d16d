"""Starts a program once per rank on this machine, and ends all ranks when one fails."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

#: Seconds between two looks at the processes.
_INTERVAL = 0.02
#: Seconds of ranks between the request to end and being killed.
_GRACE = 2.0
#: Signals that end a job: all ranks get them.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a launch to a parser."""
    parser.add_argument("-n", "--ranks", type=int, required=True, help="number of processes")
    parser.add_argument("--port", type=int, help="port of MASTER_PORT; a free one by default")
    parser.add_argument("-m", "--module", action="store_true", help="run a module, as `python -m` does")
    parser.add_argument("program", help="script or module, run by this Python")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")


def main(options: argparse.Namespace) -> int:
    """Runs the launch that options describe, and returns its exit status."""
    if options.ranks < 1:
        print(f"launch: expected at least 1 rank, found {options.ranks}", file=sys.stderr)
        return 2
    program = ["-m", options.program] if options.module else [options.program]
    return run([sys.executable, *program, *options.arguments], options.ranks, port=options.port)


def run(command: Sequence[str], ranks: int, port: int | None = None, timeout: float | None = None) -> int:
    """Runs a command once per rank. Returns the exit status of the first rank that failed, 128 and the number of the signal that ended it,
    or 0 if all ranks succeeded; the other ranks are ended after a failure, and all of them after ``timeout`` seconds."""
    if port is None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environment |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    # Ranks share the processors, as under torchrun.
    environment.setdefault("OMP_NUM_THREADS", "1")
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, receive) for number in _SIGNALS}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(ranks):
            of_rank = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            # A terminal's Ctrl-C reaches the launcher alone, which passes it on.
            processes.append(subprocess.Popen(command, env=of_rank, start_new_session=True))
        return _wait(processes, received, timeout)
    finally:
        _end(processes, signal.SIGKILL)
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(processes: list[subprocess.Popen[bytes]], received: list[int], timeout: float | None) -> int:
    """Waits for the processes. Returns the exit status of the job."""
    begin = time.monotonic()
    while True:
        running = [process for process in processes if process.poll() is None]
        failed = next((rank for rank, process in enumerate(processes) if process.returncode), None)
        if failed is not None and running:
            print(f"launch: rank {failed} {_describe(processes[failed].returncode)}; ending the others", file=sys.stderr)
        elif received:
            print(f"launch: {signal.Signals(received[0]).name}; ending all ranks", file=sys.stderr)
        elif timeout is not None and running and time.monotonic() - begin > timeout:
            print(f"launch: {len(running)} ranks are running after {timeout} s; ending all ranks", file=sys.stderr)
        elif running:
            time.sleep(_INTERVAL)
            continue
        status = 0 if failed is None else processes[failed].returncode
        if running:
            _end(running, signal.Signals(received[0]) if received else signal.SIGTERM)
            if failed is None:
                status = -received[0] if received else 1
        return 128 - status if status < 0 else status


def _end(processes: list[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    """Asks processes to end, and kills those that do not, with the processes that they have started."""
    for of_all in (number, signal.SIGKILL):
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, of_all)
        deadline = time.monotonic() + _GRACE
        while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
            time.sleep(_INTERVAL)


def _describe(returncode: int) -> str:
    return f"exited with {returncode}" if returncode > 0 else f"was ended by {signal.Signals(-returncode).name}"
