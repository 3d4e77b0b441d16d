"""Algorithms of C++ sources with host code: one with port channels, one with memory channels. Needs devices, or simulated ones."""

from __future__ import annotations

import os
from typing import Any

import torch

import job
import mscclpp
import mscclpp.utils as mscclpp_utils

FOLDER = os.path.dirname(os.path.abspath(__file__))


def algorithm_of(name: str) -> mscclpp.Algorithm:
    """Compiles the source of a name, and returns its algorithm."""
    module: Any = mscclpp.compile_native(name=name, file=os.path.join(FOLDER, f"{name}.cu"))
    return mscclpp.Algorithm.create_from_native_capsule(module.create_algorithm())


def execute(algorithm: mscclpp.Algorithm, comm: mscclpp.CommGroup, input: torch.Tensor, output: torch.Tensor, **options: Any) -> int:
    """Makes a call, and waits until it is complete."""
    dtype = mscclpp_utils.torch_dtype_to_mscclpp_dtype(input.dtype)
    addresses = (input.data_ptr(), output.data_ptr(), input.nbytes, output.nbytes)
    result = algorithm.execute(comm.communicator, *addresses, dtype, stream=job.stream(), **options)
    algorithm.synchronize(comm.communicator, job.stream())
    return result


def all_gather(comm: mscclpp.CommGroup) -> None:
    algorithm = algorithm_of("port_allgather")
    assert (algorithm.name, algorithm.collective) == ("ring_allgather", "allgather")
    for elements in (1, 1000):
        input = torch.zeros(elements, dtype=torch.float32, device="cuda")
        output = torch.zeros(elements * comm.nranks, dtype=torch.float32, device="cuda")
        for step in range(3):
            input.copy_(torch.arange(elements, dtype=torch.float32) + 1000 * comm.my_rank + step)
            assert execute(algorithm, comm, input, output) == 0
            expected = torch.cat([torch.arange(elements, dtype=torch.float32) + 1000 * peer + step for peer in range(comm.nranks)])
            assert torch.equal(output.cpu(), expected), f"{elements} elements, step {step}: {output}"
            # Ranks may put the parts of the next step from here on.
            comm.barrier()


def all_reduce(comm: mscclpp.CommGroup) -> None:
    algorithm = algorithm_of("memory_allreduce")
    assert (algorithm.collective, algorithm.message_size_range, algorithm.tags) == ("allreduce", (0, 1 << 20), {"scratch": 1})
    calls: list[tuple[torch.dtype, int, dict[str, int]]] = [
        (torch.float32, 1001, {}),
        (torch.int32, 64, {"nblocks": 1, "nthreads_per_block": 32}),
        (torch.float32, 1001, {"nblocks": 3}),
    ]
    for dtype, elements, options in calls:
        tensor = torch.zeros(elements, dtype=dtype, device="cuda")
        for _ in range(2):
            job.fill(tensor, comm.my_rank)
            assert execute(algorithm, comm, tensor, tensor, **options) == 0
            job.check_sum(tensor, comm.nranks)
    small = torch.zeros(8, dtype=torch.uint8, device="cuda")
    result = execute(algorithm, comm, small, small)
    assert result == mscclpp.CommResult.COMM_INVALID_ARGUMENT, result
    comm.barrier()
    algorithm.reset()


def main() -> None:
    comm = job.join()
    all_gather(comm)
    all_reduce(comm)
    comm.barrier()
    print(f"ok rank {comm.my_rank}: all-gather over port channels and all-reduce over memory channels", flush=True)


if __name__ == "__main__":
    main()
