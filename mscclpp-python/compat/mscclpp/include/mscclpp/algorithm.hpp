// Native algorithms: functions of the host that launch kernels.
#pragma once
#include "mscclpp/executor.hpp"
#include "mscclpp/gpu_data_types.hpp"
#include "mscclpp/gpu_utils.hpp"
#include "mscclpp/memory_channel.hpp"
#include "mscclpp/port_channel.hpp"
#include "mscclpp/utils.hpp"

#if !defined(MSCCLPP_DEVICE_COMPILE)

namespace mscclpp {

/// The name of the capsules that `mscclpp.Algorithm.create_from_native_capsule` takes: each holds a `std::shared_ptr<mscclpp::Algorithm>*`.
constexpr char ALGORITHM_NATIVE_CAPSULE_NAME[] = "mscclpp_rs.NativeAlgorithm";

enum class CollectiveBufferMode { Any = 0, InPlace, OutOfPlace };

enum class AlgorithmType { Native = 0, DSL };

enum class CommResult {
  CommSuccess = 0,
  CommUnhandledCudaError = 1,
  CommSystemError = 2,
  CommInternalError = 3,
  CommInvalidArgument = 4,
  CommInvalidUsage = 5,
  CommRemoteError = 6,
  CommInProgress = 7,
  CommNumResults = 8
};

/// An algorithm that serves calls of all ranks.
class Algorithm {
 public:
  /// The job that it is for; 0 is any.
  struct Constraint {
    int worldSize;
    int nRanksPerNode;
  };

  virtual ~Algorithm() = default;
  virtual const std::string& name() const = 0;
  virtual const std::string& collective() const = 0;
  /// The smallest and the largest message, in bytes.
  virtual const std::pair<std::size_t, std::size_t>& messageRange() const = 0;
  virtual const std::unordered_map<std::string, std::uint64_t>& tags() const = 0;
  virtual const CollectiveBufferMode& bufferMode() const = 0;
  virtual AlgorithmType type() const = 0;
  virtual Constraint constraint() const = 0;
  virtual void setMessageSizeRange(std::size_t minMessageSize, std::size_t maxMessageSize) = 0;
  /// Makes a call: enqueues kernels on `stream`.
  virtual CommResult execute(std::shared_ptr<Communicator> comm, const void* input, void* output, std::size_t inputSize,
                             std::size_t outputSize, DataType dtype, ReduceOp op, cudaStream_t stream,
                             std::shared_ptr<Executor> executor, int nBlocks = 0, int nThreadsPerBlock = 0, bool symmetricMemory = false,
                             const std::unordered_map<std::string, std::uintptr_t>& extras = {},
                             DataType accumDtype = DataType::AUTO) = 0;
  /// Drops the contexts. No kernel of any rank may use them.
  virtual void reset() = 0;
};

/// Builds an algorithm.
class AlgorithmBuilder {
 public:
  virtual ~AlgorithmBuilder() = default;
  virtual std::shared_ptr<Algorithm> build() = 0;
};

/// What a context is for: calls with equal keys share one.
struct AlgorithmCtxKey {
  void* baseSendBuff;
  void* baseRecvBuff;
  std::size_t baseSendSize;
  std::size_t baseRecvSize;
  int tag;

  bool operator==(const AlgorithmCtxKey& other) const {
    return baseSendBuff == other.baseSendBuff && baseRecvBuff == other.baseRecvBuff && baseSendSize == other.baseSendSize &&
           baseRecvSize == other.baseRecvSize && tag == other.tag;
  }
};

/// A context with what most algorithms keep in theirs.
struct AlgorithmCtx {
  int rank = 0;
  int workSize = 0;
  int nRanksPerNode = 0;
  std::vector<RegisteredMemory> registeredMemories;
  std::vector<MemoryChannel> memoryChannels;
  std::vector<PortChannel> portChannels;
  std::shared_ptr<DeviceHandle<MemoryChannel>> memoryChannelDeviceHandles;
  std::shared_ptr<DeviceHandle<PortChannel>> portChannelDeviceHandles;
  std::vector<std::shared_ptr<MemoryDevice2DeviceSemaphore>> memorySemaphores;
  std::vector<std::shared_ptr<Host2DeviceSemaphore>> hostSemaphores;
  std::unordered_map<std::string, std::shared_ptr<void>> extras;
};

}  // namespace mscclpp

