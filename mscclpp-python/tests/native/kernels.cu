// What kernels of sources with host code may use, each in one kernel, which writes what it finds to the output.
#include <pybind11/pybind11.h>

#include <cassert>
#include <mscclpp/algorithm.hpp>
#include <mscclpp/atomic_device.hpp>
#include <mscclpp/concurrency_device.hpp>
#include <mscclpp/packet_device.hpp>
#include <mscclpp/switch_channel.hpp>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels.cuh"

namespace py = pybind11;

#define FIRST(of) (of).x
#define RUN(kernel, ...) \
  (kernel)<<<1, 64, 0, stream>>>(__VA_ARGS__)

namespace {

constexpr int kWarp = 32, kLane = 3;
enum class Step : int { kFirst = 7, kSecond };

__device__ mscclpp::DeviceSyncer syncer;
__device__ mscclpp::DeviceSemaphore semaphore;
__constant__ int offsets[2] = {10, 20};

struct Scales {
  int factor, summand;
};
__constant__ Scales scales;
__device__ int counts[2] = {5, 6};

__device__ __forceinline__ int twice(int x) { return 2 * x; }

// Threads and blocks of two dimensions; the output has one element for each thread.
__global__ void dimensions(int* output, shapes::Rectangle rectangle) {
  const int thread = threadIdx.y * blockDim.x + threadIdx.x, block = blockIdx.y * gridDim.x + FIRST(blockIdx);
  output[block * blockDim.x * blockDim.y + thread] = 100 * block + thread + rectangle.area();
}

template <int N, typename T>
__global__ void __launch_bounds__(64) reversed(const T* input, T* output) {
  extern __align__(16) __shared__ T of_launch[];
  __shared__ T fixed[N];
  of_launch[threadIdx.x] = input[threadIdx.x];
  if (threadIdx.x < N) fixed[threadIdx.x] = input[threadIdx.x];
  __syncthreads();
  output[threadIdx.x] = of_launch[blockDim.x - 1 - threadIdx.x] + fixed[threadIdx.x % N];
}

// The sum of a warp, in each of its threads.
__global__ void shuffled(int* output) {
  int value = threadIdx.x;
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffff, value, lanes);
  __syncwarp();
  output[threadIdx.x] = value + __shfl_sync(0xffffffff, threadIdx.x, kLane);
  const unsigned odd = __ballot_sync(0xffffffff, threadIdx.x % 2);
  assert(odd != 0);
  if (odd == 0) __trap();
  const bool votes = odd == 0xaaaaaaaau && __any_sync(0xffffffff, threadIdx.x == 0) == (threadIdx.x < kWarp) && !__all_sync(0xffffffff, threadIdx.x % 2);
  const bool bits = __popc(odd) == 16 && __ffs(8) == 4 && __clz(1) == 31 && __uint_as_float(__float_as_uint(1.5f)) == 1.5f;
  output[blockDim.x + threadIdx.x] = votes && bits && __ldcg(output + threadIdx.x) != 0;
}

}  // namespace

__device__ int helper(int x);

// All threads of all blocks, twice.
__global__ void counted(int* output) {
  atomicAdd(output, 1);
  syncer.sync(gridDim.x);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    output[1] = mscclpp::atomicLoad<int, mscclpp::scopeDevice>(output, mscclpp::memoryOrderAcquire);
    semaphore.set(1);
    semaphore.acquire();
    semaphore.release();
  }
  syncer.sync(gridDim.x);
  mscclpp::atomicFetchAdd<int, mscclpp::scopeDevice>(output, helper(static_cast<int>(Step::kFirst)), mscclpp::memoryOrderRelaxed);
}

__device__ int helper(int x) {
  shapes::Accumulator<int> accumulator{0};
  accumulator.add(twice(x) + offsets[1]);
  return accumulator.sum;
}

template <typename PacketType>
__global__ void packets(Channel* channel, const int* input, int* output, size_t bytes, uint32_t flag) {
  channel->putPackets<PacketType>(0, 0, bytes, threadIdx.x, blockDim.x, flag);
  channel->unpackPackets<PacketType>(0, bytes, bytes, threadIdx.x, blockDim.x, flag);
  __syncthreads();
  for (size_t at = threadIdx.x; at < bytes / 4; at += blockDim.x) output[at] = input[bytes / 4 + at];
  __syncthreads();
  if (threadIdx.x == 0) {
    channel->signal();
    while (!channel->poll()) {
#ifdef DEV_SIM
      dev_relax();
#endif
    }
    output[bytes / 4] = channel->read<int>(0) == 0 ? 0 : 1;
  }
}

