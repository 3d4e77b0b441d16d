// Moving bytes: plain to plain, plain to packets, packets to plain. Any length, any alignment.
// Every function: called by all threads of the block with the same arguments; syncs nothing.
#pragma once
#include "packet.h"
#include "wait.h"

namespace mscclpp {

/// Bytes before the first multiple of 16.
DEV uint64_t head_of(const char* at, uint64_t len) {
  uint64_t head = (16 - (reinterpret_cast<uint64_t>(at) & 15)) & 15;
  return head < len ? head : len;
}

/// Vectors that a thread has in flight.
constexpr uint32_t kUnroll = 4;

DEV void copy_bytes(char* dst, const char* src, uint64_t len) {
  const uint64_t t = dev_thread(), threads = dev_threads();
  const uint64_t head = head_of(dst, len), vectors = (len - head) / 16;
  DEV_NO_UNROLL
  for (uint64_t i = t; i < head; i += threads) store_plain<uint8_t>(dst + i, load_plain<uint8_t>(src + i));
  char* to = dst + head;
  const char* from = src + head;
  const uint32_t alignment = alignment_of(from);
  uint64_t v = t;
  if (alignment == 16) {
    DEV_NO_UNROLL
    for (; v + (kUnroll - 1) * threads < vectors; v += kUnroll * threads) {
      Vec16 data[kUnroll];
#pragma unroll
      for (uint32_t i = 0; i < kUnroll; ++i) data[i] = load16(from + 16 * (v + i * threads));
#pragma unroll
      for (uint32_t i = 0; i < kUnroll; ++i) store16(to + 16 * (v + i * threads), data[i]);
    }
    DEV_NO_UNROLL
    for (; v < vectors; v += threads) store16(to + 16 * v, load16(from + 16 * v));
  } else {
    DEV_NO_UNROLL
    for (; v < vectors; v += threads) store16(to + 16 * v, load_any<Vec16>(from + 16 * v, alignment));
  }
  DEV_NO_UNROLL
  for (uint64_t i = head + 16 * vectors + t; i < len; i += threads) {
    store_plain<uint8_t>(dst + i, load_plain<uint8_t>(src + i));
  }
}

DEV void zero_bytes(char* dst, uint64_t len) {
  DEV_NO_UNROLL
  for (uint64_t i = dev_thread(); i < len; i += dev_threads()) store_plain<uint8_t>(dst + i, uint8_t{0});
}

/// Plain to plain: `len` bytes from byte `at` of references `src` and `dst` on.
DEV_CALL void copy(const Launch& launch, uint32_t src, uint32_t dst, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  while (len > 0) {
    Span from = span_at(launch, place_at(launch, src), at, len), to = span_at(launch, place_at(launch, dst), at, from.run);
    uint64_t both = from.len < to.len ? from.len : to.len;
    copy_bytes(to.at, from.at, both);
    if (both < to.len) zero_bytes(to.at + both, to.len - both);
    at += to.run;
    len -= to.run;
  }
}

/// The first `room` of 8 bytes, fewer than all; the others are zero.
DEV_CALL Vec8 load_few(const char* at, uint64_t room) {
  Vec8 payload = {{0, 0}};
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < room; ++i) payload.w[i / 4] |= static_cast<uint32_t>(load_plain<uint8_t>(at + i)) << 8 * (i % 4);
  return payload;
}

DEV_CALL void store_few(char* at, uint64_t room, Vec8 payload) {
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < room; ++i) store_plain<uint8_t>(at + i, static_cast<uint8_t>(payload.w[i / 4] >> 8 * (i % 4)));
}

/// 8 bytes of which `room` are there; the others are zero.
DEV Vec8 load_payload(const char* at, uint64_t room) {
  return room >= 8 ? load_any<Vec8>(at, alignment_of(at)) : load_few(at, room);
}

/// As many of 8 bytes as there is room for.
DEV void store_payload(char* at, uint64_t room, const Vec8& payload) {
  if (room >= 8) store_any(at, alignment_of(at), payload);
  else store_few(at, room, payload);
}

/// The payload of packet `number` of reference `source`, waited for. Zeros if the wait gave up.
DEV_CALL Vec8 await_packet(const Launch& launch, Position position, const char* at, uint32_t source, uint64_t number) {
  Vec8 payload;
  uint32_t seen;
  Patience patience;
  DEV_NO_UNROLL
  while (!load_packet(at, window().flag, payload, seen)) {
    if (window().failed) return Vec8{{0, 0}};
    if (patience.is_over(launch)) {
      give_up(launch, position, Awaiting{kPacket, source, number, window().flag, seen});
      return Vec8{{0, 0}};
    }
  }
  return payload;
}

DEV Vec8 take_packet(const Launch& launch, Position position, const char* at, uint32_t source, uint64_t number) {
  Vec8 payload;
  uint32_t seen;
  return load_packet(at, window().flag, payload, seen) ? payload : await_packet(launch, position, at, source, number);
}

/// Plain to packets.
DEV_CALL void pack(const Launch& launch, uint32_t src, uint32_t dst, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  while (len > 0) {
    Span from = span_at(launch, place_at(launch, src), at, len), to = span_at(launch, place_at(launch, dst), at, from.run);
    DEV_NO_UNROLL
    for (uint64_t i = 8 * dev_thread(); i < to.run; i += 8 * dev_threads()) {
      store_packet(to.at + 2 * i, load_payload(from.at + i, from.len > i ? from.len - i : 0), window().flag);
    }
    at += to.run;
    len -= to.run;
  }
}

/// Packets to plain.
DEV_CALL void unpack(const Launch& launch, Position position, uint32_t src, uint32_t dst, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  while (len > 0) {
    Span from = span_at(launch, place_at(launch, src), at, len), to = span_at(launch, place_at(launch, dst), at, from.run);
    DEV_NO_UNROLL
    for (uint64_t i = 8 * dev_thread(); i < to.run; i += 8 * dev_threads()) {
      Vec8 payload = take_packet(launch, position, from.at + 2 * i, src, (at + i) / 8);
      store_payload(to.at + i, to.len > i ? to.len - i : 0, payload);
    }
    at += to.run;
    len -= to.run;
  }
}

/// The packets of `src` to every one of the `dsts` references from `dst` on.
DEV_CALL void forward(const Launch& launch, Position position, uint32_t src, uint32_t dst, uint32_t dsts, uint64_t at,
                      uint64_t len) {
  const char* from = place_at(launch, src).at;
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    Vec8 payload = take_packet(launch, position, from + 2 * i, src, i / 8);
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < dsts; ++d) store_packet(place_at(launch, dst + d).at + 2 * i, payload, window().flag);
  }
}

/// Waits until all packets of a reference are there.
DEV_CALL void await_packets(const Launch& launch, Position position, uint32_t src, uint64_t at, uint64_t len) {
  const char* from = place_at(launch, src).at;
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    take_packet(launch, position, from + 2 * i, src, i / 8);
  }
}

}  // namespace mscclpp
