// Semaphores of connections.
#pragma once
#include "mscclpp/core.hpp"
#include "mscclpp/semaphore_device.hpp"

namespace mscclpp {

/// A semaphore that kernels of both ranks signal, through memory.
class MemoryDevice2DeviceSemaphore {
 public:
  using DeviceHandle = MemoryDevice2DeviceSemaphoreDeviceHandle;

#if !defined(MSCCLPP_DEVICE_COMPILE)
  explicit MemoryDevice2DeviceSemaphore(const Semaphore& semaphore) : semaphore_(semaphore) {}
  MemoryDevice2DeviceSemaphore(Communicator& communicator, const Connection& connection)
      : semaphore_(communicator.build(connection, communicator.remoteRankOf(connection), 0)) {}
  Connection& connection() { return semaphore_.connection(); }
  DeviceHandle deviceHandle() const {
    DeviceHandle handle;
    semaphore_.words("memory_channel", handle.words_, sizeof(handle.words_));
    return handle;
  }

 private:
  Semaphore semaphore_;
#endif
};

/// A semaphore that the proxies of both ranks signal.
class Host2DeviceSemaphore {
 public:
  using DeviceHandle = Host2DeviceSemaphoreDeviceHandle;

#if !defined(MSCCLPP_DEVICE_COMPILE)
  explicit Host2DeviceSemaphore(const Semaphore& semaphore) : semaphore_(semaphore) {}
  Host2DeviceSemaphore(Communicator& communicator, const Connection& connection)
      : semaphore_(communicator.build(connection, communicator.remoteRankOf(connection), 0)) {}
  Connection& connection() { return semaphore_.connection(); }
  DeviceHandle deviceHandle() const {
    DeviceHandle handle;
    semaphore_.words("port_channel", handle.words_, sizeof(handle.words_));
    return handle;
  }

 private:
  Semaphore semaphore_;
#endif
};

}  // namespace mscclpp