__global__ void fetched(Channel* channel, int* output, size_t bytes) {
  channel->get(bytes, 0, bytes, threadIdx.x, blockDim.x);
  __syncthreads();
  for (size_t at = threadIdx.x; at < bytes / 4; at += blockDim.x) output[at] = static_cast<int*>(channel->src_)[bytes / 4 + at];
}

// Arithmetic of both types of 16 bits, and how they round.
template <typename T, typename Pair>
__device__ void halves(int* output, float x) {
  const T a(x), b = static_cast<T>(3.0f);
  Pair pair{a, b};
  pair += Pair{b, a};
  output[0] = static_cast<int>(1024 * static_cast<float>(__hadd(a, b) - a * b));
  output[1] = static_cast<int>(1024 * static_cast<float>(a / b));
  output[2] = static_cast<int>(1024 * static_cast<float>(__hfma(a, b, -b)));
  output[3] = pair.x == pair.y && __low2float(pair) == static_cast<float>(a + b) && a < b && __hmax(a, b) == b && __hisnan(T(0.0f) / T(0.0f));
  output[4] = static_cast<int>(static_cast<float>(__hmin2(pair, __hmul2(pair, pair)).y));
  const T sum = __shfl_xor_sync(0xffffffff, T(static_cast<float>(threadIdx.x)), 1);
  output[5] = static_cast<int>(static_cast<float>(sum));
}

__global__ void halves_of_both(int* output, float x) {
  int found[6];
  halves<__half, __half2>(found, x);
  int of_bfloat[6];
  halves<__nv_bfloat16, __nv_bfloat162>(of_bfloat, x);
  if (threadIdx.x > 0) return;
  for (int at = 0; at < 6; ++at) output[at] = found[at], output[6 + at] = of_bfloat[at];
  // Ties, the smallest value, and what exceeds the largest one.
  const float values[] = {2049.0f, 2051.0f, 5.9604645e-8f, 2.9802322e-8f, 65519.0f, 65520.0f, 257.0f, 259.0f};
  for (int at = 0; at < 8; ++at) {
    output[12 + at] = __half_as_ushort(__float2half_rn(values[at]));
    output[20 + at] = __bfloat16_as_ushort(__float2bfloat16(values[at]));
  }
  output[28] = __half2float(__ushort_as_half(0x0001)) == 5.9604644775390625e-8f;
  output[29] = static_cast<int>(__half22float2(__floats2half2_rn(7.0f, -2.0f)).y);
}

// In a namespace of the interface.
namespace mscclpp {
__global__ void scaled(int* output) {
  if (threadIdx.x < 2) output[threadIdx.x] = atomicAdd(&counts[threadIdx.x], scales.factor) + scales.summand;
}
}  // namespace mscclpp

// Copies to variables of devices, and from them.
static void copied(int* output, cudaStream_t stream) {
  const Scales given{100, 1000};
  MSCCLPP_CUDATHROW(cudaMemcpyToSymbol(scales, &given, sizeof(given)));
  const int first = 40;
  MSCCLPP_CUDATHROW(cudaMemcpyToSymbol(counts, &first, sizeof(first), sizeof(int), cudaMemcpyHostToDevice));
  mscclpp::scaled<<<1, 32, 0, stream>>>(output);
  MSCCLPP_CUDATHROW(cudaStreamSynchronize(stream));
  int found[2];
  MSCCLPP_CUDATHROW(cudaMemcpyFromSymbol(found, counts, sizeof(found)));
  MSCCLPP_CUDATHROW(cudaMemcpy(output + 2, found, sizeof(found), cudaMemcpyHostToDevice));
  const int refused = cudaMemcpyFromSymbol(found, counts, sizeof(found), 1);
  MSCCLPP_CUDATHROW(cudaMemcpy(output + 4, &refused, sizeof(refused), cudaMemcpyHostToDevice));
  static_cast<void>(cudaGetLastError());
}

