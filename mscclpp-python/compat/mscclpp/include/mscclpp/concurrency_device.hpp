// Synchronization of the blocks of a kernel.
#pragma once
#include "mscclpp/atomic_device.hpp"
#include "mscclpp/poll_device.hpp"

namespace mscclpp {

/// A barrier of blocks that run at the same time. Zero at first, such as a `__device__` variable.
struct DeviceSyncer {
  unsigned arrivals_, rounds_;

#if defined(MSCCLPP_DEVICE_COMPILE)
  /// Called by: all threads of each of `blocks` blocks.
  DEV void sync(int blocks, int64_t = -1) {
    __syncthreads();
    if (dev_thread() == 0 && blocks > 1) {
      const unsigned round = atomicLoad<unsigned, scopeDevice>(&rounds_, memoryOrderRelaxed);
      const unsigned before = atomicFetchAdd<unsigned, scopeDevice>(&arrivals_, 1u, memoryOrderAcqRel);
      if (before + 1 == static_cast<unsigned>(blocks)) {
        // A launch may have another number of blocks than the one before.
        atomicStore<unsigned, scopeDevice>(&arrivals_, 0u, memoryOrderRelaxed);
        atomicFetchAdd<unsigned, scopeDevice>(&rounds_, 1u, memoryOrderAcqRel);
      } else {
        POLL_MAYBE_JAILBREAK((atomicLoad<unsigned, scopeDevice>(&rounds_, memoryOrderAcquire)) == round, 0);
      }
    }
    __syncthreads();
  }
#endif
};

/// A counter of units that blocks take and return.
struct DeviceSemaphore {
  int semaphore_;

#if defined(MSCCLPP_DEVICE_COMPILE)
  DEV void set(int value) { atomicStore<int, scopeDevice>(&semaphore_, value, memoryOrderRelease); }
  /// Waits for a unit and takes it.
  DEV void acquire(int = -1) {
    while (true) {
      POLL_MAYBE_JAILBREAK((atomicLoad<int, scopeDevice>(&semaphore_, memoryOrderRelaxed)) <= 0, 0);
      if (atomicFetchAdd<int, scopeDevice>(&semaphore_, -1, memoryOrderAcqRel) > 0) return;
      // Another block has taken it.
      release();
    }
  }
  DEV void release() { atomicFetchAdd<int, scopeDevice>(&semaphore_, 1, memoryOrderRelease); }
#endif
};

}  // namespace mscclpp
