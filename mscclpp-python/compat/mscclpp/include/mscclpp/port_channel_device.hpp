// Port channels, as kernels use them.
#pragma once
#include "mscclpp/semaphore_device.hpp"

namespace mscclpp {

using SemaphoreId = uint32_t;
using MemoryId = uint32_t;

/// A port channel without memory: its semaphore.
struct BasePortChannelDeviceHandle {
  Host2DeviceSemaphoreDeviceHandle semaphore_;

#if defined(MSCCLPP_DEVICE_COMPILE)
  /// Requests a signal, after the copies that were requested before.
  DEV void signal() { native::check(semaphore_.channel_.signal()); }
  /// Waits until the sources of all copies that were requested may be written again.
  DEV void flush(int64_t = -1) { native::check(semaphore_.channel_.flush()); }
  DEV bool poll() { return semaphore_.poll(); }
  DEV void wait(int64_t = -1) { semaphore_.wait(); }
#endif
};

/// A port channel: the proxy of this rank copies between its memory and the peer's.
struct PortChannelDeviceHandle : BasePortChannelDeviceHandle {
#if defined(MSCCLPP_DEVICE_COMPILE)
  DEV void put(uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    native::check(semaphore_.channel_.put(dstOffset, srcOffset, size));
  }
  DEV void put(uint64_t offset, uint64_t size) { put(offset, offset, size); }
  DEV void putWithSignal(uint64_t dstOffset, uint64_t srcOffset, uint64_t size) {
    native::check(semaphore_.channel_.put_with_signal(dstOffset, srcOffset, size));
  }
  DEV void putWithSignal(uint64_t offset, uint64_t size) { putWithSignal(offset, offset, size); }
  DEV void putWithSignalAndFlush(uint64_t dstOffset, uint64_t srcOffset, uint64_t size, int64_t = -1) {
    native::check(semaphore_.channel_.put_with_signal_and_flush(dstOffset, srcOffset, size));
  }
  DEV void putWithSignalAndFlush(uint64_t offset, uint64_t size) { putWithSignalAndFlush(offset, offset, size); }
#endif
};

}  // namespace mscclpp