__constant__ mscclpp::DeviceHandle<mscclpp::SwitchChannel> on_switch;

// Each rank adds its half of each kind of elements, 64 bytes of a kind.
template <typename V>
__device__ void add_half(int rank, int kind) {
  const int each = 32 / sizeof(V), at = (2 * kind + rank) * each + threadIdx.x;
  if (threadIdx.x < each) on_switch.broadcast(at, on_switch.reduce<V>(at));
}
__global__ void added(int* output, int rank) {
  if (threadIdx.x == 0) {
    on_switch.relaxedSignal();
    on_switch.relaxedWait();
  }
  __syncthreads();
  add_half<mscclpp::f32x4>(rank, 0);
  add_half<mscclpp::f32x1>(rank, 1);
  add_half<mscclpp::f16x8>(rank, 2);
  add_half<mscclpp::bf16x2>(rank, 3);
  add_half<mscclpp::i32x2>(rank, 4);
  __syncthreads();
  if (threadIdx.x == 0) {
    on_switch.signal();
    on_switch.wait();
  }
  __syncthreads();
  for (int at = threadIdx.x; at < 80; at += blockDim.x) output[at] = static_cast<int*>(on_switch.devicePtr)[at];
}

struct Context {
  std::shared_ptr<char> memory, packets;
  std::vector<mscclpp::RegisteredMemory> registered;
  std::shared_ptr<Channel> toPackets, toMemory;
  int rank;
  mscclpp::GpuBuffer<int> summands{80};
  std::vector<mscclpp::SwitchChannel> switches;
};

static int bits(float value) {
  int found;
  std::memcpy(&found, &value, sizeof(found));
  return found;
}

// 16 words of each kind, which are small integers that differ by rank.
static void connectSwitch(Context& context, std::shared_ptr<mscclpp::Communicator> comm) {
  const int rank = context.rank = comm->bootstrap()->getRank();
  std::vector<int> words(80);
  for (int at = 0; at < 80; ++at) {
    const int value = at % 16 + 100 * rank;
    // 1.5 and 2.5 in pairs of f16, 1 and 3 in pairs of bf16.
    const int pairs[] = {rank == 0 ? 0x3e003e00 : 0x41004100, rank == 0 ? 0x3f803f80 : 0x40404040};
    words[at] = at < 32 ? bits(static_cast<float>(value)) : at < 64 ? pairs[at / 16 - 2] : value;
  }
  MSCCLPP_CUDATHROW(cudaMemcpy(context.summands.data(), words.data(), context.summands.bytes(), cudaMemcpyHostToDevice));
  auto connection = mscclpp::connectNvlsCollective(comm, {0, 1}, context.summands.bytes());
  context.switches.push_back(connection->bindAllocatedMemory(CUdeviceptr(context.summands.data()), context.summands.bytes()));
  const auto handle = context.switches[0].deviceHandle();
  MSCCLPP_CUDATHROW(cudaMemcpyToSymbol(on_switch, &handle, sizeof(handle)));
}

