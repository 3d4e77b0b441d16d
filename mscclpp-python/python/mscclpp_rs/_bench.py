"""Measures calls of torch.distributed on tensors, on this backend and on gloo: blocks of calls take turns, in the same processes."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any

from ._launch import run

#: Calls of a block, and calls before them that are not counted.
BLOCK, SKIPPED = 10, 2
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "reduce", "gather", "scatter", "send_recv")


def _bytes(text: str) -> int:
    units = {"K": 10, "M": 20, "G": 30}
    number, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 0)
    value = int(number) << unit
    if value < 4:
        raise argparse.ArgumentTypeError(f"expected at least 4 bytes, found {text}")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the measurement to a parser."""
    parser.add_argument("--ranks", type=int, default=2, help="number of processes")
    parser.add_argument("--collective", choices=COLLECTIVES, nargs="+", default=["all_reduce"], help="calls to measure")
    parser.add_argument("--begin", type=_bytes, default=1 << 10, help="bytes of the smallest tensor (1K)")
    parser.add_argument("--end", type=_bytes, default=64 << 20, help="bytes of the largest tensor (64M)")
    parser.add_argument("--factor", type=int, default=4, help="between two sizes")
    parser.add_argument("--ddp", type=int, metavar="PARAMETERS", help="measure steps of DDP on a model of that size instead of calls")
    parser.add_argument("--iterations", type=int, help="calls of each backend and size, or steps of each backend")
    parser.add_argument("--bind", action="store_true", help="run each process on a processor of its own")
    parser.add_argument("--quiet", action="store_true", help="print no table")


def run_ranks(arguments: list[str], ranks: int, timeout: float | None = None) -> int:
    """Starts the processes and waits for them. Returns 0 if all of them succeed."""
    return run([sys.executable, "-m", "mscclpp_rs._bench", *arguments], ranks, timeout=timeout)


def main(options: argparse.Namespace) -> int:
    """Runs the measurement that options describe, and prints its table."""
    if options.ranks < 1 or options.factor < 2 or options.begin > options.end:
        print("expected at least 1 rank, a factor of 2 or more, and a begin up to the end", file=sys.stderr)
        return 2
    if options.ddp is not None and options.ddp < 1:
        print(f"expected a model of at least 1 parameter, found {options.ddp}", file=sys.stderr)
        return 2
    arguments = ["--collective", *options.collective, "--begin", str(options.begin), "--end", str(options.end)]
    arguments += ["--factor", str(options.factor)]
    arguments += ["--ddp", str(options.ddp)] if options.ddp else []
    arguments += ["--iterations", str(options.iterations)] if options.iterations else []
    arguments += ["--bind"] if options.bind else []
    arguments += ["--quiet"] if options.quiet else []
    return run_ranks(arguments, options.ranks)


def _call(collective: str, new: Any, count: int, group: Any) -> Any:
    """Returns a function that makes the call once, on tensors that ``new`` returns; ``count`` is that of the larger of input and output."""
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole, part = new(count), new(count // ranks)
    if collective == "all_to_all":
        received = new(count)
        return lambda: dist.all_to_all_single(received, whole, group=group)
    if collective == "send_recv":
        received = new(count)
        to = dist.P2POp(dist.isend, whole, group=group, group_peer=(rank + 1) % ranks)
        source = dist.P2POp(dist.irecv, received, group=group, group_peer=(rank - 1) % ranks)
        return lambda: [work.wait() for work in dist.batch_isend_irecv([to, source])]
    parts = list(whole.chunk(ranks)) if rank == 0 else None
    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "reduce": lambda: dist.reduce(whole, 0, group=group),
        "broadcast": lambda: dist.broadcast(whole, 0, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "gather": lambda: dist.gather(part, parts, 0, group=group),
        "scatter": lambda: dist.scatter(part, parts, 0, group=group),
    }[collective]


def _measure(options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist

    import mscclpp_rs

    torch.set_num_threads(1)
    if options.bind:
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[int(os.environ["RANK"]) % len(processors)]})
    mscclpp_rs.register_backend()
    dist.init_process_group("mscclpp")
    gloo = dist.new_group(backend="gloo")
    if options.ddp is not None:
        from ._bench_ddp import measure

        measure(options, gloo)
    else:
        for collective in options.collective:
            _measure_calls(options, collective, gloo)
    dist.barrier()
    dist.destroy_process_group()


def _measure_calls(options: argparse.Namespace, collective: str, gloo: Any) -> None:
    """Measures calls of a collective of all sizes, and prints their table."""
    import torch
    import torch.distributed as dist

    import mscclpp_rs

    rank, ranks = dist.get_rank(), dist.get_world_size()
    prints = rank == 0 and not options.quiet
    if prints:
        print(f"{collective} of {ranks} ranks, medians in microseconds")
        print("| bytes | gloo | mscclpp | registered | gloo / mscclpp | gloo / registered |\n|---|---|---|---|---|---|")
    size = options.begin
    while size <= options.end:
        count = max(size // 4 // ranks, 1) * ranks
        calls = [
            _call(collective, torch.zeros, count, gloo),
            _call(collective, torch.zeros, count, None),
            _call(collective, mscclpp_rs.new_buffer, count, None),
        ]
        iterations = options.iterations or max(10, min(300, (64 << 20) // size))
        times: list[list[float]] = [[], [], []]
        # Blocks of calls take turns. The first calls of a block wait for the rank that left the block before last.
        for _ in range(-(-iterations // BLOCK)):
            for call, of_call in zip(calls, times):
                for number in range(-SKIPPED, BLOCK):
                    started = time.perf_counter()
                    call()
                    if number >= 0:
                        of_call.append((time.perf_counter() - started) * 1e6)
        if prints:
            of_gloo, own, of_registered = (statistics.median(one) for one in times)
            ratios = f"{of_gloo / own:.1f} | {of_gloo / of_registered:.1f}"
            print(f"| {size} | {of_gloo:.1f} | {own:.1f} | {of_registered:.1f} | {ratios} |", flush=True)
        size *= options.factor


if __name__ == "__main__":
    _parser = argparse.ArgumentParser()
    add_arguments(_parser)
    _measure(_parser.parse_args())
