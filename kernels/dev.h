// The device that the kernels are compiled for: CUDA; the simulator of dev/sim/ if DEV_SIM is defined; or threads of the CPU if
// DEV_THREADS is defined as well. The kernels use their environment through this header only, so that one source runs on all.
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
// A constant expression, which assertions need.
#define offsetof(type, member) __INTADDR__(&(((type*)0)->member))
#else
#include <cstddef>
#include <cstdint>
#endif

#define DEV __device__ __forceinline__
/// Before loops with large bodies, for which unrolling does not pay off.
#define DEV_NO_UNROLL _Pragma("unroll 1")
#define DEV_CALL __device__ __noinline__
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
#define KERNEL_PARAM const __grid_constant__
/// Announces a kernel and the type of its argument to the simulator.
#define SIM_KERNEL(name, argument)
#define SHARED(type, name, count) __shared__ type name[count]
/// A condition that the simulator checks.
#define DEV_ASSERT(condition)
/// Type of a word of shared memory that any thread of the block may read and set.
#define SHARED_FLAG volatile uint32_t

/// Called by: any thread. Returns: its number in the block, threads of the block, the block's number, blocks. The first is read
/// again in each call, because keeping it would cost a register everywhere.
DEV uint32_t dev_thread() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
DEV uint32_t dev_threads() {
  uint32_t threads;
  asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(threads));
  return threads;
}
DEV uint32_t dev_block() { return blockIdx.x; }
DEV uint32_t dev_blocks() { return gridDim.x; }

/// Called by: all threads of the block. Syncs: block.
DEV void dev_sync() { __syncthreads(); }
/// Called by: all threads of the block. Returns: the number of threads in which `predicate` holds. Syncs: block.
DEV uint32_t dev_sync_count(bool predicate) { return __syncthreads_count(predicate); }

/// Nanoseconds of a clock that all blocks share; coarse.
DEV uint64_t dev_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Runs once between two polls.
DEV void dev_relax() {}

/// Quotient and square root, rounded to nearest whatever the compiler's options.
DEV float dev_divide(float dividend, float divisor) { return __fdiv_rn(dividend, divisor); }
DEV float dev_sqrt(float value) { return __fsqrt_rn(value); }

#endif