static std::shared_ptr<void> connect(std::shared_ptr<mscclpp::Communicator> comm, const void* input, size_t bytes) {
  auto context = std::make_shared<Context>();
  const int peer = 1 - comm->bootstrap()->getRank();
  auto connection = comm->connect(mscclpp::Transport::CudaIpc, peer, 4).get();
  // The input, and room for what arrives.
  context->memory = mscclpp::detail::gpuCallocShared<char>(2 * bytes);
  context->packets = mscclpp::detail::gpuCallocShared<char>(2 * bytes);
  MSCCLPP_CUDATHROW(cudaMemcpy(context->memory.get(), input, bytes, cudaMemcpyDeviceToDevice));
  auto memory = comm->registerMemory(context->memory.get(), 2 * bytes, mscclpp::Transport::CudaIpc | mscclpp::Transport::IB0);
  auto packets = comm->registerMemory(context->packets.get(), 2 * bytes, mscclpp::Transport::CudaIpc);
  comm->sendMemory(packets, peer, 1);
  comm->sendMemory(memory, peer, 2);
  auto remoteMemory = comm->recvMemory(peer, 2), remotePackets = comm->recvMemory(peer, 1);
  context->registered = {memory, packets, remoteMemory.get(), remotePackets.get()};
  std::vector<char> sent(3, static_cast<char>(peer)), received;
  comm->bootstrap()->send(sent, peer, 5);
  comm->bootstrap()->recv(received, peer, 5);
  if (received != std::vector<char>(3, static_cast<char>(1 - peer))) throw std::logic_error("other bytes have arrived");
  std::vector<int> ranks(2);
  ranks[1 - peer] = 1 - peer;
  comm->bootstrap()->allGather(ranks.data(), sizeof(int));
  if (ranks != std::vector<int>{0, 1}) throw std::logic_error("other ranks have been gathered");
  comm->bootstrap()->barrier();
  auto semaphore = std::make_shared<mscclpp::MemoryDevice2DeviceSemaphore>(*comm, connection);
  auto channel = [&](const mscclpp::RegisteredMemory& to) {
    auto handle = mscclpp::deviceHandle(mscclpp::MemoryChannel(semaphore, to, memory, context->packets.get()));
    auto on_device = mscclpp::detail::gpuCallocShared<Channel>();
    mscclpp::gpuMemcpy(on_device.get(), &handle, 1, cudaMemcpyHostToDevice);
    return on_device;
  };
  context->toPackets = channel(remotePackets.get());
  context->toMemory = channel(remoteMemory.get());
  connectSwitch(*context, comm);
  return context;
}

static mscclpp::CommResult launch(const Context& context, int number, const int* input, int* output, size_t bytes, cudaStream_t stream) {
  switch (number) {
    case 0:
      dimensions<<<dim3(2, 3), dim3(4, 2), 0, stream>>>(output, shapes::Rectangle{5, 6});
      break;
    case 1:
      reversed<8><<<1, bytes / 4, bytes, stream>>>(input, output);
      break;
    case 2:
      RUN(::shuffled, output);
      break;
    case 3:
      counted<<<3, 40, 0, stream>>>(output);
      break;
    case 4:
      packets<mscclpp::LL16Packet><<<1, 48, 0, stream>>>(context.toPackets.get(), (int*)context.memory.get(), output, bytes, 1);
      break;
    case 5:
      packets<mscclpp::LL8Packet><<<1, 48, 0, stream>>>(context.toPackets.get(), (int*)context.memory.get(), output, bytes, 2);
      break;
    case 6:
      fetched<<<1, 33, 0, stream>>>(context.toMemory.get(), output, bytes);
      break;
    case 7:
      halves_of_both<<<1, 32, 0, stream>>>(output, 0.1f);
      break;
    case 8:
      copied(output, stream);
      break;
    case 9:
      added<<<1, 32, 0, stream>>>(output, context.rank);
      break;
    default:
      return mscclpp::CommResult::CommInvalidArgument;
  }
  return mscclpp::CommResult::CommSuccess;
}

PYBIND11_MODULE(kernels, m) {
  m.def("create", [](int number) {
    std::shared_ptr<mscclpp::Algorithm> made = std::make_shared<mscclpp::NativeAlgorithm>(
        "kernels", "sendrecv", [](std::shared_ptr<mscclpp::Communicator>) {},
        [number](const std::shared_ptr<void> context, const void* input, void* output, size_t bytes, size_t, mscclpp::DataType,
                 mscclpp::ReduceOp, cudaStream_t stream, int, int, const std::unordered_map<std::string, uintptr_t>&) {
          return launch(*std::static_pointer_cast<Context>(context), number, (const int*)input, (int*)output, bytes, stream);
        },
        [](std::shared_ptr<mscclpp::Communicator> comm, const void* input, void*, size_t bytes, size_t, mscclpp::DataType) {
          return connect(comm, input, bytes);
        },
        [](const void* input, void* output, size_t inputSize, size_t outputSize, mscclpp::DataType, bool) {
          return mscclpp::AlgorithmCtxKey{(void*)input, output, inputSize, outputSize, 0};
        });
    return py::capsule(new std::shared_ptr<mscclpp::Algorithm>(made), mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME, [](PyObject* capsule) {
      delete static_cast<std::shared_ptr<mscclpp::Algorithm>*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    });
  });
}
