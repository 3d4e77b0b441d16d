"""Checks and times a plan of a file, with the options of the reference's script:

    mpirun -np 2 python3 executor_test.py -path simple_allgather.json --size 1M --in_place

Each rank is a process of mpirun, torchrun or `mscclpp launch`. `--size` is that of the larger one of a rank's buffers. Without CUDA devices
the plan runs on the CPU, and times say nothing about devices.
"""

from __future__ import annotations

import argparse
import os
import re
import time

import torch

import job
import mscclpp
import mscclpp.utils as mscclpp_utils

DTYPES = {"float16": torch.float16, "float32": torch.float32, "bfloat16": torch.bfloat16, "int32": torch.int32}

# Where torchrun, Open MPI, Slurm and Intel MPI state the number of a process on its host.
LOCAL_RANKS = ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"]


def size(text: str) -> int:
    """Returns the bytes of a size such as `1M`."""
    found = re.fullmatch(r"(\d+)([KMG]?)B?", text.upper())
    if found is None:
        raise argparse.ArgumentTypeError(f"expected bytes, such as 1024, 64K or 1M, found {text!r}")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Checks and times a plan.")
    parser.add_argument("-path", "--execution_plan_path", required=True, help="the plan")
    parser.add_argument("--size", type=size, required=True, help="bytes of the larger one of a rank's buffers")
    parser.add_argument("--in_place", action="store_true", help="input and output are one buffer")
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="float16")
    parser.add_argument("--packet_type", choices=["LL16", "LL8"], default="LL16")
    parser.add_argument("--n_iters", type=int, default=10, help="calls that are timed")
    return parser.parse_args()


def buffers(plan: mscclpp.ExecutionPlan, nbytes: int, dtype: torch.dtype, in_place: bool, rank: int, ranks: int) -> list[torch.Tensor]:
    """Returns the input and the output of a rank."""
    part = nbytes // ranks
    sizes = {"allgather": (part, nbytes), "reducescatter": (nbytes, part)}.get(plan.collective, (nbytes, nbytes))
    if not in_place:
        return [job.tensor_of(one, dtype) for one in sizes]
    whole = job.tensor_of(nbytes, dtype)
    own = whole[rank * part // dtype.itemsize :][: part // dtype.itemsize]
    return {"allgather": [own, whole], "reducescatter": [whole, own]}.get(plan.collective, [whole, whole])


def expected(collective: str, inputs: list[torch.Tensor], rank: int) -> torch.Tensor:
    """Returns what the output of a rank holds, from the inputs of all ranks."""
    if collective == "allgather":
        return torch.cat(inputs)
    if collective == "sendrecv":
        return inputs[rank - 1]
    if collective == "alltoall":
        return torch.cat([one.chunk(len(inputs))[rank] for one in inputs])
    if collective == "broadcast":
        return inputs[0]
    total = torch.stack(inputs).sum(0)
    return total.chunk(len(inputs))[rank] if collective == "reducescatter" else total


def main() -> None:
    options = arguments()
    if torch.cuda.is_available():
        local = next((os.environ[name] for name in LOCAL_RANKS if name in os.environ), "0")
        torch.cuda.set_device(int(local) % torch.cuda.device_count())
    comm = mscclpp.CommGroup()
    rank, ranks = comm.my_rank, comm.nranks
    plan = mscclpp.ExecutionPlan(options.execution_plan_path, rank)
    if plan.plan.num_ranks != ranks:
        raise SystemExit(f"expected {plan.plan.num_ranks} processes, as {plan.name} has ranks, found {ranks}")
    if plan.is_in_place != options.in_place:
        raise SystemExit(f"{plan.name} is {'in' if plan.is_in_place else 'out of'} place: {'add' if plan.is_in_place else 'omit'} --in_place")
    dtype = DTYPES[options.dtype]
    if options.size == 0 or options.size % (ranks * dtype.itemsize) != 0:
        raise SystemExit(f"expected --size in multiples of {ranks * dtype.itemsize} bytes, found {options.size}")
    source, result = buffers(plan, options.size, dtype, options.in_place, rank, ranks)
    executor = mscclpp.Executor(comm.communicator)

    def call() -> None:
        kind = mscclpp_utils.torch_dtype_to_mscclpp_dtype(dtype)
        packets = mscclpp.PacketType[options.packet_type]
        executor.execute(
            rank, source.data_ptr(), result.data_ptr(), source.nbytes, result.nbytes, kind, plan, job.stream(), packets
        )
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    job.fill(source, rank)
    call()
    inputs = [(torch.arange(source.numel()) % 7 + one + 1).to(torch.int64) for one in range(ranks)]
    found = result.cpu().to(torch.int64)
    if not torch.equal(found, expected(plan.collective, inputs, rank)):
        raise SystemExit(f"rank {rank}: the output of {plan.name} is wrong")
    comm.barrier()
    begin = time.perf_counter()
    for _ in range(options.n_iters):
        call()
    elapsed = (time.perf_counter() - begin) / options.n_iters * 1e6
    comm.barrier()
    print(
        f"ok rank {rank}: {plan.name} is right; {elapsed:.2f} us, data size: {options.size} bytes, data type: {options.dtype}, "
        f"packet type: {options.packet_type}",
        flush=True,
    )


if __name__ == "__main__":
    main()
