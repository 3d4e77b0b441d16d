// Packets: 4 bytes of data, then 4 of the launch's flag, twice. 8 bytes of payload are in one 16-byte vector, which is
// stored and loaded as a whole, so a packet is both data and signal and needs no fence. Packets of 4 bytes of payload have the same
// layout in memory; the interpreter always moves them in pairs, user-supplied kernels also one by one (`mscclpp_channels.h`).
#pragma once
#include "vector.h"

#ifndef DEV_SIM

DEV void store_packet(char* at, uint32_t payload, uint32_t flag) {
  asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(payload), "r"(flag) : "memory");
}

DEV bool load_packet(const char* at, uint32_t flag, uint32_t& payload, uint32_t& seen) {
  asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(payload), "=r"(seen) : "l"(at) : "memory");
  return seen == flag;
}

/// order: publishes its own payload; acquired by `load_packet` on any device.
DEV void store_packet(char* at, const Vec8& payload, uint32_t flag) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(payload.w[0]), "r"(flag), "r"(payload.w[1]),
               "r"(flag)
               : "memory");
}

/// Polls once. Returns: whether the packet of this launch has arrived; then `payload` is its payload.
DEV bool load_packet(const char* at, uint32_t flag, Vec8& payload, uint32_t& seen) {
  uint32_t first, second;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(payload.w[0]), "=r"(first), "=r"(payload.w[1]), "=r"(second)
               : "l"(at)
               : "memory");
  seen = first != flag ? first : second;
  return first == flag && second == flag;
}

#else

DEV void store_packet(char* at, uint32_t payload, uint32_t flag) { store_volatile<Vec8>(at, Vec8{{payload, flag}}); }

DEV bool load_packet(const char* at, uint32_t flag, uint32_t& payload, uint32_t& seen) {
  const Vec8 v = load_volatile<Vec8>(at);
  payload = v.w[0];
  seen = v.w[1];
  return seen == flag;
}

DEV void store_packet(char* at, const Vec8& payload, uint32_t flag) {
  store_volatile<Vec16>(at, Vec16{{payload.w[0], flag, payload.w[1], flag}});
}

DEV bool load_packet(const char* at, uint32_t flag, Vec8& payload, uint32_t& seen) {
  const Vec16 v = load_volatile<Vec16>(at);
  payload = Vec8{{v.w[0], v.w[2]}};
  seen = v.w[1] != flag ? v.w[1] : v.w[3];
  return v.w[1] == flag && v.w[3] == flag;
}

#endif
