// Memory channels, as kernels use them.
#pragma once
#include "mscclpp/copy_device.hpp"
#include "mscclpp/semaphore_device.hpp"

namespace mscclpp {

/// The semaphore of a memory channel, without memory.
struct BaseMemoryChannelDeviceHandle {
  MemoryDevice2DeviceSemaphoreDeviceHandle semaphore_;

#if defined(MSCCLPP_DEVICE_COMPILE)
  DEV void signal() { semaphore_.signal(); }
  DEV void relaxedSignal() { semaphore_.relaxedSignal(); }
  DEV bool poll() { return semaphore_.poll(); }
  DEV void wait(int64_t = -1) { semaphore_.wait(); }
  DEV void relaxedWait(int64_t = -1) { semaphore_.relaxedWait(); }
#endif
};

/// A memory channel: memory of the peer (`dst_`) and of this rank (`src_`), and packets that arrive.
struct MemoryChannelDeviceHandle : BaseMemoryChannelDeviceHandle {
  void* dst_;
  void* src_;
  void* packetBuffer_;

#if defined(MSCCLPP_DEVICE_COMPILE)
  template <typename T>
  DEV T read(uint64_t index) {
    return static_cast<T*>(dst_)[index];
  }
  template <typename T>
  DEV void write(uint64_t index, const T& value) {
    static_cast<T*>(dst_)[index] = value;
  }

  /// Copies from this rank's memory to the peer's.
  template <int Alignment = 16, bool CopyRemainder = true>
  DEV void put(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t thread, uint32_t threads) {
    copy<Alignment, CopyRemainder>(static_cast<char*>(dst_) + targetOffset, static_cast<const char*>(src_) + originOffset, bytes,
                                   thread, threads);
  }
  template <int Alignment = 16, bool CopyRemainder = true>
  DEV void put(uint64_t offset, uint64_t bytes, uint32_t thread, uint32_t threads) {
    put<Alignment, CopyRemainder>(offset, offset, bytes, thread, threads);
  }

  /// Copies from the peer's memory, at `originOffset`, to this rank's.
  template <int Alignment = 16, bool CopyRemainder = true>
  DEV void get(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t thread, uint32_t threads) {
    copy<Alignment, CopyRemainder>(static_cast<char*>(src_) + targetOffset, static_cast<const char*>(dst_) + originOffset, bytes,
                                   thread, threads);
  }
  template <int Alignment = 16, bool CopyRemainder = true>
  DEV void get(uint64_t offset, uint64_t bytes, uint32_t thread, uint32_t threads) {
    get<Alignment, CopyRemainder>(offset, offset, bytes, thread, threads);
  }

  template <typename PacketType = LL16Packet>
  DEV void putPackets(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t thread, uint32_t threads, uint32_t flag) {
    copyToPackets<PacketType>(static_cast<char*>(dst_) + targetOffset, static_cast<const char*>(src_) + originOffset, bytes, thread,
                              threads, flag);
  }
  template <typename PacketType = LL16Packet>
  DEV void putPackets(uint64_t offset, uint64_t bytes, uint32_t thread, uint32_t threads, uint32_t flag) {
    putPackets<PacketType>(offset, offset, bytes, thread, threads, flag);
  }

  template <typename PacketType = LL16Packet>
  DEV auto unpackPacket(uint64_t index, uint32_t flag, int64_t = -1) {
    return static_cast<PacketType*>(packetBuffer_)[index].read(flag);
  }
  template <typename PacketType = LL16Packet>
  DEV void unpackPackets(uint64_t targetOffset, uint64_t originOffset, uint64_t bytes, uint32_t thread, uint32_t threads, uint32_t flag,
                         int64_t = -1) {
    copyFromPackets<PacketType>(static_cast<char*>(src_) + originOffset, static_cast<const char*>(packetBuffer_) + targetOffset, bytes,
                                thread, threads, flag);
  }
  template <typename PacketType = LL16Packet>
  DEV void unpackPackets(uint64_t offset, uint64_t bytes, uint32_t thread, uint32_t threads, uint32_t flag, int64_t = -1) {
    unpackPackets<PacketType>(offset, offset, bytes, thread, threads, flag);
  }
#endif
};

}  // namespace mscclpp
