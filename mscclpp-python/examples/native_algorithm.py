"""The third way of the integration guide for PyTorch: an algorithm that is a kernel of CUDA source. Needs devices, or simulated ones."""

from __future__ import annotations

import os

import torch

import job
import mscclpp
import mscclpp.utils as mscclpp_utils


def main() -> None:
    comm = job.join()
    mscclpp_native = mscclpp.compile_native(
        name="mscclpp_native", file=os.path.join(os.path.dirname(os.path.abspath(__file__)), "custom_allgather.cu")
    )
    capsule = mscclpp_native.create_allgather_algorithm(shared_bytes=1 << 16, nblocks=2, nthreads_per_block=64)
    algorithm = mscclpp.Algorithm.create_from_native_capsule(capsule)
    rank, size = comm.my_rank, comm.nranks
    for elements in (1, 3, 1000):
        tensor = job.tensor_of(4 * elements, torch.float32)
        output = job.tensor_of(4 * elements * size, torch.float32)
        for step in range(3):
            tensor.copy_(torch.arange(elements, dtype=torch.float32) + 1000 * rank + step)
            result = algorithm.execute(
                comm.communicator,
                tensor.data_ptr(),
                output.data_ptr(),
                tensor.nbytes,
                output.nbytes,
                mscclpp_utils.torch_dtype_to_mscclpp_dtype(tensor.dtype),
                stream=job.stream(),
            )
            assert result == 0, f"{algorithm.name} returned {result}"
            # Reports kernels that have waited too long.
            capsule.synchronize(comm.communicator, job.stream())
            expected = torch.cat([torch.arange(elements, dtype=torch.float32) + 1000 * peer + step for peer in range(size)])
            assert torch.equal(output.cpu(), expected), f"{elements} elements, step {step}: {output}"
    # A call that the shared memory is too small for is not made, on all ranks alike.
    large = job.tensor_of(1 << 16, torch.float32)
    whole = job.tensor_of(size << 16, torch.float32)
    dtype = mscclpp.DataType.float32
    result = algorithm.execute(comm.communicator, large.data_ptr(), whole.data_ptr(), large.nbytes, whole.nbytes, dtype)
    assert result == mscclpp.CommResult.COMM_INVALID_USAGE, result
    comm.barrier()
    algorithm.reset()
    print(f"ok rank {rank}: {algorithm.name} of 3 sizes", flush=True)


if __name__ == "__main__":
    main()
