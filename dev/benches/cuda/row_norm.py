"""What PyTorch needs to add the residual to rows and to normalize them: all rows of the ranks that share a device in one call.

Usage: row_norm.py ROWS HIDDEN     prints microseconds, in a graph, by events; the median of nine rounds
"""
import sys

try:
    import torch
except ImportError:
    sys.exit("there is no torch in this python3 (another one: PYTHON=...)")
if not torch.cuda.is_available():
    sys.exit("torch finds no device")

rows, hidden = int(sys.argv[1]), int(sys.argv[2])
sums = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16)
residual = torch.randn_like(sums)
gamma = torch.randn(hidden, device="cuda", dtype=torch.bfloat16)
output = torch.empty_like(sums)


def norm():
    residual.add_(sums)
    output.copy_(torch.nn.functional.rms_norm(residual, (hidden,), gamma, 1e-6))


fused = norm
try:
    # In one kernel.
    compiled = torch.compile(norm)
    compiled()
    fused = compiled
except Exception as error:  # without Triton, for example
    print(f"not compiled: {error}".splitlines()[0], file=sys.stderr)

side = torch.cuda.Stream()
with torch.cuda.stream(side):
    fused()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(20):
        fused()
times = []
for _ in range(9):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(5):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    times.append(begin.elapsed_time(end) * 1000 / 100)
print(sorted(times)[4])
