// Packets: data and a flag in one store, so that the flag announces the data.
#pragma once
#include "mscclpp/poll_device.hpp"

namespace mscclpp {

/// 8 bytes of data, with a flag after each 4.
union alignas(16) LL16Packet {
  using Payload = uint2;
  struct {
    uint32_t data1, flag1, data2, flag2;
  };
  ulonglong2 raw_;

#if defined(MSCCLPP_DEVICE_COMPILE)
  LL16Packet() = default;
  DEV LL16Packet(uint2 value, uint32_t flag) : data1(value.x), flag1(flag), data2(value.y), flag2(flag) {}

  DEV void write(uint32_t first, uint32_t second, uint32_t flag) {
    store_packet(reinterpret_cast<char*>(this), Vec8{{first, second}}, flag);
  }
  DEV void write(uint64_t value, uint32_t flag) { write(static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32), flag); }
  DEV void write(uint2 value, uint32_t flag) { write(value.x, value.y, flag); }

  /// Returns whether the packet of the flag has not arrived yet.
  DEV bool readOnce(uint32_t flag, uint2& data) const {
    Vec8 payload;
    uint32_t seen;
    const bool has_arrived = load_packet(reinterpret_cast<const char*>(this), flag, payload, seen);
    data = make_uint2(payload.w[0], payload.w[1]);
    return !has_arrived;
  }
  DEV uint2 read(uint32_t flag, int64_t = -1) const {
    uint2 data;
    POLL_MAYBE_JAILBREAK(readOnce(flag, data), 0);
    return data;
  }
  DEV void clear() { write(0u, 0u, 0u); }
#endif
};

/// 4 bytes of data and a flag.
union alignas(8) LL8Packet {
  using Payload = uint32_t;
  struct {
    uint32_t data, flag;
  };
  uint64_t raw_;

#if defined(MSCCLPP_DEVICE_COMPILE)
  LL8Packet() = default;
  DEV LL8Packet(uint32_t value, uint32_t flag) : data(value), flag(flag) {}

  DEV void write(uint32_t value, uint32_t flag) { store_packet(reinterpret_cast<char*>(this), value, flag); }
  /// Returns whether the packet of the flag has not arrived yet.
  DEV bool readOnce(uint32_t flag, uint32_t& data) const {
    uint32_t found;
    return !load_packet(reinterpret_cast<const char*>(this), flag, data, found);
  }
  DEV uint32_t read(uint32_t flag, int64_t = -1) const {
    uint32_t data;
    POLL_MAYBE_JAILBREAK(readOnce(flag, data), 0);
    return data;
  }
  DEV void clear() { write(0, 0); }
#endif
};

using LLPacket = LL16Packet;

template <class T>
using PacketPayload = typename T::Payload;

}  // namespace mscclpp
