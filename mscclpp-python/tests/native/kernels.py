"""What kernels of sources with host code may use: a job of two ranks on devices, or simulated ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import torch

import job
import mscclpp

ELEMENTS = 64

VALUES = torch.tensor([2049.0, 2051.0, 5.9604645e-8, 2.9802322e-8, 65519.0, 65520.0, 257.0, 259.0])
ROUNDED = torch.cat([VALUES.to(dtype).view(torch.int16).to(torch.int32) for dtype in (torch.float16, torch.bfloat16)])


def halves(dtype: torch.dtype) -> torch.Tensor:
    """Returns what the kernel finds for a type, as PyTorch computes it."""
    a, b = torch.tensor(0.1).to(dtype), torch.tensor(3.0).to(dtype)
    fused = (a.double() * b.double() - b.double()).to(dtype)
    scaled = [int(1024 * value.float()) for value in ((a + b) - a * b, a / b, fused)]
    return torch.tensor([*scaled, 1, int((a + b).float()), 1])


def main() -> None:
    comm = job.join()
    module: Any = mscclpp.compile_native(name="kernels", file=Path(__file__).with_suffix(".cu"))
    own = torch.arange(ELEMENTS, dtype=torch.int32) + 1000 * (comm.my_rank + 1)
    peers = torch.arange(ELEMENTS, dtype=torch.int32) + 1000 * (2 - comm.my_rank)
    input = torch.zeros(ELEMENTS, dtype=torch.int32, device="cuda")
    input.copy_(own)

    def run(number: int) -> torch.Tensor:
        algorithm = mscclpp.Algorithm.create_from_native_capsule(module.create(number))
        output = torch.zeros(2 * ELEMENTS, dtype=torch.int32, device="cuda")
        addresses = (input.data_ptr(), output.data_ptr(), input.nbytes, output.nbytes)
        result = algorithm.execute(comm.communicator, *addresses, mscclpp.DataType.int32, stream=job.stream())
        assert result == 0, result
        algorithm.synchronize(comm.communicator, job.stream())
        comm.barrier()
        return output.cpu()

    def check(name: str, found: torch.Tensor, expected: torch.Tensor) -> None:
        assert torch.equal(found, expected.to(torch.int32)), f"{name}: expected {expected}, found {found}"

    check("dimensions", run(0)[:48], torch.cat([torch.arange(8) + 100 * block + 30 for block in range(6)]))
    check("shared memory", run(1)[:ELEMENTS], own.flip(0) + own[torch.arange(ELEMENTS) % 8])
    warps = torch.arange(64).reshape(2, 32)
    sums = (warps.sum(1, keepdim=True) + warps[:, 3:4]).expand(2, 32).flatten()
    check("warps", run(2)[:128], torch.cat([sums, torch.ones(64)]))
    check("blocks", run(3)[:2], torch.tensor([120 + 120 * (2 * 7 + 20), 120]))
    for number in (4, 5):
        check("packets", run(number)[:ELEMENTS], peers)
    check("gets", run(6)[:ELEMENTS], peers)
    check("halves", run(7)[:30], torch.cat([halves(torch.float16), halves(torch.bfloat16), ROUNDED, torch.tensor([1, -2])]))
    check("symbols", run(8)[:5], torch.tensor([1005, 1040, 105, 140, 1]))
    sums = 2 * torch.arange(16) + 100
    floats = sums.to(torch.float32).view(torch.int32).repeat(2)
    check("switch", run(9)[:80], torch.cat([floats, torch.full((16,), 0x44004400), torch.full((16,), 0x40804080), sums]))
    print(f"ok rank {comm.my_rank}: kernels", flush=True)


if __name__ == "__main__":
    main()
