// Copies: plain to plain, plain to packets, packets to plain. Any length, any alignment.
// Every function: called by all threads of the block with the same arguments; does not sync.
//
// Invariant: byte `i` of a range of plain data belongs to thread `i / 16` modulo the block's threads, in every operation and
// at every alignment. For that reason the checks allow plans to omit a block sync between operations on
// the same range. Byte `i` of packets' payload belongs to thread `i / 8`.
#pragma once
#include "packet.h"
#include "wait.h"

namespace mscclpp {

/// Vectors that a thread has in flight.
constexpr uint32_t kUnroll = 4;

/// This thread's first vector of a run, where `before` vectors of the range precede the run.
DEV uint64_t first_vector(uint64_t before) {
  const uint32_t threads = dev_threads(), t = dev_thread();
  return before == 0 ? t : (t + threads - static_cast<uint32_t>(before % threads)) % threads;
}

/// `before`: bytes of the range that precede these. If that is not a multiple of 16, neither are the offsets of chunks, and no plan
/// relies on which thread moves which bytes.
DEV void copy_bytes(char* dst, const char* src, uint64_t len, uint64_t before) {
  const uint32_t threads = dev_threads();
  const uint64_t vectors = len / 16;
  uint64_t v = first_vector(before / 16);
  if (((reinterpret_cast<uint64_t>(dst) | reinterpret_cast<uint64_t>(src)) & 15) == 0) {
    DEV_NO_UNROLL
    for (; v + (kUnroll - 1) * threads < vectors; v += kUnroll * threads) {
      const char* from = src + 16 * v;
      char* to = dst + 16 * v;
      Vec16 data[kUnroll];
#pragma unroll
      for (uint32_t i = 0; i < kUnroll; ++i) data[i] = load16(from + i * 16 * threads);
#pragma unroll
      for (uint32_t i = 0; i < kUnroll; ++i) store16(to + i * 16 * threads, data[i]);
    }
    DEV_NO_UNROLL
    for (; v < vectors; v += threads) store16(dst + 16 * v, load16(src + 16 * v));
  } else {
    DEV_NO_UNROLL
    for (; v < vectors; v += threads) {
      store_any(dst + 16 * v, alignment_of(dst), load_any<Vec16>(src + 16 * v, alignment_of(src)));
    }
  }
  const uint32_t rest = len % 16;
  if (rest != 0 && v == vectors) store_part(dst + 16 * v, rest, load_part<Vec16>(src + 16 * v, rest));
}

/// Zeros `len` bytes; `before`: bytes of the range that precede them.
DEV_CALL void zero_bytes(char* at, uint64_t before, uint64_t len) {
  DEV_NO_UNROLL
  for (uint64_t i = 0; i < len; ++i) {
    if ((before + i) / 16 % dev_threads() == dev_thread()) store_plain<uint8_t>(at + i, uint8_t{0});
  }
}

/// Plain to plain: `len` bytes from byte `at` on, of each of `pairs` operands from `src` on, into the corresponding one from `dst`
/// on.
DEV void copy(const LaunchParams& launch, uint32_t src, uint32_t dst, uint32_t pairs, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (const uint32_t end = src + pairs; src != end; ++src, ++dst) {
    DEV_NO_UNROLL
    for (uint64_t done = 0; done < len;) {
      Span from = span_at(launch, src, at + done, len - done);
      Span to = span_at(launch, dst, at + done, from.run);
      uint64_t both = from.len < to.len ? from.len : to.len;
      // First the part that has more live values.
      if (both < to.len) zero_bytes(to.at + both, done + both, to.len - both);
      copy_bytes(to.at, from.at, both, done);
      done += to.run;
    }
  }
}

/// 8 bytes of which `room` exist; the others are zero.
DEV Vec8 load_payload(const char* at, uint64_t room) {
  return room >= 8 ? load_any<Vec8>(at, alignment_of(at)) : load_part<Vec8>(at, static_cast<uint32_t>(room));
}

/// Stores as many of 8 bytes as there is room for.
DEV void store_payload(char* at, uint64_t room, const Vec8& payload) {
  if (room >= 8) store_any(at, alignment_of(at), payload);
  else store_part(at, static_cast<uint32_t>(room), payload);
}

/// Waits for packet `number` of operand `source`. Returns: its payload; zeros if the wait aborted.
DEV_CALL Vec8 await_packet(const LaunchParams& launch, const char* at, uint32_t source, uint64_t number) {
  Vec8 payload;
  uint32_t seen;
  PollTimeout timeout;
  DEV_NO_UNROLL
  while (!load_packet(at, cache().flag, payload, seen)) {
    if (cache().failed) return Vec8{{0, 0}};
    if (timeout.is_expired(launch)) {
      abort_launch(launch, WaitInfo{WaitKind::kPacket, source, number, cache().flag, seen});
      return Vec8{{0, 0}};
    }
  }
  return payload;
}

DEV Vec8 take_packet(const LaunchParams& launch, const char* at, uint32_t source, uint64_t number) {
  Vec8 payload;
  uint32_t seen;
  return load_packet(at, cache().flag, payload, seen) ? payload : await_packet(launch, at, source, number);
}

/// Plain to packets.
DEV void pack(const LaunchParams& launch, uint32_t src, uint32_t dst, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (uint64_t done = 0; done < len;) {
    Span from = span_at(launch, src, at + done, len - done);
    Span to = span_at(launch, dst, at + done, from.run);
    DEV_NO_UNROLL
    for (uint64_t i = 8 * first_vector(done / 8); i < to.run; i += 8 * dev_threads()) {
      store_packet(to.at + 2 * i, load_payload(from.at + i, from.len > i ? from.len - i : 0), cache().flag);
    }
    done += to.run;
  }
}

/// Packets to plain.
DEV void unpack(const LaunchParams& launch, uint32_t src, uint32_t dst, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (uint64_t done = 0; done < len;) {
    Span from = span_at(launch, src, at + done, len - done);
    Span to = span_at(launch, dst, at + done, from.run);
    DEV_NO_UNROLL
    for (uint64_t i = 8 * first_vector(done / 8); i < to.run; i += 8 * dev_threads()) {
      Vec8 payload = take_packet(launch, from.at + 2 * i, src, (at + done + i) / 8);
      store_payload(to.at + i, to.len > i ? to.len - i : 0, payload);
    }
    done += to.run;
  }
}

/// The packets of `src` to each of the `dsts` operands from `dst` on.
DEV void forward(const LaunchParams& launch, uint32_t src, uint32_t dst, uint32_t dsts, uint64_t at,
                 uint64_t len) {
  const char* from = packets_of(launch, src);
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    Vec8 payload = take_packet(launch, from + 2 * i, src, i / 8);
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < dsts; ++d) store_packet(packets_of(launch, dst + d) + 2 * i, payload, cache().flag);
  }
}

/// Waits until all packets of an operand have arrived.
DEV void await_packets(const LaunchParams& launch, uint32_t src, uint64_t at, uint64_t len) {
  const char* from = packets_of(launch, src);
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    take_packet(launch, from + 2 * i, src, i / 8);
  }
}

}  // namespace mscclpp
