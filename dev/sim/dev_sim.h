// The simulator's half of `dev.h`: what kernels take from their surroundings, on a CPU.
//
// Every CUDA thread is a coroutine; all of a launch run on one OS thread, in an order that a seed decides (src/launch).
// Plain stores are weak: they wait in a buffer of their thread and reach memory in any order (sim/memory.cc).
#pragma once
#include <cstddef>
#include <cstdint>

#define DEV inline
#define DEV_CALL inline __attribute__((noinline))
#define DEV_NO_UNROLL
#define KERNEL(threads) static void
#define KERNEL_PARAM const

/// Variables of a block's shared memory that are found at once.
constexpr uint32_t kSimShared = 4;

extern "C" {
/// The first variables of a block's shared memory, by the addresses that name them.
struct SimShared {
  const void* names[kSimShared];
  void* places[kSimShared];
};

/// What a coroutine is.
struct SimThread {
  uint32_t thread, threads, block, blocks;
  /// Of the block; see sim/memory.cc.
  void* stores;
  const SimShared* shared;
};

/// A kernel by its name. `argument`: as the driver gets it, `bytes` long. `has_all_threads`: its blocks have the threads of the launch, even
/// if these are more than the simulator otherwise runs.
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

/// The functions below, for kernels that were compiled by themselves and loaded (`SIM_PLUGIN`).
struct SimHost {
  SimThread** (*self)();
  void (*yield)(bool waiting);
  uint32_t (*meet)(bool predicate);
  uint64_t (*now)();
  void* (*shared)(const void* name, size_t bytes);
  void (*load)(const void* at, void* value, uint32_t bytes);
  void (*store)(void* at, const void* value, uint32_t bytes);
  uint64_t (*load_word)(const void* at, uint32_t bytes, bool acquire);
  void (*store_word)(void* at, uint64_t value, uint32_t bytes, bool release);
  uint64_t (*add)(void* at, uint64_t value, bool release);
  uint64_t (*compare_swap)(void* at, uint64_t expected, uint64_t value, uint32_t bytes);
  uint32_t (*multicast_load)(const void* at, void* values, uint32_t bytes, uint32_t most);
  void (*multicast_store)(void* at, const void* value, uint32_t bytes);
  void (*load_table)(const void* at, void* value, uint32_t bytes);
  void (*use)();
  void (*fail)(const char* condition);
};
}

#ifdef SIM_PLUGIN
static const SimHost* sim_host;
#define SIM_VISIBLE extern "C" __attribute__((visibility("default")))
SIM_VISIBLE void sim_attach(const SimHost* host) { sim_host = host; }

#define SIM_KERNEL(name, argument) SIM_KERNEL_WITH(name, argument, false)
#define SIM_KERNEL_WITH(name, argument, has_all_threads) \
  static void run_##name(const void* at) {               \
    name(*static_cast<const argument*>(at));             \
  }                                                      \
  SIM_VISIBLE const SimKernel sim_kernel_##name;         \
  const SimKernel sim_kernel_##name = {#name, sizeof(argument), run_##name, has_all_threads};

#define sim_thread (*sim_host->self())
#define sim_yield sim_host->yield
#define sim_meet sim_host->meet
#define sim_now sim_host->now
#define sim_shared sim_host->shared
#define sim_load sim_host->load
#define sim_store sim_host->store
#define sim_load_word sim_host->load_word
#define sim_store_word sim_host->store_word
#define sim_add sim_host->add
#define sim_compare_swap sim_host->compare_swap
#define sim_multicast_load sim_host->multicast_load
#define sim_multicast_store sim_host->multicast_store
#define sim_load_table sim_host->load_table
#define sim_use sim_host->use
#define sim_fail sim_host->fail
#else
#define SIM_KERNEL(name, argument)

extern "C" {
/// The coroutine that runs. Not `thread_local`, whose uses from other files call a function.
extern __thread SimThread* sim_thread;

/// Lets others run. `waiting`: this one cannot go on before another one has.
void sim_yield(bool waiting);
/// All threads of the block meet; returns in how many `predicate` holds.
uint32_t sim_meet(bool predicate);
/// Nanoseconds; far in the future once nobody can go on.
uint64_t sim_now();
/// A place in the block's shared memory for a variable, named by an address.
void* sim_shared(const void* name, size_t bytes);

/// Memory as this coroutine sees it.
void sim_load(const void* at, void* value, uint32_t bytes);
void sim_store(void* at, const void* value, uint32_t bytes);
uint64_t sim_load_word(const void* at, uint32_t bytes, bool acquire);
void sim_store_word(void* at, uint64_t value, uint32_t bytes, bool release);
uint64_t sim_add(void* at, uint64_t value, bool release);
uint64_t sim_compare_swap(void* at, uint64_t expected, uint64_t value, uint32_t bytes);
/// What the members behind a multicast address have, one after the other in any order; how many there are, `most` at most.
uint32_t sim_multicast_load(const void* at, void* values, uint32_t bytes, uint32_t most);
/// Stores at all members behind a multicast address: late and out of order, like any plain store.
void sim_multicast_store(void* at, const void* value, uint32_t bytes);

/// A load from a table, which no kernel stores to, and the first use of what one returned.
void sim_load_table(const void* at, void* value, uint32_t bytes);
void sim_use();

/// Lets the kernel fail once its threads have finished: a condition that its code asserts does not hold.
void sim_fail(const char* condition);
}
#endif

