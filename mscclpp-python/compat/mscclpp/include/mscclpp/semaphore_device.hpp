// Semaphores of a connection, as kernels use them.
#pragma once
#include "mscclpp/device.hpp"

namespace mscclpp {

#if defined(MSCCLPP_DEVICE_COMPILE)

namespace native {

/// Takes a signal of the peer, if there is one.
DEV bool poll(const ChannelCounter& counter) {
  if (load_acquire_sys(counter.inbound) <= load_relaxed_gpu(counter.waits)) return false;
  fetch_add_relaxed_gpu(counter.waits, 1);
  return true;
}

}  // namespace native

#endif

/// The counters of a connection with a peer whose kernel signals. Plain data, of the same layout for host and device.
struct MemoryDevice2DeviceSemaphoreDeviceHandle {
#if defined(MSCCLPP_DEVICE_COMPILE)
  KernelMemoryChannel channel_;

  DEV void signal() { channel_.signal(); }
  DEV void relaxedSignal() { channel_.relaxed_signal(); }
  DEV bool poll() { return native::poll(channel_.counter); }
  /// Waits for the next signal. The timeout of the communicator limits it, not the number of checks.
  DEV void wait(int64_t = -1) { native::check(channel_.wait()); }
  DEV void relaxedWait(int64_t = -1) { native::check(channel_.relaxed_wait()); }
#else
  std::uint64_t words_[9];
#endif
};

/// The counters of a connection with a peer whose proxy signals.
struct Host2DeviceSemaphoreDeviceHandle {
#if defined(MSCCLPP_DEVICE_COMPILE)
  KernelPortChannel channel_;

  DEV bool poll() { return native::poll(channel_.counter); }
  DEV void wait(int64_t = -1) { native::check(channel_.wait()); }
#else
  std::uint64_t words_[9];
#endif
};

}  // namespace mscclpp
