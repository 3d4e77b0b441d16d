// An all-gather over port channels: parts travel around a ring, by the proxies of the ranks. `native_modules.py` runs it.
#include <pybind11/pybind11.h>

#include <mscclpp/algorithm.hpp>
#include <mscclpp/core.hpp>
#include <mscclpp/port_channel.hpp>

namespace py = pybind11;

using Channel = mscclpp::DeviceHandle<mscclpp::PortChannel>;

/// Called with one block. `next`: to the output of the next rank; `previous`: its semaphore is that of the rank before.
__global__ void ring(Channel* next, Channel* previous, const char* input, char* output, int rank, int ranks, size_t bytes) {
  for (size_t at = threadIdx.x; at < bytes; at += blockDim.x) output[rank * bytes + at] = input[at];
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int step = 0; step < ranks - 1; ++step) {
    const size_t part = (rank + ranks - step) % ranks;
    next->putWithSignal(part * bytes, bytes);
    previous->wait();
  }
  next->flush();
}

struct Context {
  int rank, ranks;
  std::vector<mscclpp::RegisteredMemory> memory;
  std::shared_ptr<Channel> channels;
};

class RingBuilder : public mscclpp::AlgorithmBuilder {
 public:
  std::shared_ptr<mscclpp::Algorithm> build() override {
    auto self = std::make_shared<RingBuilder>();
    return std::make_shared<mscclpp::NativeAlgorithm>(
        "ring_allgather", "allgather", [self](std::shared_ptr<mscclpp::Communicator> comm) { self->initialize(comm); },
        [](const std::shared_ptr<void> context, const void* input, void* output, size_t inputSize, size_t, mscclpp::DataType,
           mscclpp::ReduceOp, cudaStream_t stream, int, int nThreadsPerBlock, const std::unordered_map<std::string, uintptr_t>&,
           mscclpp::DataType) {
          const auto of = std::static_pointer_cast<Context>(context);
          const int threads = nThreadsPerBlock > 0 ? nThreadsPerBlock : 128;
          ring<<<1, threads, 0, stream>>>(of->channels.get(), of->channels.get() + 1, static_cast<const char*>(input),
                                          static_cast<char*>(output), of->rank, of->ranks, inputSize);
          return cudaGetLastError() == cudaSuccess ? mscclpp::CommResult::CommSuccess : mscclpp::CommResult::CommUnhandledCudaError;
        },
        [self](std::shared_ptr<mscclpp::Communicator> comm, const void*, void* output, size_t, size_t outputSize, mscclpp::DataType) {
          return self->makeContext(comm, output, outputSize);
        },
        [](const void*, void* output, size_t, size_t outputSize, mscclpp::DataType, bool) {
          return mscclpp::AlgorithmCtxKey{nullptr, output, 0, outputSize, 0};
        });
  }

 private:
  std::shared_ptr<mscclpp::ProxyService> proxy_ = std::make_shared<mscclpp::ProxyService>();
  // To the next rank, and to the one before, which of two ranks is the same.
  mscclpp::Connection next_, previous_;

  void initialize(std::shared_ptr<mscclpp::Communicator> comm) {
    const int rank = comm->bootstrap()->getRank(), ranks = comm->bootstrap()->getNranks();
    next_ = comm->connect(mscclpp::Transport::CudaIpc, (rank + 1) % ranks).get();
    previous_ = comm->connect(mscclpp::Transport::CudaIpc, (rank + ranks - 1) % ranks).get();
    proxy_->startProxy();
  }

  std::shared_ptr<void> makeContext(std::shared_ptr<mscclpp::Communicator> comm, void* output, size_t bytes) {
    auto context = std::make_shared<Context>();
    context->rank = comm->bootstrap()->getRank();
    context->ranks = comm->bootstrap()->getNranks();
    const int next = comm->remoteRankOf(next_), previous = comm->remoteRankOf(previous_);
    const mscclpp::RegisteredMemory own = comm->registerMemory(output, bytes, mscclpp::Transport::CudaIpc);
    comm->sendMemory(own, previous);
    const mscclpp::RegisteredMemory remote = comm->recvMemory(next).get();
    context->memory = {own, remote};
    const mscclpp::MemoryId from = proxy_->addMemory(own), to = proxy_->addMemory(remote);
    const mscclpp::SemaphoreId to_next = proxy_->buildAndAddSemaphore(*comm, next_);
    const mscclpp::SemaphoreId to_previous = next == previous ? to_next : proxy_->buildAndAddSemaphore(*comm, previous_);
    const Channel channels[] = {mscclpp::deviceHandle(proxy_->portChannel(to_next, to, from)),
                                mscclpp::deviceHandle(proxy_->portChannel(to_previous, to, from))};
    context->channels = mscclpp::detail::gpuCallocShared<Channel>(2);
    mscclpp::gpuMemcpy(context->channels.get(), channels, 2, cudaMemcpyHostToDevice);
    return context;
  }
};

PYBIND11_MODULE(port_allgather, m) {
  m.def("create_algorithm", [] {
    auto* algorithm = new std::shared_ptr<mscclpp::Algorithm>(RingBuilder().build());
    return py::capsule(algorithm, mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME, [](PyObject* capsule) {
      delete static_cast<std::shared_ptr<mscclpp::Algorithm>*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    });
  });
}
