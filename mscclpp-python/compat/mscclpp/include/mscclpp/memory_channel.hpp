// Memory channels: kernels access the memory of a rank of the same node.
#pragma once
#include "mscclpp/core.hpp"
#include "mscclpp/memory_channel_device.hpp"
#include "mscclpp/semaphore.hpp"

namespace mscclpp {

/// A memory channel without memory: a semaphore.
struct BaseMemoryChannel {
  using DeviceHandle = BaseMemoryChannelDeviceHandle;

#if !defined(MSCCLPP_DEVICE_COMPILE)
  BaseMemoryChannel() = default;
  BaseMemoryChannel(std::shared_ptr<MemoryDevice2DeviceSemaphore> semaphore) : semaphore_(std::move(semaphore)) {}
  BaseMemoryChannel(const Semaphore& semaphore) : semaphore_(std::make_shared<MemoryDevice2DeviceSemaphore>(semaphore)) {}
  DeviceHandle deviceHandle() const { return {native::made(semaphore_, "memory channel's semaphore").deviceHandle()}; }

 protected:
  std::shared_ptr<MemoryDevice2DeviceSemaphore> semaphore_;
#endif
};

/// A memory channel from `src`, of this rank, to `dst`, of the semaphore's rank. Packets arrive in `packetBuffer`.
struct MemoryChannel : BaseMemoryChannel {
  using DeviceHandle = MemoryChannelDeviceHandle;

#if !defined(MSCCLPP_DEVICE_COMPILE)
  MemoryChannel() = default;
  MemoryChannel(std::shared_ptr<MemoryDevice2DeviceSemaphore> semaphore, RegisteredMemory dst, RegisteredMemory src,
                void* packetBuffer = nullptr)
      : BaseMemoryChannel(std::move(semaphore)), dst_(std::move(dst)), src_(std::move(src)), packetBuffer_(packetBuffer) {}
  MemoryChannel(const Semaphore& semaphore, RegisteredMemory dst, RegisteredMemory src, void* packetBuffer = nullptr)
      : BaseMemoryChannel(semaphore), dst_(std::move(dst)), src_(std::move(src)), packetBuffer_(packetBuffer) {}
  DeviceHandle deviceHandle() const {
    DeviceHandle handle;
    static_cast<BaseMemoryChannelDeviceHandle&>(handle) = BaseMemoryChannel::deviceHandle();
    handle.dst_ = dst_.data();
    handle.src_ = src_.data();
    handle.packetBuffer_ = packetBuffer_;
    return handle;
  }

 private:
  RegisteredMemory dst_, src_;
  void* packetBuffer_ = nullptr;
#endif
};

}  // namespace mscclpp
