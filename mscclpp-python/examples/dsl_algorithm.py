"""The second way of the integration guide for PyTorch: a custom program, compiled to an algorithm."""

from __future__ import annotations

import torch

import job
import mscclpp
import mscclpp.utils as mscclpp_utils
from mscclpp.language.collectives import AllReduce
from programs import allreduce_by_parts


def main() -> None:
    comm = job.join()
    spec = mscclpp.AlgoSpec(
        name="allreduce_by_parts",
        collective=AllReduce(comm.nranks, 1, True),
        nranks_per_node=comm.nranks,
        world_size=comm.nranks,
        in_place=True,
        instances=2,
        protocol="Simple",
        max_message_size=1 << 30,
        tags={"example": 1},
    )
    # All checks are made here: a plan that loses data, races or deadlocks raises PlanError with lines of programs.py.
    algo = mscclpp.compile(algo=allreduce_by_parts, algo_spec=spec, rank=comm.my_rank)
    executor = mscclpp.Executor(comm.communicator)
    for nbytes in (256, 1 << 14):
        tensor = job.tensor_of(nbytes, torch.bfloat16)
        job.fill(tensor, comm.my_rank)
        result = algo.execute(
            comm=comm.communicator,
            executor=executor,
            input_buffer=tensor.data_ptr(),
            output_buffer=tensor.data_ptr(),
            input_size=tensor.nbytes,
            output_size=tensor.nbytes,
            dtype=mscclpp_utils.torch_dtype_to_mscclpp_dtype(tensor.dtype),
            stream=job.stream(),
        )
        assert result == 0, f"{algo.name} returned {result}"
        job.check_sum(tensor, comm.nranks)
    comm.barrier()
    print(f"ok rank {comm.my_rank}: {algo.name} of 2 sizes", flush=True)


if __name__ == "__main__":
    main()
