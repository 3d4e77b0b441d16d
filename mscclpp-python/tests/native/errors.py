"""Failures of native algorithms with host code, by name: a job of two ranks on devices, or simulated ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import torch

import job
import mscclpp
import mscclpp_rs

# Functions of an algorithm, each of which a test replaces: what they do, by the value of an extra argument or a macro.
SOURCE = """
#include <mscclpp/algorithm.hpp>
#include <mscclpp/memory_channel.hpp>
#include <mscclpp/switch_channel.hpp>
#include <pybind11/pybind11.h>

namespace py = pybind11;

__global__ void wait_forever(mscclpp::DeviceHandle<mscclpp::MemoryChannel>* channel) { channel->wait(); }
__global__ void nothing() {}

static std::shared_ptr<void> connect(std::shared_ptr<mscclpp::Communicator> comm, const void* input, size_t bytes, int fault) {
  const int rank = comm->bootstrap()->getRank(), peer = 1 - rank;
  auto connection = comm->connect(mscclpp::Transport::CudaIpc, peer).get();
  auto own = comm->registerMemory(const_cast<void*>(input), bytes, mscclpp::Transport::CudaIpc);
  if (fault == 1 && rank == 0) throw std::out_of_range("no context on rank 0");
  if (fault == 10 && rank == 0) throw 42;
  if (fault == 11 && rank == 0) throw std::invalid_argument("caf\\xe9");
  if (fault == 12 && rank == 0) comm->sendMemory(comm->registerMemory(const_cast<void*>(input), SIZE_MAX, mscclpp::Transport::CudaIpc), peer);
  if (fault >= 13 && fault <= 15) {
    std::vector<int> ranks{1, 0};
    if (fault == 13) ranks.pop_back();
    mscclpp::GpuBuffer<char> memory(1 << 20);
    const bool is_plain = fault == 15;
    const auto address = is_plain ? CUdeviceptr(input) : CUdeviceptr(memory.data());
    mscclpp::connectNvlsCollective(comm, ranks, 64)->bindAllocatedMemory(address, fault == 14 ? 16 + 16 * rank : 16);
  }
  if (fault == 2) MSCCLPP_CUDATHROW(cudaMemcpy(const_cast<void*>(input), reinterpret_cast<void*>(8), 1, cudaMemcpyDeviceToDevice));
  if (fault != 3 || rank != 0) comm->sendMemory(own, peer);
  auto remote = comm->recvMemory(peer).get();
  auto semaphore = comm->buildSemaphore(connection, peer, fault == 4 ? rank : 0).get();
  if (fault == 5) comm->sendMemory(own, 7);
  auto handle = mscclpp::deviceHandle(mscclpp::MemoryChannel(semaphore, remote, own));
  auto channel = mscclpp::detail::gpuCallocShared<mscclpp::DeviceHandle<mscclpp::MemoryChannel>>();
  mscclpp::gpuMemcpy(channel.get(), &handle, 1, cudaMemcpyHostToDevice);
  return channel;
}

static std::shared_ptr<mscclpp::Algorithm> made(int fault) {
  return std::make_shared<mscclpp::NativeAlgorithm>(
      "faulty", "allgather", [](std::shared_ptr<mscclpp::Communicator>) {},
      [fault](const std::shared_ptr<void> context, const void*, void*, size_t, size_t, mscclpp::DataType, mscclpp::ReduceOp,
              cudaStream_t stream, int, int, const std::unordered_map<std::string, uintptr_t>& extras, mscclpp::DataType) {
        using Channel = mscclpp::DeviceHandle<mscclpp::MemoryChannel>;
        if (fault == 6) nothing<<<dim3(0, 2), 32, 0, stream>>>();
        if (fault == 7) wait_forever<<<1, 1, 0, stream>>>(static_cast<Channel*>(context.get()));
        if (fault == 8) nothing<<<1, 2000, 0, stream>>>();
        if (fault == 9) nothing<<<1, 32, 1 << 20, stream>>>();
        return extras.count("result") ? static_cast<mscclpp::CommResult>(extras.at("result")) : mscclpp::CommResult::CommSuccess;
      },
      [fault](std::shared_ptr<mscclpp::Communicator> comm, const void* input, void*, size_t bytes, size_t, mscclpp::DataType) {
        return connect(comm, input, bytes, fault);
      },
      [](const void* input, void* output, size_t inputSize, size_t outputSize, mscclpp::DataType, bool) {
        return mscclpp::AlgorithmCtxKey{const_cast<void*>(input), output, inputSize, outputSize, 0};
      });
}

