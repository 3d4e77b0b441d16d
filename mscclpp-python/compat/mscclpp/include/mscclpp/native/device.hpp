// Device code's half of the interface: what a source takes from CUDA where a simulated device runs it, the channels of kernels, and what
// kernels do when a wait has failed.
#pragma once

// The names of channels are those of the host's classes here.
#define MemoryChannel KernelMemoryChannel
#define PortChannel KernelPortChannel
#define SwitchChannel KernelSwitchChannel
#include "mscclpp_channels.h"
#undef MemoryChannel
#undef PortChannel
#undef SwitchChannel

#if defined(DEV_SIM)
#include "mscclpp/native/simulated.hpp"
#else
typedef unsigned long long uintptr_t;
/// Declares a variable of the block's shared memory.
#define MSCCLPP_SHARED(name, ...) __shared__ __VA_ARGS__
/// Declares the array of the block's shared memory that has as many bytes as the launch states.
#define MSCCLPP_SHARED_OF_LAUNCH(name, ...) extern __shared__ __VA_ARGS__[]
#endif

namespace mscclpp {
namespace native {

/// Ends the kernel after a wait that returned false. Its results are not valid; the host reports what it waited for.
DEV void end_after_failed_wait() {
#if defined(DEV_SIM)
  // There is no memory at this address, so that the launch fails.
  store_plain<uint32_t>(reinterpret_cast<void*>(uint64_t{8}), 0);
#else
  asm volatile("trap;");
#endif
}

DEV void check(bool is_done) {
  if (!is_done) end_after_failed_wait();
}

}  // namespace native
}  // namespace mscclpp

#if defined(DEV_SIM)
static inline void __trap() { mscclpp::native::end_after_failed_wait(); }
// Ends the launch, not the process.
#undef assert
#define assert(...) ((__VA_ARGS__) ? static_cast<void>(0) : __trap())
#endif
