// An all-reduce over memory channels: each rank puts its input into the scratch memory of all others, and sums what it has got.
// `native_modules.py` runs it.
#include <pybind11/pybind11.h>

#include <mscclpp/algorithm.hpp>
#include <mscclpp/concurrency_device.hpp>
#include <mscclpp/core.hpp>
#include <mscclpp/memory_channel.hpp>

namespace py = pybind11;

using Channel = mscclpp::DeviceHandle<mscclpp::MemoryChannel>;

constexpr int kDefaultBlocks = 2;
constexpr int kDefaultThreads = 64;

__device__ mscclpp::DeviceSyncer syncer;

/// Part r of the scratch memory is for what rank r puts there; the part of the rank itself is free.
template <typename T>
__global__ void __launch_bounds__(1024) allreduce(Channel* channels, const T* input, const T* scratch, T* output, int rank, int ranks,
                                                  size_t count) {
  __shared__ Channel channel;
  const size_t bytes = count * sizeof(T);
  for (int at = blockIdx.x; at < ranks - 1; at += gridDim.x) {
    if (threadIdx.x == 0) channel = channels[at];
    __syncthreads();
    channel.put(rank * bytes, 0, bytes, threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0) {
      channel.signal();
      channel.wait();
    }
    __syncthreads();
  }
  syncer.sync(gridDim.x);
  for (size_t at = threadIdx.x + blockIdx.x * blockDim.x; at < count; at += gridDim.x * blockDim.x) {
    T sum = 0;
    for (int peer = 0; peer < ranks; ++peer) sum += peer == rank ? input[at] : scratch[peer * count + at];
    output[at] = sum;
  }
  // The next call writes to the scratch memory again.
  syncer.sync(gridDim.x);
  for (int at = blockIdx.x; at < ranks - 1; at += gridDim.x) {
    if (threadIdx.x == 0) {
      channels[at].relaxedSignal();
      channels[at].relaxedWait();
    }
  }
}

struct Context {
  int rank, ranks;
  std::shared_ptr<char> scratch;
  std::vector<mscclpp::RegisteredMemory> memory;
  std::vector<mscclpp::Semaphore> semaphores;
  std::shared_ptr<Channel> channels;
};

class AllreduceBuilder : public mscclpp::AlgorithmBuilder {
 public:
  std::shared_ptr<mscclpp::Algorithm> build() override {
    auto self = std::make_shared<AllreduceBuilder>();
    return std::make_shared<mscclpp::NativeAlgorithm>(
        "memory_allreduce", "allreduce", [self](std::shared_ptr<mscclpp::Communicator> comm) { self->initialize(comm); },
        [](const std::shared_ptr<void> context, const void* input, void* output, size_t inputSize, size_t, mscclpp::DataType dtype,
           mscclpp::ReduceOp, cudaStream_t stream, int nBlocks, int nThreadsPerBlock,
           const std::unordered_map<std::string, uintptr_t>& extras) {
          switch (dtype) {
            case mscclpp::DataType::FLOAT32:
              return launch<float>(context, input, output, inputSize, stream, nBlocks, nThreadsPerBlock);
            case mscclpp::DataType::INT32:
              return launch<int>(context, input, output, inputSize, stream, nBlocks, nThreadsPerBlock);
            default:
              return mscclpp::CommResult::CommInvalidArgument;
          }
        },
        [self](std::shared_ptr<mscclpp::Communicator> comm, const void* input, void*, size_t inputSize, size_t, mscclpp::DataType) {
          return self->makeContext(comm, input, inputSize);
        },
        [](const void* input, void*, size_t inputSize, size_t, mscclpp::DataType, bool) {
          return mscclpp::AlgorithmCtxKey{const_cast<void*>(input), nullptr, inputSize, 0, 0};
        },
        0, 1 << 20, mscclpp::CollectiveBufferMode::Any, std::unordered_map<std::string, uint64_t>{{"scratch", 1}});
  }

 private:
  std::vector<mscclpp::Connection> connections_;

  template <typename T>
  static mscclpp::CommResult launch(const std::shared_ptr<void>& context, const void* input, void* output, size_t bytes,
                                    cudaStream_t stream, int blocks, int threads) {
    const auto of = std::static_pointer_cast<Context>(context);
    const T* scratch = reinterpret_cast<const T*>(of->scratch.get());
    allreduce<T><<<blocks > 0 ? blocks : kDefaultBlocks, threads > 0 ? threads : kDefaultThreads, 0, stream>>>(
        of->channels.get(), static_cast<const T*>(input), scratch, static_cast<T*>(output), of->rank, of->ranks, bytes / sizeof(T));
    return cudaGetLastError() == cudaSuccess ? mscclpp::CommResult::CommSuccess : mscclpp::CommResult::CommUnhandledCudaError;
  }

  void initialize(std::shared_ptr<mscclpp::Communicator> comm) {
    const int rank = comm->bootstrap()->getRank(), ranks = comm->bootstrap()->getNranks();
    std::vector<std::shared_future<mscclpp::Connection>> futures;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != rank) futures.push_back(comm->connect(mscclpp::Transport::CudaIpc, peer));
    }
    for (const auto& future : futures) connections_.push_back(future.get());
  }

  std::shared_ptr<void> makeContext(std::shared_ptr<mscclpp::Communicator> comm, const void* input, size_t bytes) {
    auto context = std::make_shared<Context>();
    context->rank = comm->bootstrap()->getRank();
    context->ranks = comm->bootstrap()->getNranks();
    context->scratch = mscclpp::detail::gpuCallocShared<char>(bytes * context->ranks);
    const auto own = comm->registerMemory(context->scratch.get(), bytes * context->ranks, mscclpp::Transport::CudaIpc);
    const auto source = comm->registerMemory(const_cast<void*>(input), bytes, mscclpp::Transport::CudaIpc);
    std::vector<std::shared_future<mscclpp::RegisteredMemory>> remote;
    std::vector<std::shared_future<mscclpp::Semaphore>> semaphores;
    for (const auto& connection : connections_) {
      const int peer = comm->remoteRankOf(connection);
      comm->sendMemory(own, peer);
      remote.push_back(comm->recvMemory(peer));
      semaphores.push_back(comm->buildSemaphore(connection, peer));
    }
    std::vector<Channel> channels;
    for (size_t at = 0; at < remote.size(); ++at) {
      context->memory.push_back(remote[at].get());
      context->semaphores.push_back(semaphores[at].get());
      const mscclpp::MemoryChannel channel(context->semaphores.back(), context->memory.back(), source);
      channels.push_back(mscclpp::deviceHandle(channel));
    }
    context->channels = mscclpp::detail::gpuCallocShared<Channel>(channels.size());
    mscclpp::gpuMemcpy(context->channels.get(), channels.data(), channels.size(), cudaMemcpyHostToDevice);
    return context;
  }
};

PYBIND11_MODULE(memory_allreduce, m) {
  m.def("create_algorithm", [] {
    auto* algorithm = new std::shared_ptr<mscclpp::Algorithm>(AllreduceBuilder().build());
    return py::capsule(algorithm, mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME, [](PyObject* capsule) {
      delete static_cast<std::shared_ptr<mscclpp::Algorithm>*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    });
  });
}
