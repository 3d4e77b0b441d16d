// CUDA's names for kernels, on a simulated device. Threads are coroutines of one thread of the CPU. Loads and
// stores of a kernel are those of the CPU; only those of channels and packets are delayed (dev/sim).
#pragma once
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "mscclpp/native/vectors.hpp"

#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) alignas(bytes)
#define __restrict__ __restrict

/// Declares a variable of the block's shared memory.
#define MSCCLPP_SHARED(name, ...)        \
  struct name##_shared {                 \
    __VA_ARGS__;                         \
  };                                     \
  static const char name##_shared_key = 0; \
  auto& name = static_cast<name##_shared*>(sim_shared_at(&name##_shared_key, sizeof(name##_shared)))->name

/// Declares the array of the block's shared memory that has as many bytes as the launch states.
#define MSCCLPP_SHARED_OF_LAUNCH(name, ...) \
  struct name##_shared {                    \
    __VA_ARGS__[1];                         \
  };                                        \
  auto* name = static_cast<name##_shared*>(::mscclpp::native::shared_of_launch())->name

namespace mscclpp {
namespace native {

/// A warp of a block: its threads that have arrived at a sync, and a value of each.
struct Warp {
  uint32_t arrived, syncs;
  uint64_t values[32];
};

/// What a block knows of its launch, and its warps.
struct Block {
  uint64_t is_set;
  uint32_t blocks[3], threads[3], shared;
  Warp warps[32];
};

/// Of `is_set`: no shared memory has this at first.
constexpr uint64_t kIsSet = 0x6b636f6c62;

static inline Block& this_block() {
  static const char key = 0;
  return *static_cast<Block*>(sim_shared_at(&key, sizeof(Block)));
}

static inline void* shared_of_launch() {
  static const char key = 0;
  return sim_shared_at(&key, this_block().shared);
}

/// Called by: all threads, at the beginning of a kernel. Syncs: none, so that threads without a sync end before others begin.
template <typename Call>
static inline void begin(const Call& call) {
  Block& block = this_block();
  if (block.is_set == kIsSet) return;
  std::memset(&block, 0, sizeof(block));
  std::memcpy(block.blocks, call.blocks, sizeof(block.blocks));
  std::memcpy(block.threads, call.threads, sizeof(block.threads));
  block.shared = call.shared;
  block.is_set = kIsSet;
}

static inline uint3 index_in(uint32_t number, const uint32_t* of) { return {number % of[0], number / of[0] % of[1], number / of[0] / of[1]}; }
static inline dim3 dimensions(const uint32_t* of) { return {of[0], of[1], of[2]}; }

}  // namespace native
}  // namespace mscclpp

#define MSCCLPP_BEGIN(call) ::mscclpp::native::begin(call);
#define threadIdx (::mscclpp::native::index_in(dev_thread(), ::mscclpp::native::this_block().threads))
#define blockIdx (::mscclpp::native::index_in(dev_block(), ::mscclpp::native::this_block().blocks))
#define blockDim (::mscclpp::native::dimensions(::mscclpp::native::this_block().threads))
#define gridDim (::mscclpp::native::dimensions(::mscclpp::native::this_block().blocks))
constexpr int warpSize = 32;

static inline void __syncthreads() { dev_sync(); }
static inline int __syncthreads_count(int predicate) { return static_cast<int>(dev_sync_count(predicate != 0)); }
static inline int __syncthreads_or(int predicate) { return dev_sync_count(predicate != 0) != 0; }
static inline int __syncthreads_and(int predicate) { return dev_sync_count(predicate == 0) == 0; }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) { dev_relax(); }
static inline long long clock64() { return static_cast<long long>(dev_now()); }

namespace mscclpp {
namespace native {

static inline Warp& this_warp() { return this_block().warps[dev_thread() / 32]; }

/// Waits for as many threads of the warp as a mask has, or all that there are.
static inline void sync_warp(uint32_t mask) {
  Warp& warp = this_warp();
  const uint32_t first = dev_thread() / 32 * 32, left = dev_threads() - first;
  const uint32_t present = left >= 32 ? 0xffffffffu : (1u << left) - 1;
  const uint32_t syncs = warp.syncs;
  if (++warp.arrived >= static_cast<uint32_t>(__builtin_popcount(mask & present))) {
    warp.arrived = 0;
    ++warp.syncs;
    return;
  }
  while (warp.syncs == syncs) dev_relax();
}

template <typename T>
static inline T exchange(uint32_t mask, T value, uint32_t from) {
  static_assert(sizeof(T) <= 8, "a value of at most 8 bytes");
  Warp& warp = this_warp();
  std::memcpy(&warp.values[dev_thread() % 32], &value, sizeof(T));
  sync_warp(mask);
  if (from < 32) std::memcpy(&value, &warp.values[from], sizeof(T));
  sync_warp(mask);
  return value;
}

/// Returns the lanes of a mask whose predicates hold, a bit for each.
static inline uint32_t votes(uint32_t mask, int predicate) {
  Warp& warp = this_warp();
  warp.values[dev_thread() % 32] = predicate != 0;
  sync_warp(mask);
  uint32_t found = 0;
  const uint32_t left = dev_threads() - dev_thread() / 32 * 32;
  for (uint32_t lane = 0; lane < 32 && lane < left; ++lane) found |= static_cast<uint32_t>(warp.values[lane]) << lane & mask;
  sync_warp(mask);
  return found;
}

/// Changes a value at once, as no other coroutine runs meanwhile. Returns the previous one.
template <typename T, typename Change>
static inline T atomic(T* at, const Change& change) {
  const T before = *at;
  *at = change(before);
  return before;
}

}  // namespace native
}  // namespace mscclpp

