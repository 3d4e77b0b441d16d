// Switch channels: one access reaches the memory of all ranks of a node, on devices with multicast objects.
#pragma once
#include "mscclpp/core.hpp"
#include "mscclpp/gpu_utils.hpp"
#include "mscclpp/semaphore.hpp"
#include "mscclpp/switch_channel_device.hpp"

namespace mscclpp {

/// Memory of this rank, and the multicast address of that of all.
struct SwitchChannel {
  using DeviceHandle = SwitchChannelDeviceHandle;

#if !defined(MSCCLPP_DEVICE_COMPILE)
  SwitchChannel(void* device, std::shared_ptr<void> multicast, std::size_t bytes)
      : device_(device), multicast_(std::move(multicast)), bytes_(bytes) {}
  DeviceHandle deviceHandle() const { return {device_, multicast_.get(), bytes_, peers_.get(), num_peers_}; }
  void* getDevicePtr() { return device_; }

 private:
  friend class NvlsConnection;

  void* device_;
  std::shared_ptr<void> multicast_;
  std::size_t bytes_;
  std::shared_ptr<MemoryDevice2DeviceSemaphoreDeviceHandle> peers_;
  std::size_t num_peers_ = 0;
#endif
};

#if !defined(MSCCLPP_DEVICE_COMPILE)

/// The ranks whose memory switch channels reach.
class NvlsConnection {
 public:
  explicit NvlsConnection(Communicator& communicator) : host_(communicator.host()) {
    const int rank = communicator.bootstrap()->getRank(), ranks = communicator.bootstrap()->getNranks();
    std::vector<std::shared_future<Connection>> connections;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != rank) connections.push_back(communicator.connect(Transport::CudaIpc, peer));
    }
    std::vector<std::shared_future<Semaphore>> futures;
    for (const auto& connection : connections) {
      futures.push_back(communicator.buildSemaphore(connection.get(), communicator.remoteRankOf(connection.get())));
    }
    std::vector<MemoryDevice2DeviceSemaphore> semaphores;
    std::vector<MemoryDevice2DeviceSemaphoreDeviceHandle> handles;
    for (const auto& future : futures) {
      semaphores.emplace_back(future.get());
      handles.push_back(semaphores.back().deviceHandle());
    }
    num_peers_ = handles.size();
    if (handles.empty()) return;
    auto memory = detail::gpuCallocShared<MemoryDevice2DeviceSemaphoreDeviceHandle>(handles.size());
    gpuMemcpy(memory.get(), handles.data(), handles.size(), cudaMemcpyHostToDevice);
    // The semaphores exist as long as a channel has the handles.
    peers_ = {memory.get(), [memory, semaphores = std::move(semaphores)](void*) {}};
  }

  /// Binds memory of a `GpuBuffer`. A call of all ranks, with as many bytes and in the same order.
  SwitchChannel bindAllocatedMemory(CUdeviceptr device, std::size_t size) {
    native::Lock lock;
    const native::Object bound = native::call(host_->object, "bind", "KK", device, static_cast<unsigned long long>(size));
    unsigned long long address = 0;
    PyObject* window = nullptr;
    if (!PyArg_ParseTuple(bound.get(), "KO", &address, &window)) throw native::PythonError::taken();
    // Bound as long as a channel has it.
    auto keep = [window = native::Object::borrowed(window)](void*) {};
    SwitchChannel made(reinterpret_cast<void*>(device), std::shared_ptr<void>(reinterpret_cast<void*>(address), std::move(keep)), size);
    made.peers_ = peers_;
    made.num_peers_ = num_peers_;
    return made;
  }

 private:
  native::HostPtr host_;
  std::shared_ptr<MemoryDevice2DeviceSemaphoreDeviceHandle> peers_;
  std::size_t num_peers_ = 0;
};

/// Connects ranks by a switch: all ranks of the communicator, each once.
inline std::shared_ptr<NvlsConnection> connectNvlsCollective(std::shared_ptr<Communicator> comm, std::vector<int> ranks, std::size_t) {
  std::sort(ranks.begin(), ranks.end());
  bool are_all = static_cast<int>(ranks.size()) == comm->bootstrap()->getNranks();
  for (std::size_t at = 0; are_all && at < ranks.size(); ++at) are_all = ranks[at] == static_cast<int>(at);
  if (!are_all) {
    throw Error("connectNvlsCollective: expected all " + std::to_string(comm->bootstrap()->getNranks()) + " ranks once, found " +
                    std::to_string(ranks.size()) + " ranks",
                ErrorCode::InvalidUsage);
  }
  return std::make_shared<NvlsConnection>(*comm);
}

#endif

}  // namespace mscclpp
