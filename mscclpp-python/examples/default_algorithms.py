"""The first way of the integration guide for PyTorch: the default algorithms, selected by name and size of the message."""

from __future__ import annotations

import torch

import job
import mscclpp
import mscclpp.utils as mscclpp_utils


class CustomizedComm:
    """An all-reduce that selects an algorithm by the size of the message."""

    def __init__(self, comm: mscclpp.CommGroup) -> None:
        self.comm = comm
        self.scratch_buffer = job.tensor_of(1 << 20, torch.float16)
        algorithms = mscclpp.AlgorithmCollectionBuilder().build_default_algorithms(
            scratch_buffer=self.scratch_buffer.data_ptr(),
            scratch_buffer_size=self.scratch_buffer.nbytes,
            rank=comm.my_rank,
        )
        by_name = {algo.name: algo for algo in algorithms if algo.collective == "allreduce"}
        # Those of NVLS need devices with multicast objects.
        nvls = mscclpp.is_nvls_supported()
        self._small = by_name["default_allreduce_nvls_packet" if nvls else "default_allreduce_packet"]
        self._large = by_name["default_allreduce_nvls_warp_pipeline" if nvls else "default_allreduce_rsag_zero_copy"]

    def all_reduce(self, tensor: torch.Tensor) -> None:
        algo = self._small if tensor.nbytes < 1 << 14 else self._large
        result = algo.execute(
            comm=self.comm.communicator,
            input_buffer=tensor.data_ptr(),
            output_buffer=tensor.data_ptr(),
            input_size=tensor.nbytes,
            output_size=tensor.nbytes,
            dtype=mscclpp_utils.torch_dtype_to_mscclpp_dtype(tensor.dtype),
            op=mscclpp.ReduceOp.SUM,
            stream=job.stream(),
        )
        assert result == 0, f"{algo.name} returned {result}"


def main() -> None:
    comm = CustomizedComm(job.join())
    for nbytes in (64, 4096, 1 << 15):
        tensor = job.tensor_of(nbytes, torch.float16)
        job.fill(tensor, comm.comm.my_rank)
        comm.all_reduce(tensor)
        job.check_sum(tensor, comm.comm.nranks)
    comm.comm.barrier()
    print(f"ok rank {comm.comm.my_rank}: all-reduces of 3 sizes", flush=True)


if __name__ == "__main__":
    main()
