"""What PyTorch needs for the result of an all-reduce of ranks that share a device: one sum of the stacked inputs, copied to all.

Usage: stacked_sum.py RANKS BYTES     prints microseconds, in a graph, by events; the median of nine rounds
"""
import sys

try:
    import torch
except ImportError:
    sys.exit("there is no torch in this python3 (another one: PYTHON=...)")
if not torch.cuda.is_available():
    sys.exit("torch finds no device")

ranks, count = int(sys.argv[1]), int(sys.argv[2]) // 4
inputs = torch.stack([torch.arange(count, device="cuda").remainder(251).float() + rank for rank in range(ranks)])
outputs = [torch.empty(count, device="cuda") for _ in range(ranks)]


def all_reduce():
    total = inputs.sum(0)
    for output in outputs:
        output.copy_(total)


side = torch.cuda.Stream()
with torch.cuda.stream(side):
    all_reduce()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    all_reduce()
times = []
for turn in range(9):
    inputs.add_(1)
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(5):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    times.append(begin.elapsed_time(end) * 1000 / 5)
expected = torch.arange(count, device="cuda").remainder(251).float() * ranks + ranks * (ranks - 1) / 2 + 9 * ranks
for output in outputs:
    if not torch.equal(output, expected):
        sys.exit("wrong sums")
print(sorted(times)[4])