DEV void* sim_shared_at(const void* name, size_t bytes) {
  const SimShared* shared = sim_thread->shared;
  for (uint32_t i = 0; i < kSimShared; ++i) {
    if (shared->names[i] == name) return shared->places[i];
  }
  return sim_shared(name, bytes);
}

#define SHARED(type, name, count) \
  static const char name##_key = 0; \
  type* name = static_cast<type*>(sim_shared_at(&name##_key, sizeof(type) * (count)))

#define DEV_ASSERT(condition) \
  if (!(condition)) sim_fail(#condition)
#define SHARED_FLAG volatile uint32_t

DEV uint32_t dev_thread() { return sim_thread->thread; }
DEV uint32_t dev_threads() { return sim_thread->threads; }
DEV uint32_t dev_block() { return sim_thread->block; }
DEV uint32_t dev_blocks() { return sim_thread->blocks; }
DEV void dev_sync() { sim_meet(false); }
DEV uint32_t dev_sync_count(bool predicate) { return sim_meet(predicate); }
DEV uint64_t dev_now() { return sim_now(); }
DEV void dev_relax() { sim_yield(true); }
DEV float dev_divide(float dividend, float divisor) { return dividend / divisor; }
DEV float dev_sqrt(float value) { return __builtin_sqrtf(value); }

/// What a load from a table, or a relaxed one of a word, returned. Its conversion to the value is the use of it.
template <typename T>
class Loaded {
 public:
  operator T() const {
    if (!used_) sim_use();
    used_ = true;
    return value_;
  }
  T value_ = {};

 private:
  mutable bool used_ = false;
};

#define SIM_LOAD(name, type, acquire)                                          \
  DEV Loaded<type> name(const type* at) {                                      \
    Loaded<type> loaded;                                                       \
    loaded.value_ = static_cast<type>(sim_load_word(at, sizeof(type), acquire)); \
    return loaded;                                                             \
  }
#define SIM_STORE(name, type, release) \
  DEV void name(type* at, type value) { sim_store_word(at, value, sizeof(type), release); }
#define SIM_ADD(name, release) \
  DEV void name(uint64_t* at, uint64_t value) { sim_add(at, value, release); }

SIM_LOAD(load_acquire_gpu, uint64_t, true)
SIM_LOAD(load_acquire_sys, uint64_t, true)
SIM_LOAD(load_relaxed_sys, uint64_t, false)
SIM_LOAD(load_relaxed_sys, uint32_t, false)
SIM_LOAD(load_relaxed_gpu, uint64_t, false)
SIM_STORE(store_relaxed_gpu, uint64_t, false)
SIM_STORE(store_relaxed_sys, uint64_t, false)
SIM_STORE(store_relaxed_sys, uint32_t, false)
SIM_STORE(store_release_sys, uint64_t, true)
SIM_ADD(add_release_gpu, true)
SIM_ADD(add_release_sys, true)
SIM_ADD(add_relaxed_gpu, false)
SIM_ADD(add_relaxed_sys, false)

DEV uint64_t fetch_add_acq_rel_gpu(uint64_t* at, uint64_t value) { return sim_add(at, value, true); }
DEV uint64_t fetch_add_relaxed_gpu(uint64_t* at, uint64_t value) { return sim_add(at, value, false); }
DEV uint64_t compare_swap_acquire_gpu(uint64_t* at, uint64_t expected, uint64_t value) {
  return sim_compare_swap(at, expected, value, 8);
}
DEV uint64_t compare_swap_relaxed_sys(uint64_t* at, uint64_t expected, uint64_t value) {
  return sim_compare_swap(at, expected, value, 8);
}
DEV uint32_t compare_swap_relaxed_sys(uint32_t* at, uint32_t expected, uint32_t value) {
  return static_cast<uint32_t>(sim_compare_swap(at, expected, value, 4));
}

struct Vec16;
struct Vec8;
DEV Vec16 load16(const void* at);
DEV void store16(void* at, const Vec16& v);

template <typename T>
static inline T load_plain(const void* at) {
  T value;
  sim_load(at, &value, sizeof(T));
  return value;
}
template <typename T>
static inline void store_plain(void* at, T value) {
  sim_store(at, &value, sizeof(T));
}

template <typename T>
static inline Loaded<T> load_table(const T* at) {
  Loaded<T> loaded;
  sim_load_table(at, &loaded.value_, sizeof(T));
  return loaded;
}

/// Of packets, which are stored and loaded as a whole.
template <typename T>
static inline T load_volatile(const void* at) {
  return load_plain<T>(at);
}
template <typename T>
static inline void store_volatile(void* at, T value) {
  store_plain<T>(at, value);
}

#include "sim/half.h"
