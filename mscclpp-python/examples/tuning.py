"""Tuning as in the integration guide for PyTorch: candidates are measured at startup, and all ranks take the fastest.

Times on the CPU and on simulated devices say nothing about devices; the example shows the calls.
"""

from __future__ import annotations

import time

import torch

import job
import mscclpp
import mscclpp.utils as mscclpp_utils


class TunedComm:
    """An all-reduce with the fastest of the default algorithms for each size."""

    def __init__(self, comm: mscclpp.CommGroup, sizes: list[int]) -> None:
        self.comm = comm
        self.scratch = job.tensor_of(1 << 16, torch.float32)
        algorithms = mscclpp.AlgorithmCollectionBuilder().build_default_algorithms(
            scratch_buffer=self.scratch.data_ptr(), scratch_buffer_size=self.scratch.nbytes, rank=comm.my_rank
        )
        self._all = algorithms.get_by_collective("allreduce")
        self.best = {size: self._tune(size) for size in sizes}

    def _run(self, algo: mscclpp.Algorithm, tensor: torch.Tensor, nblocks: int, nthreads: int) -> int:
        return algo.execute(
            comm=self.comm.communicator,
            input_buffer=tensor.data_ptr(),
            output_buffer=tensor.data_ptr(),
            input_size=tensor.nbytes,
            output_size=tensor.nbytes,
            dtype=mscclpp_utils.torch_dtype_to_mscclpp_dtype(tensor.dtype),
            op=mscclpp.ReduceOp.SUM,
            stream=job.stream(),
            nblocks=nblocks,
            nthreads_per_block=nthreads,
            symmetric_memory=True,
        )

    def _tune(self, size: int) -> tuple[mscclpp.Algorithm, int, int]:
        tensor = job.tensor_of(size, torch.float32)
        fastest = None
        for algo in self._all:
            for nblocks, nthreads in ((0, 0), (2, 256)):
                # An algorithm that does not serve the call, such as those of NVLS without multicast objects.
                if self._run(algo, tensor, nblocks, nthreads) != 0:
                    continue
                begin = time.perf_counter()
                self._run(algo, tensor, nblocks, nthreads)
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                # The sum of all ranks' times, so that all of them take the same algorithm.
                elapsed = job.tensor_of(16, torch.float32)
                elapsed[0] = time.perf_counter() - begin
                self._run(self._all[1], elapsed, 0, 0)
                if fastest is None or elapsed[0].item() < fastest[0]:
                    fastest = (elapsed[0].item(), (algo, nblocks, nthreads))
        assert fastest is not None, f"no algorithm serves {size} bytes"
        return fastest[1]

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Sums a tensor of at most the largest size that was measured."""
        size = min(size for size in self.best if size >= tensor.nbytes)
        assert self._run(self.best[size][0], tensor, *self.best[size][1:]) == 0


def main() -> None:
    comm = TunedComm(job.join(), [1 << 10, 1 << 14])
    for nbytes in (512, 1 << 14):
        tensor = job.tensor_of(nbytes, torch.float32)
        job.fill(tensor, comm.comm.my_rank)
        comm.all_reduce(tensor)
        job.check_sum(tensor, comm.comm.nranks)
    comm.comm.barrier()
    names = ", ".join(f"{size} B: {best[0].name}" for size, best in comm.best.items())
    print(f"ok rank {comm.comm.my_rank}: {names}", flush=True)


if __name__ == "__main__":
    main()
