// What a device is: CUDA, or a CPU when DEV_SIM is defined, by the simulator of `sim/`, or by threads if DEV_THREADS is
// defined as well. Everything that the kernels take from their surroundings goes through here, so that one source runs on all.
#pragma once

#ifdef DEV_THREADS
#include "sim/dev_threads.h"
#elif defined(DEV_SIM)
#include "sim/dev_sim.h"
#else

#if defined(__CUDACC_RTC__)
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
// How the front end itself writes it: constant, as assertions need it.
#define offsetof(type, member) __INTADDR__(&(((type*)0)->member))
#else
#include <cstddef>
#include <cstdint>
#endif

#define DEV __device__ __forceinline__
/// Before loops whose bodies are large: to unroll them costs more than it gains.
#define DEV_NO_UNROLL _Pragma("unroll 1")
#define DEV_CALL __device__ __noinline__
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
#define KERNEL_PARAM const __grid_constant__
/// A table of constants: few enough for the device's constant memory, 64 KiB of all of a module.
#define DEV_TABLE __constant__ const
/// Names a kernel, and the type of its argument, to the simulator.
#define SIM_KERNEL(name, argument)
#define SHARED(type, name, count) __shared__ type name[count]
/// Type of a word of shared memory that any thread of the block may look at and set.
#define SHARED_FLAG volatile uint32_t

/// Called by: any thread. Returns: its number in the block, threads of the block, the block's number. The first is read anew each
/// time: to keep it would cost a register everywhere.
DEV uint32_t dev_thread() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
DEV uint32_t dev_threads() { return blockDim.x; }
DEV uint32_t dev_block() { return blockIdx.x; }
DEV uint32_t dev_blocks() { return gridDim.x; }

/// Called by: all threads of the block. Syncs: block.
DEV void dev_sync() { __syncthreads(); }
/// Called by: all threads of the block. Returns: in how many `predicate` holds, the same in all. Syncs: block.
DEV uint32_t dev_sync_count(bool predicate) { return __syncthreads_count(predicate); }

/// Nanoseconds of a clock that all blocks share; coarse.
DEV uint64_t dev_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Runs once between two polls.
DEV void dev_relax() {}

#endif
