// Port channels: a thread of the host, the proxy, copies for kernels.
#pragma once
#include "mscclpp/core.hpp"
#include "mscclpp/port_channel_device.hpp"
#include "mscclpp/semaphore.hpp"

namespace mscclpp {

/// A port channel without memory: a semaphore.
struct BasePortChannel {
  using DeviceHandle = BasePortChannelDeviceHandle;

#if !defined(MSCCLPP_DEVICE_COMPILE)
  BasePortChannel() = default;
  explicit BasePortChannel(std::shared_ptr<Host2DeviceSemaphore> semaphore) : semaphore_(std::move(semaphore)) {}
  DeviceHandle deviceHandle() const { return {native::made(semaphore_, "port channel's semaphore").deviceHandle()}; }

 protected:
  std::shared_ptr<Host2DeviceSemaphore> semaphore_;
#endif
};

/// A port channel from `src`, of this rank, to `dst`, of the semaphore's rank. `ProxyService::portChannel` makes it.
struct PortChannel : BasePortChannel {
  using DeviceHandle = PortChannelDeviceHandle;

#if !defined(MSCCLPP_DEVICE_COMPILE)
  PortChannel() = default;
  PortChannel(std::shared_ptr<Host2DeviceSemaphore> semaphore, RegisteredMemory dst, RegisteredMemory src)
      : BasePortChannel(std::move(semaphore)), dst_(std::move(dst)), src_(std::move(src)) {}
  DeviceHandle deviceHandle() const {
    DeviceHandle handle;
    static_cast<BasePortChannelDeviceHandle&>(handle) = BasePortChannel::deviceHandle();
    std::uint64_t* words = handle.semaphore_.words_;
    words[0] = reinterpret_cast<std::uint64_t>(dst_.data());
    words[1] = reinterpret_cast<std::uint64_t>(src_.data());
    return handle;
  }

 private:
  RegisteredMemory dst_, src_;
#endif
};

}  // namespace mscclpp

#if !defined(MSCCLPP_DEVICE_COMPILE)

#include <mutex>

namespace mscclpp {

class BaseProxyService {
 public:
  virtual ~BaseProxyService() = default;
  virtual void startProxy(bool blocking = false) = 0;
  virtual void stopProxy() = 0;
};

/// The memory and the semaphores of port channels. The communicator has the proxy: it runs as soon as there is a port channel, and until the
/// communicator's channels are dropped, so that starting and stopping have no effect.
class ProxyService : public BaseProxyService {
 public:
  explicit ProxyService(int fifoSize = 512) { static_cast<void>(fifoSize); }

  SemaphoreId buildAndAddSemaphore(Communicator& communicator, const Connection& connection) {
    return addSemaphore(std::make_shared<Host2DeviceSemaphore>(communicator, connection));
  }
  SemaphoreId addSemaphore(const Semaphore& semaphore) { return addSemaphore(std::make_shared<Host2DeviceSemaphore>(semaphore)); }
  SemaphoreId addSemaphore(std::shared_ptr<Host2DeviceSemaphore> semaphore) {
    const std::lock_guard<std::mutex> lock(mutex_);
    semaphores_.push_back(std::move(semaphore));
    return static_cast<SemaphoreId>(semaphores_.size() - 1);
  }
  MemoryId addMemory(RegisteredMemory memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    memories_.push_back(std::move(memory));
    return static_cast<MemoryId>(memories_.size() - 1);
  }
  MemoryId nextMemoryId(std::uint32_t = 1) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<MemoryId>(memories_.size());
  }
  std::shared_ptr<Host2DeviceSemaphore> semaphore(SemaphoreId id) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return find(semaphores_, id, "semaphore");
  }
  BasePortChannel basePortChannel(SemaphoreId id) { return BasePortChannel(semaphore(id)); }
  PortChannel portChannel(SemaphoreId id, MemoryId dst, MemoryId src) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return PortChannel(find(semaphores_, id, "semaphore"), find(memories_, dst, "memory"), find(memories_, src, "memory"));
  }

  void startProxy(bool = false) override {}
  void stopProxy() override {}

 private:
  template <typename T>
  static const T& find(const std::vector<T>& in, std::uint32_t id, const char* name) {
    if (id >= in.size()) {
      throw Error(std::string("ProxyService: expected the number of one of ") + std::to_string(in.size()) + " of " + name + ", found " +
                      std::to_string(id),
                  ErrorCode::InvalidUsage);
    }
    return in[id];
  }
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Host2DeviceSemaphore>> semaphores_;
  std::vector<RegisteredMemory> memories_;
};

}  // namespace mscclpp

#endif
