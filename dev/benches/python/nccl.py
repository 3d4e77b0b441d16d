"""Times of NCCL's all-reduce on one device with several ranks in one process, beside what the device can do at best.

Usage: LD_PRELOAD=libnccl.so.2 python3 dev/benches/python/nccl.py [rehearse] [RANKS ...]      2 4 8 by default

`rehearse`: tiny messages, and no kernels of PyTorch, which simulated devices do not run.

Columns are microseconds: `eager` and `host` for a group of the calls of all ranks, each on a stream of its own, until it has finished and
until it returned; `graph` for one of them in a graph of 20. Medians of 15. Every result is compared.
"""

import ctypes
import statistics
import sys
import time

import torch

COUNTS = (256, 2048, 16 << 10, 256 << 10, 4 << 20)
FLOAT, SUM = 7, 0
IN_GRAPH = 20

nccl = ctypes.CDLL("libnccl.so.2")
nccl.ncclGetLastError.restype = ctypes.c_char_p
pointer = ctypes.c_void_p


def call(name, *arguments):
    code = getattr(nccl, name)(*arguments)
    if code:
        raise RuntimeError(f"{name}: {code}: {nccl.ncclGetLastError(None).decode()}")


def median_us(work, times=15, calls=1):
    work()
    torch.cuda.synchronize()
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        host = time.perf_counter()
        torch.cuda.synchronize()
        found.append(((time.perf_counter() - begin) * 1e6 / calls, (host - begin) * 1e6 / calls))
    return [statistics.median(column) for column in zip(*found)]


def captured(work, streams):
    """Captures work on streams that the capture's own joins."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        first = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(first)
        for _ in range(IN_GRAPH):
            work()
        for stream in streams:
            first.wait_stream(stream)
    return graph


def floors():
    stream = torch.cuda.Stream()

    def nothing():
        with torch.cuda.stream(stream):
            torch.cuda._sleep(0)

    eager, host = median_us(nothing)
    replayed, _ = median_us(captured(nothing, [stream]).replay, calls=IN_GRAPH)
    print(f"floor: an empty kernel: eager {eager:.2f}, host {host:.2f}, in a graph {replayed:.2f}", flush=True)


def measure(ranks, counts):
    comms = (pointer * ranks)()
    call("ncclCommInitAll", comms, ranks, (ctypes.c_int * ranks)())
    streams = [torch.cuda.Stream() for _ in range(ranks)]
    for count in counts:
        inputs = [torch.full((count,), float(rank + 1)).cuda() for rank in range(ranks)]
        outputs = [torch.zeros(count).cuda() for _ in range(ranks)]
        torch.cuda.synchronize()

        def all_reduce():
            call("ncclGroupStart")
            for comm, stream, source, to in zip(comms, streams, inputs, outputs):
                arguments = pointer(source.data_ptr()), pointer(to.data_ptr()), ctypes.c_size_t(count), FLOAT, SUM
                call("ncclAllReduce", *arguments, pointer(comm), pointer(stream.cuda_stream))
            call("ncclGroupEnd")

        def check(what):
            for output in outputs:
                expected = torch.full((count,), ranks * (ranks + 1) / 2)
                assert torch.equal(output.cpu(), expected), f"{what} of {count} on {ranks} ranks"
                output.copy_(torch.zeros(count))

        eager, host = median_us(all_reduce)
        check("eager")
        graph = captured(all_reduce, streams)
        replayed, _ = median_us(graph.replay, calls=IN_GRAPH)
        check("graph")
        print(f"{ranks} ranks {4 * count:>10} bytes: eager {eager:>9.2f} host {host:>8.2f} graph {replayed:>9.2f}", flush=True)
        del graph
    for comm in comms:
        call("ncclCommDestroy", pointer(comm))


if __name__ == "__main__":
    version = ctypes.c_int()
    call("ncclGetVersion", ctypes.byref(version))
    print(f"NCCL {version.value}, PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    arguments = sys.argv[1:]
    rehearsal = arguments[:1] == ["rehearse"]
    if not rehearsal:
        floors()
    for ranks in map(int, arguments[rehearsal:] or (2, 4, 8)):
        measure(ranks, COUNTS[:2] if rehearsal else COUNTS)