PYBIND11_MODULE(faulty, m) {
  m.def("create", [](int fault) {
    if (fault < 0) throw std::invalid_argument("expected a number of a fault");
    auto* algorithm = new std::shared_ptr<mscclpp::Algorithm>(made(fault));
    return py::capsule(algorithm, mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME, [](PyObject* capsule) {
      delete static_cast<std::shared_ptr<mscclpp::Algorithm>*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    });
  });
  m.def("other_capsule", [] { return py::capsule(reinterpret_cast<void*>(8), "another name"); });
}
"""


def raises(kind: type[BaseException], text: str, call: object, *arguments: object, **options: object) -> BaseException:
    try:
        call(*arguments, **options)  # type: ignore[operator]
    except kind as error:
        assert text in str(error), f"expected {text!r}, found {error!r}"
        return error
    raise AssertionError(f"expected {kind.__name__} with {text!r}, found no exception")


def main() -> None:
    comm = job.join()
    rank = comm.my_rank
    module: ModuleType = mscclpp.compile_native(name="faulty", source=SOURCE)  # type: ignore[assignment]
    stream = job.stream()
    tensor = torch.zeros(16, dtype=torch.float32, device="cuda")

    def execute(fault: int, **options: object) -> int:
        algorithm = mscclpp.Algorithm.create_from_native_capsule(module.create(fault))
        call = (comm.communicator, tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes, tensor.nbytes, mscclpp.DataType.float32)
        return algorithm.execute(*call, stream=stream, **options)  # type: ignore[arg-type]

    # Exceptions of builders, and capsules of something else.
    raises(ValueError, "expected a number of a fault", module.create, -1)
    raises(TypeError, "mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME", mscclpp.Algorithm.create_from_native_capsule, module.other_capsule())

    raises(ImportError, "expected PYBIND11_MODULE(other, ...)", mscclpp.compile_native, name="other", source=SOURCE)

    # Exceptions of a context: by name on the rank that throws, as its failure on the other one. The communicator serves the next call.
    if rank == 0:
        raises(IndexError, "no context on rank 0", execute, 1)
    else:
        error = raises(mscclpp_rs.Error, "rank 0 has failed", execute, 1)
        assert isinstance(error, mscclpp_rs.Error) and error.root_cause == 0 and error.reason == "no context on rank 0", error
    # Whatever it is, and before a round in which the other one takes part.
    for fault, kind, reason in (
        (10, RuntimeError, "the native algorithm has thrown what is no std::exception"),
        (11, ValueError, "caf\ufffd"),
        (12, mscclpp_rs.InvalidInputError, "registerMemory: expected a range that ends below 2^64"),
    ):
        error = raises(kind if rank == 0 else mscclpp_rs.Error, reason, execute, fault)
        assert rank == 0 or isinstance(error, mscclpp_rs.Error) and error.root_cause == 0, error
    raises(mscclpp_rs.Error, "failed at faulty.cu:" if rank == 0 else "", execute, 2)
    raises(mscclpp_rs.Error, "waits for memory of rank 0 with tag 0", execute, 3)
    raises(mscclpp_rs.MismatchError, "[0] on rank 0 and [1] on rank 1", execute, 4)
    raises(mscclpp_rs.InvalidInputError, "expected another rank than", execute, 5)
    raises(mscclpp_rs.Error, "connectNvlsCollective: expected all 2 ranks once, found 1 ranks", execute, 13)
    raises(mscclpp_rs.MismatchError, "expected as many bytes on all ranks, found [16, 32]", execute, 14)
    raises(mscclpp_rs.Error, "GpuBuffer", execute, 15)
    assert execute(0) == 0
    assert execute(0, extras={"result": 3}) == mscclpp.CommResult.COMM_INTERNAL_ERROR

    # Launches.
    raises(ValueError, "launch of nothing in 0x2x1 blocks of 32x1x1 threads with 0 bytes: expected at least 1 block", execute, 6)
    raises(ValueError, "1 to 1024 threads in each", execute, 8)
    raises(mscclpp_rs.Error, "with 1048576 bytes failed", execute, 9)
    on_host = torch.zeros(16)
    algorithm = mscclpp.Algorithm.create_from_native_capsule(module.create(0))
    host_call = (comm.communicator, on_host.data_ptr(), on_host.data_ptr(), on_host.nbytes, on_host.nbytes, mscclpp.DataType.float32)
    raises(mscclpp_rs.Error, "", algorithm.execute, *host_call)

    # A wait that no rank ends: the timeout of the communicator is that of MSCCLPP_TIMEOUT.
    comm.barrier()
    assert execute(7) == 0
    waiting = mscclpp.Algorithm.create_from_native_capsule(module.create(0))
    raises(mscclpp_rs.Error, "longer than the timeout", waiting.synchronize, comm.communicator, stream)
    raises(mscclpp_rs.Error, "memory channel", execute, 0)
    print(f"ok rank {rank}: failures of native algorithms", flush=True)
    # The device has failed; nothing of it can be released.
    os._exit(0)


if __name__ == "__main__":
    os.environ.setdefault("MSCCLPP_TIMEOUT", "3")
    main()
