// Switch channels, as kernels use them.
#pragma once
#include "mscclpp/device.hpp"
#include "mscclpp/gpu_data_types.hpp"
#include "mscclpp/semaphore_device.hpp"

namespace mscclpp {

#if defined(MSCCLPP_DEVICE_COMPILE)

namespace native {

/// The types in which a switch adds elements, and instructions that load words of them.
template <typename T>
struct OnMulticast;

#if defined(DEV_SIM)

template <typename T, typename Sum>
struct OnSimulatedMulticast {
  static constexpr uint32_t kMaxMembers = 64;
  template <int N>
  DEV static void load(uint32_t* words, const void* at) {
    constexpr int kCount = N * 4 / sizeof(T);
    T members[kMaxMembers * kCount], sums[kCount];
    const uint32_t count = sim_multicast_load(at, members, N * 4, kMaxMembers);
    for (int i = 0; i < kCount; ++i) {
      Sum sum = static_cast<Sum>(members[i]);
      for (uint32_t member = 1; member < count; ++member) sum += static_cast<Sum>(members[member * kCount + i]);
      sums[i] = static_cast<T>(sum);
    }
    __builtin_memcpy(words, sums, N * 4);
  }
};
template <>
struct OnMulticast<float> : OnSimulatedMulticast<float, float> {};
template <>
struct OnMulticast<__half> : OnSimulatedMulticast<__half, float> {};
template <>
struct OnMulticast<__nv_bfloat16> : OnSimulatedMulticast<__nv_bfloat16, float> {};
template <>
struct OnMulticast<int32_t> : OnSimulatedMulticast<uint32_t, uint32_t> {};
template <>
struct OnMulticast<uint32_t> : OnSimulatedMulticast<uint32_t, uint32_t> {};

template <int N>
DEV void store_words(void* at, const uint32_t* words) {
  sim_multicast_store(at, words, N * 4);
}

#elif MSCCLPP_HAS_MULTICAST

#define MSCCLPP_ON_MULTICAST(T, add)                                                                                             \
  template <>                                                                                                                    \
  struct OnMulticast<T> {                                                                                                        \
    template <int N>                                                                                                             \
    DEV static void load(uint32_t* w, const void* at) {                                                                          \
      if constexpr (N == 1) {                                                                                                    \
        asm volatile("multimem.ld_reduce.relaxed.sys.global." add("") " %0, [%1];" : "=r"(w[0]) : "l"(at) : "memory");           \
      } else if constexpr (N == 2) {                                                                                             \
        asm volatile("multimem.ld_reduce.relaxed.sys.global." add(".v2") " {%0, %1}, [%2];"                                      \
                     : "=r"(w[0]), "=r"(w[1])                                                                                    \
                     : "l"(at)                                                                                                   \
                     : "memory");                                                                                                \
      } else {                                                                                                                   \
        asm volatile("multimem.ld_reduce.relaxed.sys.global." add(".v4") " {%0, %1, %2, %3}, [%4];"                              \
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])                                                            \
                     : "l"(at)                                                                                                   \
                     : "memory");                                                                                                \
      }                                                                                                                          \
    }                                                                                                                            \
  };
#define MSCCLPP_ADD_FLOAT(vector) "add" vector ".f32"
#define MSCCLPP_ADD_HALF(vector) "add.acc::f32" vector ".f16x2"
#define MSCCLPP_ADD_BFLOAT(vector) "add.acc::f32" vector ".bf16x2"
MSCCLPP_ON_MULTICAST(float, MSCCLPP_ADD_FLOAT)
MSCCLPP_ON_MULTICAST(__half, MSCCLPP_ADD_HALF)
MSCCLPP_ON_MULTICAST(__nv_bfloat16, MSCCLPP_ADD_BFLOAT)
#undef MSCCLPP_ON_MULTICAST
#undef MSCCLPP_ADD_FLOAT
#undef MSCCLPP_ADD_HALF
#undef MSCCLPP_ADD_BFLOAT

/// Of integers no instruction loads several.
template <>
struct OnMulticast<uint32_t> {
  template <int N>
  DEV static void load(uint32_t* w, const void* at) {
    for (int i = 0; i < N; ++i) {
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];"
                   : "=r"(w[i])
                   : "l"(static_cast<const char*>(at) + 4 * i)
                   : "memory");
    }
  }
};
template <>
struct OnMulticast<int32_t> : OnMulticast<uint32_t> {};

/// Stores words of any type.
template <int N>
DEV void store_words(void* at, const uint32_t* w) {
  if constexpr (N == 1) {
    asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(at), "r"(w[0]) : "memory");
  } else if constexpr (N == 2) {
    asm volatile("multimem.st.relaxed.sys.global.v2.f32 [%0], {%1, %2};" ::"l"(at), "r"(w[0]), "r"(w[1]) : "memory");
  } else {
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
  }
}

#else

// No such device binds memory to a multicast address.
template <typename T>
struct OnMulticast {
  template <int N>
  DEV static void load(uint32_t*, const void*) {
    end_after_failed_wait();
  }
};
template <int N>
DEV void store_words(void*, const uint32_t*) {
  end_after_failed_wait();
}

#endif

}  // namespace native

#endif

/// A switch channel: this rank's memory (`devicePtr`), and the address that reaches that of all ranks (`mcPtr`).
struct SwitchChannelDeviceHandle {
  void* devicePtr;
  void* mcPtr;
  size_t bufferSize;
  /// Semaphores with each of the other ranks, which all channels of a connection share.
  MemoryDevice2DeviceSemaphoreDeviceHandle* peers_;
  size_t numPeers_;

#if defined(MSCCLPP_DEVICE_COMPILE)
  /// Signals all other ranks, after this thread's writes. Each rank waits as often as each signals.
  DEV void signal() {
    for (size_t peer = 0; peer < numPeers_; ++peer) peers_[peer].signal();
  }
  DEV void relaxedSignal() {
    for (size_t peer = 0; peer < numPeers_; ++peer) peers_[peer].relaxedSignal();
  }
  /// Waits for a signal of every other rank. The timeout of the communicator limits it, not the number of checks.
  DEV void wait(int64_t = -1) {
    for (size_t peer = 0; peer < numPeers_; ++peer) peers_[peer].wait();
  }
  DEV void relaxedWait(int64_t = -1) {
    for (size_t peer = 0; peer < numPeers_; ++peer) peers_[peer].relaxedWait();
  }

  /// Returns the sums of the vectors of all ranks: `f32x4`, `f16x8`, … The order of the ranks is unspecified.
  template <typename V>
  DEV V reduce(uint64_t index) {
    return multimemLoadReduce(static_cast<V*>(mcPtr) + index);
  }
  /// Stores a vector at all ranks.
  template <typename V>
  DEV void broadcast(uint64_t index, const V& value) {
    multimemStore(value, static_cast<V*>(mcPtr) + index);
  }
  template <typename V>
  DEV static V multimemLoadReduce(V* at) {
    V sums;
    native::OnMulticast<typename V::Element>::template load<V::kWords>(sums.words, at);
    return sums;
  }
  template <typename V, typename T>
  DEV static void multimemStore(const V& value, T* at) {
    native::store_words<V::kWords>(at, value.words);
  }
#endif
};

}  // namespace mscclpp