template <>
struct std::hash<mscclpp::AlgorithmCtxKey> {
  std::size_t operator()(const mscclpp::AlgorithmCtxKey& key) const {
    std::size_t hash = 0;
    mscclpp::detail::hashCombine(hash, key.baseSendBuff);
    mscclpp::detail::hashCombine(hash, key.baseRecvBuff);
    mscclpp::detail::hashCombine(hash, key.baseSendSize);
    mscclpp::detail::hashCombine(hash, key.baseRecvSize);
    mscclpp::detail::hashCombine(hash, key.tag);
    return hash;
  }
};

namespace mscclpp {

/// An algorithm of four functions.
class NativeAlgorithm : public Algorithm {
 public:
  using Extras = std::unordered_map<std::string, std::uintptr_t>;
  /// Called once, by the first call.
  using InitFunc = std::function<void(std::shared_ptr<Communicator>)>;
  /// Launches the kernels of a call.
  using KernelFunc = std::function<CommResult(const std::shared_ptr<void>, const void*, void*, std::size_t, std::size_t, DataType, ReduceOp,
                                              cudaStream_t, int, int, const Extras&, DataType)>;
  /// Makes the context of calls with equal keys. All ranks make it in the same call.
  using ContextInitFunc =
      std::function<std::shared_ptr<void>(std::shared_ptr<Communicator>, const void*, void*, std::size_t, std::size_t, DataType)>;
  /// Returns the key of a call: input, output, their bytes, the type, and whether memory is symmetric.
  using ContextKeyGenFunc = std::function<AlgorithmCtxKey(const void*, void*, std::size_t, std::size_t, DataType, bool)>;

  /// `kernelFunc` is a `KernelFunc`, or one without the last parameter, the type of sums.
  template <typename Init, typename Kernel, typename ContextInit, typename ContextKeyGen>
  NativeAlgorithm(std::string name, std::string collective, Init initFunc, Kernel kernelFunc, ContextInit contextInitFunc,
                  ContextKeyGen contextKeyGenFunc, std::size_t minMessageSize = 0, std::size_t maxMessageSize = UINT64_MAX,
                  CollectiveBufferMode bufferMode = CollectiveBufferMode::Any, std::unordered_map<std::string, std::uint64_t> tags = {},
                  Constraint constraint = {})
      : name_(std::move(name)),
        collective_(std::move(collective)),
        init_(init_of(std::move(initFunc))),
        kernel_(kernel_of(std::move(kernelFunc))),
        make_context_(context_of(std::move(contextInitFunc))),
        key_of_(key_function_of(std::move(contextKeyGenFunc))),
        range_(minMessageSize, maxMessageSize),
        mode_(bufferMode),
        tags_(std::move(tags)),
        constraint_(constraint) {}

  const std::string& name() const override { return name_; }
  const std::string& collective() const override { return collective_; }
  const std::pair<std::size_t, std::size_t>& messageRange() const override { return range_; }
  const std::unordered_map<std::string, std::uint64_t>& tags() const override { return tags_; }
  const CollectiveBufferMode& bufferMode() const override { return mode_; }
  AlgorithmType type() const override { return AlgorithmType::Native; }
  Constraint constraint() const override { return constraint_; }
  void setMessageSizeRange(std::size_t least, std::size_t most) override { range_ = {least, most}; }
  void reset() override { contexts_.clear(); }

  CommResult execute(std::shared_ptr<Communicator> comm, const void* input, void* output, std::size_t inputSize, std::size_t outputSize,
                     DataType dtype, ReduceOp op, cudaStream_t stream, std::shared_ptr<Executor>, int nBlocks = 0,
                     int nThreadsPerBlock = 0, bool symmetricMemory = false, const Extras& extras = {},
                     DataType accumDtype = DataType::AUTO) override {
    const AlgorithmCtxKey key = key_of_(input, output, inputSize, outputSize, dtype, symmetricMemory);
    auto found = contexts_.find(key);
    if (!initialized_ || found == contexts_.end()) {
      comm->connect_in([&] {
        if (!initialized_) init_(comm);
        // A failed call is made again as a whole.
        std::shared_ptr<void> context = make_context_(comm, input, output, inputSize, outputSize, dtype);
        initialized_ = true;
        found = contexts_.insert_or_assign(key, std::move(context)).first;
      });
    }
    const DataType sums = accumDtype == DataType::AUTO ? dtype : accumDtype;
    return kernel_(found->second, input, output, inputSize, outputSize, dtype, op, stream, nBlocks, nThreadsPerBlock, extras, sums);
  }

