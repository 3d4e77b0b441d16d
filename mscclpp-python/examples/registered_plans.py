"""The first path of the integration guide of the DSL: plans in a registry, with a selector that is a function of Python."""

from __future__ import annotations

import torch

import job
import mscclpp
import mscclpp.utils as mscclpp_utils
from mscclpp.dsl import jit
from programs import allreduce_by_parts


class CustomizedComm:
    """An all-reduce with the plan that the registry selects."""

    def __init__(self, comm: mscclpp.CommGroup) -> None:
        self.comm = comm
        self.registry = mscclpp.ExecutionPlanRegistry()
        self.executor = mscclpp.Executor(comm.communicator)

    def all_reduce(self, tensor: torch.Tensor) -> str:
        """Sums a tensor and returns the name of the plan."""
        plan = self.registry.select(
            collective="allreduce",
            world_size=self.comm.nranks,
            n_ranks_per_node=self.comm.nranks_per_node,
            send_buffer=tensor.data_ptr(),
            recv_buffer=tensor.data_ptr(),
            message_size=tensor.nbytes,
        )
        if plan is None:
            raise ValueError(f"no plan for an all-reduce of {tensor.nbytes} bytes")
        self.executor.execute(
            self.comm.my_rank,
            tensor.data_ptr(),
            tensor.data_ptr(),
            tensor.nbytes,
            tensor.nbytes,
            mscclpp_utils.torch_dtype_to_mscclpp_dtype(tensor.dtype),
            plan.plan,
            job.stream(),
        )
        return plan.plan.name


def main() -> None:
    comm = CustomizedComm(job.join())
    size, rank = comm.comm.nranks, comm.comm.my_rank
    for name, instances, tags in (("allreduce_1", 1, {"small"}), ("allreduce_4", 4, {"large"})):
        plan = jit.compile(
            algo=allreduce_by_parts,
            name=name,
            collective="allreduce",
            nranks_per_node=size,
            world_size=size,
            instances=instances,
            protocol="Simple",
            tags=tags,
            rank=rank,
        )
        mscclpp.plan.register(plan)

    def selector(plans, request):
        tag = "small" if request.message_size < 1 << 12 else "large"
        return next((plan for plan in plans[request.collective] if tag in plan.tags), None)

    mscclpp.plan.set_selector(selector)
    for nbytes, expected in ((1 << 10, "allreduce_1"), (1 << 14, "allreduce_4")):
        tensor = job.tensor_of(nbytes, torch.float16)
        job.fill(tensor, rank)
        found = comm.all_reduce(tensor)
        assert found == expected, f"expected {expected}, found {found}"
        job.check_sum(tensor, size)
    comm.comm.barrier()
    print(f"ok rank {rank}: 2 plans selected", flush=True)


if __name__ == "__main__":
    main()