static inline void __syncwarp(unsigned mask = 0xffffffffu) { mscclpp::native::sync_warp(mask); }
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const unsigned own = dev_thread() % 32, base = own / width * width;
  return mscclpp::native::exchange(mask, value, base + static_cast<unsigned>(lane) % width);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int = 32) {
  return mscclpp::native::exchange(mask, value, (dev_thread() % 32) ^ static_cast<unsigned>(lanes));
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
  const unsigned own = dev_thread() % 32, to = own + lanes;
  return mscclpp::native::exchange(mask, value, to / width == own / width ? to : own);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
  const unsigned own = dev_thread() % 32;
  return mscclpp::native::exchange(mask, value, own % width >= lanes ? own - lanes : own);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate) { return mscclpp::native::votes(mask, predicate); }
static inline int __any_sync(unsigned mask, int predicate) { return mscclpp::native::votes(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return mscclpp::native::votes(mask, predicate == 0) == 0; }

template <typename T>
static inline T atomicAdd(T* at, T value) {
  return mscclpp::native::atomic(at, [&](T before) { return static_cast<T>(before + value); });
}
template <typename T>
static inline T atomicSub(T* at, T value) {
  return mscclpp::native::atomic(at, [&](T before) { return static_cast<T>(before - value); });
}
template <typename T>
static inline T atomicMax(T* at, T value) {
  return mscclpp::native::atomic(at, [&](T before) { return before < value ? value : before; });
}
template <typename T>
static inline T atomicMin(T* at, T value) {
  return mscclpp::native::atomic(at, [&](T before) { return value < before ? value : before; });
}
template <typename T>
static inline T atomicExch(T* at, T value) {
  return mscclpp::native::atomic(at, [&](T) { return value; });
}
template <typename T>
static inline T atomicCAS(T* at, T expected, T value) {
  return mscclpp::native::atomic(at, [&](T before) { return before == expected ? value : before; });
}
template <typename T>
static inline T atomicAnd(T* at, T value) {
  return mscclpp::native::atomic(at, [&](T before) { return before & value; });
}
template <typename T>
static inline T atomicOr(T* at, T value) {
  return mscclpp::native::atomic(at, [&](T before) { return before | value; });
}
template <typename T>
static inline T atomicXor(T* at, T value) {
  return mscclpp::native::atomic(at, [&](T before) { return before ^ value; });
}

// Loads and stores that differ in what caches keep.
#define MSCCLPP_LOAD(name)                \
  template <typename T>                   \
  static inline T name(const T* at) {     \
    return *at;                           \
  }
#define MSCCLPP_STORE(name)                  \
  template <typename T>                      \
  static inline void name(T* at, T value) {  \
    *at = value;                             \
  }
MSCCLPP_LOAD(__ldg)
MSCCLPP_LOAD(__ldcg)
MSCCLPP_LOAD(__ldca)
MSCCLPP_LOAD(__ldcs)
MSCCLPP_LOAD(__ldlu)
MSCCLPP_LOAD(__ldcv)
MSCCLPP_STORE(__stwb)
MSCCLPP_STORE(__stcg)
MSCCLPP_STORE(__stcs)
MSCCLPP_STORE(__stwt)
#undef MSCCLPP_LOAD
#undef MSCCLPP_STORE

// Bits of values.
#define MSCCLPP_CAST(name, From, To)    \
  static inline To name(From value) {   \
    To bits;                            \
    std::memcpy(&bits, &value, sizeof(To)); \
    return bits;                        \
  }
MSCCLPP_CAST(__float_as_int, float, int)
MSCCLPP_CAST(__float_as_uint, float, unsigned)
MSCCLPP_CAST(__int_as_float, int, float)
MSCCLPP_CAST(__uint_as_float, unsigned, float)
MSCCLPP_CAST(__double_as_longlong, double, long long)
MSCCLPP_CAST(__longlong_as_double, long long, double)
#undef MSCCLPP_CAST
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
static inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
static inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(bits)); }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }
static inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
template <typename T>
static inline T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
static inline T max(T a, T b) {
  return a < b ? b : a;
}
