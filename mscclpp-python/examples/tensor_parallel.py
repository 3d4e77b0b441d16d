"""Tensor-parallel inference on the CPU: a layer whose weights are divided among the ranks, with one all-reduce per step.

The partial results are written to a registered buffer, which the all-reduce uses without copies: the other ranks of the host
read and write it where it is. Start N ranks by `torchrun --nproc_per_node=N tensor_parallel.py`.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

import mscclpp_rs

HIDDEN, INNER, BATCH, STEPS = 64, 128, 4, 3


class RowParallelLayer:
    """Two matrices and an activation; each rank has the inner columns and rows of its part."""

    def __init__(self, up: torch.Tensor, down: torch.Tensor) -> None:
        rank, size = dist.get_rank(), dist.get_world_size()
        part = slice(rank * INNER // size, (rank + 1) * INNER // size)
        self.up, self.down = up[:, part].contiguous(), down[part].contiguous()
        # A call of all ranks, once; each step uses it again.
        self.output = mscclpp_rs.new_buffer(BATCH, HIDDEN)

    def __call__(self, given: torch.Tensor) -> torch.Tensor:
        torch.mm(torch.relu(given @ self.up), self.down, out=self.output)
        dist.all_reduce(self.output)
        return self.output


def main() -> None:
    mscclpp_rs.register_backend()
    dist.init_process_group("mscclpp")
    generator = torch.Generator().manual_seed(1)

    def integers(*shape: int) -> torch.Tensor:
        # Small integers, whose sums are exact in any order.
        return torch.randint(-2, 3, shape, generator=generator).float()

    up, down = integers(HIDDEN, INNER), integers(INNER, HIDDEN)
    layer = RowParallelLayer(up, down)
    for _ in range(STEPS):
        given = integers(BATCH, HIDDEN)
        expected = torch.relu(given @ up) @ down
        found = layer(given)
        assert torch.equal(found, expected), (found - expected).abs().max()
    dist.barrier()
    print(f"ok rank {dist.get_rank()}: {STEPS} steps of a layer on {dist.get_world_size()} ranks", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
