// Copies by several threads, each with its number among them.
#pragma once
#include "mscclpp/packet_device.hpp"

#if defined(MSCCLPP_DEVICE_COMPILE)

namespace mscclpp {

template <typename T>
DEV void copy(T* to, const T* from, uint64_t count, uint32_t thread, uint32_t threads) {
  DEV_NO_UNROLL
  for (uint64_t at = thread; at < count; at += threads) to[at] = from[at];
}

namespace native {

template <typename T>
DEV void copy_as(void* to, const void* from, uint64_t bytes, uint32_t thread, uint32_t threads) {
  ::mscclpp::copy(static_cast<T*>(to), static_cast<const T*>(from), bytes / sizeof(T), thread, threads);
}

}  // namespace native

/// Copies bytes, in the widest words of at most `Alignment` bytes that both addresses and the size allow.
template <int Alignment = 16, bool CopyRemainder = true>
DEV void copy(void* to, const void* from, uint64_t bytes, uint32_t thread, uint32_t threads) {
  static_assert(Alignment == 4 || Alignment == 8 || Alignment == 16, "expected an alignment of 4, 8 or 16 bytes");
  const uint64_t bits = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes;
  if (Alignment == 16 && bits % 16 == 0) {
    native::copy_as<uint4>(to, from, bytes, thread, threads);
  } else if (Alignment >= 8 && bits % 8 == 0) {
    native::copy_as<uint2>(to, from, bytes, thread, threads);
  } else if (bits % 4 == 0) {
    native::copy_as<uint32_t>(to, from, bytes, thread, threads);
  } else {
    native::copy_as<uint8_t>(to, from, bytes, thread, threads);
  }
}

template <typename T>
DEV T read(const void* from, uint64_t index) {
  return static_cast<const T*>(from)[index];
}
template <typename T>
DEV void write(void* to, uint64_t index, const T& value) {
  static_cast<T*>(to)[index] = value;
}

/// Writes packets: addresses and bytes are multiples of the data of one.
template <typename PacketType = LL16Packet>
DEV void copyToPackets(void* to, const void* from, uint64_t bytes, uint32_t thread, uint32_t threads, uint32_t flag) {
  using Payload = typename PacketType::Payload;
  DEV_NO_UNROLL
  for (uint64_t at = thread; at < bytes / sizeof(Payload); at += threads) {
    static_cast<PacketType*>(to)[at].write(static_cast<const Payload*>(from)[at], flag);
  }
}

/// Waits for packets and stores their data.
template <typename PacketType = LL16Packet>
DEV void copyFromPackets(void* to, const void* from, uint64_t bytes, uint32_t thread, uint32_t threads, uint32_t flag, int64_t = -1) {
  using Payload = typename PacketType::Payload;
  DEV_NO_UNROLL
  for (uint64_t at = thread; at < bytes / sizeof(Payload); at += threads) {
    static_cast<Payload*>(to)[at] = static_cast<const PacketType*>(from)[at].read(flag);
  }
}

}  // namespace mscclpp

#endif
