// Another half of `dev.h`: every CUDA thread is a thread of the operating system, so that ThreadSanitizer sees which accesses
// nothing orders. Block syncs are barriers, accesses that order are atomics of the same order, everything else is plain.
// Addresses are not checked here and the order is the machine's: the simulator does the one and the other.
#pragma once
#include <sched.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

#define DEV inline
#define DEV_CALL inline __attribute__((noinline))
#define DEV_NO_UNROLL
#define KERNEL(threads) static void
#define KERNEL_PARAM const

extern "C" {
/// What a thread is.
struct SimThread {
  uint32_t thread, threads, block, blocks;
  struct ThreadBlock* its_block;
};
extern thread_local SimThread* sim_thread;

/// All threads of the block meet; returns in how many `predicate` holds.
uint32_t threads_meet(bool predicate);
/// A place in the block's shared memory for a variable, named by an address.
void* threads_shared(const void* name, size_t bytes);

/// A kernel by its name; as in `dev_sim.h`.
struct SimKernel {
  const char* name;
  size_t bytes;
  void (*run)(const void* argument);
  bool has_all_threads;
};
struct SimModule {
  const char* name;
  const SimKernel* kernels;
};
}

#define SHARED(type, name, count) \
  static const char name##_key = 0; \
  type* name = static_cast<type*>(threads_shared(&name##_key, sizeof(type) * (count)))

/// A word of shared memory that any thread of the block may look at and set.
struct SharedFlag {
  uint32_t word;
  operator uint32_t() const { return __atomic_load_n(&word, __ATOMIC_RELAXED); }
  void operator=(uint32_t value) { __atomic_store_n(&word, value, __ATOMIC_RELAXED); }
};
#define DEV_ASSERT(condition) \
  if (!(condition)) __builtin_trap()
#define SHARED_FLAG SharedFlag

DEV uint32_t dev_thread() { return sim_thread->thread; }
DEV uint32_t dev_threads() { return sim_thread->threads; }
DEV uint32_t dev_block() { return sim_thread->block; }
DEV uint32_t dev_blocks() { return sim_thread->blocks; }
DEV void dev_sync() { threads_meet(false); }
DEV uint32_t dev_sync_count(bool predicate) { return threads_meet(predicate); }
DEV void dev_relax() { sched_yield(); }
DEV float dev_divide(float dividend, float divisor) { return dividend / divisor; }
DEV float dev_sqrt(float value) { return __builtin_sqrtf(value); }
DEV uint64_t dev_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

#define THREADS_LOAD(name, type, order) \
  DEV type name(const type* at) { return __atomic_load_n(at, order); }
#define THREADS_STORE(name, type, order) \
  DEV void name(type* at, type value) { __atomic_store_n(at, value, order); }
#define THREADS_ADD(name, order) \
  DEV void name(uint64_t* at, uint64_t value) { __atomic_fetch_add(at, value, order); }
#define THREADS_SWAP(name, type, order)                                                \
  DEV type name(type* at, type expected, type value) {                                 \
    __atomic_compare_exchange_n(at, &expected, value, false, order, __ATOMIC_RELAXED); \
    return expected;                                                                   \
  }

THREADS_LOAD(load_acquire_gpu, uint64_t, __ATOMIC_ACQUIRE)
THREADS_LOAD(load_acquire_sys, uint64_t, __ATOMIC_ACQUIRE)
THREADS_LOAD(load_relaxed_sys, uint64_t, __ATOMIC_RELAXED)
THREADS_LOAD(load_relaxed_sys, uint32_t, __ATOMIC_RELAXED)
THREADS_LOAD(load_relaxed_gpu, uint64_t, __ATOMIC_RELAXED)
THREADS_STORE(store_relaxed_gpu, uint64_t, __ATOMIC_RELAXED)
THREADS_STORE(store_relaxed_sys, uint64_t, __ATOMIC_RELAXED)
THREADS_STORE(store_relaxed_sys, uint32_t, __ATOMIC_RELAXED)
THREADS_STORE(store_release_sys, uint64_t, __ATOMIC_RELEASE)
THREADS_ADD(add_release_gpu, __ATOMIC_RELEASE)
THREADS_ADD(add_release_sys, __ATOMIC_RELEASE)
THREADS_ADD(add_relaxed_gpu, __ATOMIC_RELAXED)
THREADS_ADD(add_relaxed_sys, __ATOMIC_RELAXED)
THREADS_SWAP(compare_swap_acquire_gpu, uint64_t, __ATOMIC_ACQUIRE)
THREADS_SWAP(compare_swap_relaxed_sys, uint64_t, __ATOMIC_RELAXED)
THREADS_SWAP(compare_swap_relaxed_sys, uint32_t, __ATOMIC_RELAXED)

DEV uint64_t fetch_add_acq_rel_gpu(uint64_t* at, uint64_t value) { return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL); }
DEV uint64_t fetch_add_relaxed_gpu(uint64_t* at, uint64_t value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }

template <typename T>
static inline T load_plain(const void* at) {
  return *static_cast<const T*>(at);
}
template <typename T>
using Loaded = T;
template <typename T>
static inline T load_table(const T* at) {
  return *at;
}
template <typename T>
static inline void store_plain(void* at, T value) {
  *static_cast<T*>(at) = value;
}

/// A packet is whole in 8 bytes: data and flag; of 16 bytes, twice. It orders more here than on a device: who has a packet may overwrite what
/// it was made of, since its value depends on that, which the sanitizer does not know. That plans take no more than this from
/// packets is for the simulator to see, where plain stores come late.
template <typename T>
static inline T load_volatile(const void* at) {
  constexpr int kWords = sizeof(T) / 8;
  union {
    uint64_t words[kWords];
    T value;
  } u;
  for (int i = 0; i < kWords; ++i) u.words[i] = __atomic_load_n(static_cast<const uint64_t*>(at) + i, __ATOMIC_ACQUIRE);
  return u.value;
}
template <typename T>
static inline void store_volatile(void* at, T value) {
  constexpr int kWords = sizeof(T) / 8;
  union {
    T value;
    uint64_t words[kWords];
  } u = {value};
  for (int i = 0; i < kWords; ++i) __atomic_store_n(static_cast<uint64_t*>(at) + i, u.words[i], __ATOMIC_RELEASE);
}

#include "sim/half.h"
