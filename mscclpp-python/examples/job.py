"""What the examples share: joining the job, and tensors on the device or on the CPU.

Start N ranks with `RANK`, `WORLD_SIZE`, `MSCCLPP_MASTER_ADDR` and `MSCCLPP_MASTER_PORT`, for example by

    MSCCLPP_MASTER_ADDR=127.0.0.1 MSCCLPP_MASTER_PORT=50000 torchrun --nproc_per_node=2 default_algorithms.py

Without CUDA devices they run on the CPU. On simulated devices: `scripts/simulated-cuda.sh -n 2 --nccl -- python ...`.
"""

from __future__ import annotations

import os

import torch

import mscclpp


def join() -> mscclpp.CommGroup:
    """Joins the job of the environment, on the device of the local rank if there are devices."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count())
    address, port = os.environ["MSCCLPP_MASTER_ADDR"], os.environ["MSCCLPP_MASTER_PORT"]
    # The reference needs the interface's name, which has no effect here.
    return mscclpp.CommGroup(interfaceIpPortTrio=f"lo:{address}:{port}", rank=rank, size=size)


def stream() -> int:
    """Returns the handle of the current stream; 0 on the CPU."""
    return torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else 0


def tensor_of(nbytes: int, dtype: torch.dtype) -> torch.Tensor:
    """Returns a zeroed tensor on memory that ranks share."""
    return torch.utils.dlpack.from_dlpack(mscclpp.RawGpuBuffer(nbytes).to_dlpack(data_type=str(dtype)))


def fill(tensor: torch.Tensor, rank: int) -> None:
    """Fills a tensor with small integers, which all types sum exactly and which differ by element and rank."""
    values = (torch.arange(tensor.numel()) % 7 + rank + 1).to(tensor.dtype)
    tensor.copy_(values.reshape(tensor.shape))


def check_sum(tensor: torch.Tensor, size: int) -> None:
    """Checks that a tensor holds the sum of what `fill` gives all ranks."""
    expected = size * (torch.arange(tensor.numel()) % 7) + size * (size + 1) // 2
    found = tensor.reshape(-1).cpu().to(torch.int64)
    if not torch.equal(found, expected):
        at = int((found != expected).nonzero()[0])
        raise AssertionError(f"element {at}: expected {int(expected[at])}, found {int(found[at])}")