 private:
  template <typename Kernel>
  static KernelFunc kernel_of(Kernel kernel) {
    constexpr bool is_whole =
        std::is_invocable_v<Kernel&, const std::shared_ptr<void>, const void*, void*, std::size_t, std::size_t, DataType, ReduceOp,
                            cudaStream_t, int, int, const Extras&, DataType>;
    constexpr bool is_short =
        std::is_invocable_v<Kernel&, const std::shared_ptr<void>, const void*, void*, std::size_t, std::size_t, DataType, ReduceOp,
                            cudaStream_t, int, int, const Extras&>;
    static_assert(is_whole || is_short,
                  "expected as kernelFunc of mscclpp::NativeAlgorithm a function of (std::shared_ptr<void> context, const void* input, "
                  "void* output, size_t inputSize, size_t outputSize, DataType, ReduceOp, cudaStream_t, int nBlocks, "
                  "int nThreadsPerBlock, const std::unordered_map<std::string, uintptr_t>& extras, DataType accumDtype)");
    if constexpr (is_whole) {
      return kernel;
    } else if constexpr (is_short) {
      return [kernel = std::move(kernel)](const std::shared_ptr<void> context, const void* input, void* output, std::size_t inputSize,
                                          std::size_t outputSize, DataType dtype, ReduceOp op, cudaStream_t stream, int blocks, int threads,
                                          const Extras& extras, DataType) mutable {
        return kernel(context, input, output, inputSize, outputSize, dtype, op, stream, blocks, threads, extras);
      };
    }
  }

  // Each states what is expected, which a conversion that fails does not.

  template <typename Init>
  static InitFunc init_of(Init init) {
    constexpr bool is_right = std::is_constructible_v<InitFunc, Init>;
    static_assert(is_right, "expected as initFunc of mscclpp::NativeAlgorithm a function of (std::shared_ptr<Communicator>)");
    if constexpr (is_right) return InitFunc(std::move(init));
  }
  template <typename ContextInit>
  static ContextInitFunc context_of(ContextInit init) {
    constexpr bool is_right = std::is_constructible_v<ContextInitFunc, ContextInit>;
    static_assert(is_right,
                  "expected as contextInitFunc of mscclpp::NativeAlgorithm a function of (std::shared_ptr<Communicator>, const void* input, "
                  "void* output, size_t inputSize, size_t outputSize, DataType) that returns a std::shared_ptr<void>");
    if constexpr (is_right) return ContextInitFunc(std::move(init));
  }
  template <typename ContextKeyGen>
  static ContextKeyGenFunc key_function_of(ContextKeyGen key) {
    constexpr bool is_right = std::is_constructible_v<ContextKeyGenFunc, ContextKeyGen>;
    static_assert(is_right,
                  "expected as contextKeyGenFunc of mscclpp::NativeAlgorithm a function of (const void* input, void* output, "
                  "size_t inputSize, size_t outputSize, DataType, bool symmetricMemory) that returns an AlgorithmCtxKey");
    if constexpr (is_right) return ContextKeyGenFunc(std::move(key));
  }

  std::string name_, collective_;
  InitFunc init_;
  KernelFunc kernel_;
  ContextInitFunc make_context_;
  ContextKeyGenFunc key_of_;
  std::pair<std::size_t, std::size_t> range_;
  CollectiveBufferMode mode_;
  std::unordered_map<std::string, std::uint64_t> tags_;
  Constraint constraint_;
  std::unordered_map<AlgorithmCtxKey, std::shared_ptr<void>> contexts_;
  bool initialized_ = false;
};

}  // namespace mscclpp

#endif
