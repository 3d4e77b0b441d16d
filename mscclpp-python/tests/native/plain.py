"""Kernels of plain sources, launched with the bytes of their arguments: a job of ranks on devices, or simulated ones.

The ranks choose their devices after they have joined.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import torch

import job
import mscclpp
from mscclpp.utils import KernelBuilder, pack
from mscclpp_rs import Error, UnsupportedError

SOURCE = """
#include <assert.h>
#include <cuda_fp16.h>
#include "header.cuh"

#define KERNEL_OF(name, T)                                                                                       \\
  extern "C" __global__ void __launch_bounds__(64, 1) name(int a, char b, T* out, short c, int64_t d, float e) { \\
    __shared__ int part[1];                                                                                      \\
    if (threadIdx.x == 0) part[0] = 5;                                                                           \\
    __syncthreads();                                                                                             \\
    if (blockIdx.x != 1 || threadIdx.x != 3) return;                                                             \\
    const T arguments[5] = {T(a), T(b), T(c), T(d >> 40), twice(T(e))};                                          \\
    const T others[4] = {T(part[0]), T(gridDim.x + blockDim.x), T(FACTOR), T(2049.000000001)};                   \\
    for (int i = 0; i < 9; ++i) out[i] = i < 5 ? arguments[i] : others[i - 5];                                   \\
  }
KERNEL_OF(of_floats, float)
KERNEL_OF(of_halves, __half)

extern "C" __global__ void fails(int value) { assert(value == 1); }
"""
HEADER = "#pragma once\ntemplate <typename T>\n__device__ T twice(T x) {\n  return x + x;\n}\n"


def arguments(out: torch.Tensor) -> bytes:
    """Returns the arguments at multiples of their sizes."""
    return pack(-3) + struct.pack("b3x", 4) + pack(out) + struct.pack("h6x", -9) + struct.pack("qf", 3 << 40, 1.25)


def main() -> None:
    comm = mscclpp.CommGroup()
    torch.cuda.set_device(comm.my_rank)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("source.cu", SOURCE), ("header.cuh", HEADER)):
            (Path(folder) / name).write_text(text)
        build = lambda name: KernelBuilder("source.cu", name, folder, {"FACTOR": 7}).get_compiled_kernel()  # noqa: E731
        # The last value is rounded once.
        for name, dtype, last in (("of_floats", torch.float32, 2049), ("of_halves", torch.float16, 2050)):
            out = torch.zeros(9, dtype=dtype, device="cuda")
            kernel = build(name)
            kernel.launch_kernel(arguments(out), 2, 64, 0, torch.cuda.current_stream())
            torch.cuda.synchronize()
            expected = torch.tensor([-3, 4, -9, 3, 2.5, 5, 66, 7, last], dtype=dtype)
            assert torch.equal(out.cpu(), expected), f"{name}: expected {expected}, found {out.cpu()}"
        try:
            kernel.launch_kernel(arguments(out), 2, 64, 16)
        except UnsupportedError as error:
            assert "expected no shared memory of the launch, found 16 bytes" in str(error), error
        try:
            build("missing")
        except Error as error:
            assert "source.cu" in str(error) and "missing" in str(error), error
        else:
            raise AssertionError("expected an error of the compiler, found none")
        # More threads than can have a stack at the same time.
        build("fails").launch_kernel(pack(1), 128, 1024, 0)
        torch.cuda.synchronize()

    assert comm.communicator.native.device == comm.my_rank, comm.communicator.native.device
    tensor = job.tensor_of(4096, torch.float32)
    job.fill(tensor, comm.my_rank)
    default = mscclpp.AlgorithmCollectionBuilder().build_default_algorithms(0, 0, comm.my_rank)
    algorithm = next(one for one in default if one.name == "default_allreduce_packet")
    addresses = (tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes, tensor.nbytes)
    result = algorithm.execute(comm.communicator, *addresses, mscclpp.DataType.float32, mscclpp.ReduceOp.SUM, stream=job.stream())
    assert result == 0, result
    torch.cuda.synchronize()
    job.check_sum(tensor, comm.nranks)
    comm.barrier()
    print(f"ok rank {comm.my_rank}: plain kernels", flush=True)


if __name__ == "__main__":
    main()
