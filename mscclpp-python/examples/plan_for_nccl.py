"""The second path of the integration guide of the DSL: calls of PyTorch's backend nccl, served by a plan.

PyTorch loads the library `libnccl.so.2` of this project in place of NCCL's (docs/nccl.md).
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

import job
import mscclpp
import mscclpp_rs
from mscclpp.language.collectives import AllReduce
from programs import allreduce_by_parts


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count())
    spec = mscclpp.AlgoSpec("allreduce_by_parts", AllReduce(size, 1, True), size, size, True, 1, "Simple")
    algo = mscclpp.compile(algo=allreduce_by_parts, algo_spec=spec, rank=rank)
    name = mscclpp_rs.register_plan(algo.execution_plan.plan)
    dist.init_process_group(backend="nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    tensor = torch.zeros(4096, dtype=torch.bfloat16, device="cuda")
    job.fill(tensor, rank)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    torch.cuda.synchronize()
    job.check_sum(tensor, size)
    assert mscclpp_rs.call_counts() == {name: 1}, mscclpp_rs.call_counts()
    dist.barrier()
    dist.destroy_process_group()
    print(f"ok rank {rank}: an all-reduce of backend nccl", flush=True)


if __name__ == "__main__":
    main()
