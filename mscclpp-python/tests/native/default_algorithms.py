"""The default algorithms and symmetric memory: a job of two ranks on devices, or simulated ones with multicast objects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import torch

import job
import mscclpp
from mscclpp import CommResult
from mscclpp_rs import Error

ELEMENTS = 3 << 12


def main() -> None:
    comm = job.join()
    native = comm.communicator.native
    algorithms = {
        algorithm.name: algorithm
        for algorithm in mscclpp.AlgorithmCollectionBuilder().build_default_algorithms(0, ELEMENTS * 4, comm.my_rank)
    }
    assert len(algorithms) == 12, algorithms

    def call(name: str, input: torch.Tensor, output: torch.Tensor, **options: Any) -> int:
        addresses = (input.data_ptr(), output.data_ptr(), input.nbytes, output.nbytes)
        arguments: dict[str, Any] = {"op": mscclpp.ReduceOp.SUM, "stream": job.stream()}
        return algorithms[name].execute(comm.communicator, *addresses, mscclpp.DataType.float32, **(arguments | options))

    def reduced(name: str, tensor: torch.Tensor, **options: Any) -> tuple[str | None, int, int, int]:
        job.fill(tensor, comm.my_rank)
        assert call(name, tensor, tensor, **options) == 0, name
        torch.cuda.synchronize()
        job.check_sum(tensor, comm.nranks)
        last = native.last_call(job.stream())
        assert last is not None
        return last

    # Each has its own way of moving data, on any memory.
    plain = torch.zeros(ELEMENTS, dtype=torch.float32, device="cuda")
    ways = {name: reduced(name, plain)[0] for name in algorithms if algorithms[name].collective == "allreduce"}
    gathered = torch.zeros(2 * ELEMENTS, dtype=torch.float32, device="cuda")
    for name in ("default_allgather_fullmesh", "default_allgather_fullmesh2"):
        plain.fill_(comm.my_rank)
        assert call(name, plain, gathered) == 0, name
        torch.cuda.synchronize()
        assert torch.equal(gathered.cpu(), torch.arange(2.0).repeat_interleave(ELEMENTS)), name
        ways[name] = native.last_call(job.stream())[0]  # type: ignore[index]
    assert len(set(ways.values())) == 12, ways

    # Symmetric memory is used in place, what other ranks access of other memory is copied.
    own = job.tensor_of(8 * ELEMENTS, torch.float32)
    for name in ("default_allreduce_rsag_zero_copy", "default_allreduce_nvls_zero_copy"):
        for tensor in (own[:ELEMENTS], own[ELEMENTS:]):
            assert reduced(name, tensor)[1] > 0, name
            assert reduced(name, tensor, symmetric_memory=True)[1] == 0, name
    assert reduced("default_allreduce_rsag", plain)[1] == 0

    # Those of all ranks.
    blocks = [reduced("default_allreduce_rsag_zero_copy", plain, nblocks=count, nthreads_per_block=512)[2:] for count in (2, 4)]
    assert [(last[0], last[1]) for last in blocks] == [(2 * comm.nranks, 512), (4 * comm.nranks, 512)], blocks
    assert call("default_allreduce_nvls_packet", plain, plain, nblocks=17, nthreads_per_block=512) == CommResult.COMM_INVALID_ARGUMENT
    assert call("default_allreduce_rsag", gathered, gathered) == CommResult.COMM_INVALID_ARGUMENT

    try:
        call("default_allreduce_rsag_zero_copy", plain, plain, symmetric_memory=True)
        raise AssertionError("expected an error for memory that is not symmetric")
    except Error as error:
        assert error.kind == "invalid-input" and "RawGpuBuffer" in str(error), error
    job.fill(plain, comm.my_rank)
    assert reduced("default_allreduce_packet", plain)[1] == 0

    # Ranks that name other places of it differ in the call.
    try:
        part = own[comm.my_rank * 4 : comm.my_rank * 4 + 1024]
        call("default_allreduce_rsag_zero_copy", part, part, symmetric_memory=True)
        torch.cuda.synchronize()
        call("default_allreduce_rsag_zero_copy", part, part, symmetric_memory=True)
        raise AssertionError("expected an error for memory at different places")
    except Error as error:
        assert error.kind == "mismatch", (error.kind, error)
    print(f"ok rank {comm.my_rank}: default algorithms", flush=True)


if __name__ == "__main__":
    main()
