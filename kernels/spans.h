// Copies and reductions of any operands: parts with padding, offsets that wrap, buffers that end within a range, any alignment. The
// address of each byte is resolved, so these are slow; `copy.h` and `reduce.h` have the same operations for operands that are one run.
// Every function: called by all threads of the block with the same arguments; does not sync.
#pragma once
#include "reduce.h"

namespace mscclpp {

/// Zeros `len` bytes; `before`: bytes of the range that precede them.
DEV_CALL void zero_bytes(char* at, uint64_t before, uint64_t len) {
  DEV_NO_UNROLL
  for (uint64_t i = 0; i < len; ++i) {
    if ((before + i) / 16 % dev_threads() == dev_thread()) store_plain<uint8_t>(at + i, uint8_t{0});
  }
}

/// Plain to plain: `len` bytes from byte `at` on, of each of `pairs` operands from `src` on, into the corresponding one of those
/// after them.
DEV void copy_spans(const LaunchParams& launch, uint32_t src, uint32_t pairs, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (const uint32_t end = src + pairs; src != end; ++src) {
    const uint32_t dst = src + pairs;
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

/// Plain to packets: like `copy_spans`; a single source into all destinations.
DEV_CALL void pack_spans(const LaunchParams& launch, uint32_t src, uint32_t srcs, uint32_t dsts, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (uint32_t d = 0; d < dsts; ++d) {
    DEV_NO_UNROLL
    for (uint64_t done = 0; done < len;) {
      Span from = span_at(launch, src + (srcs == 1 ? 0 : d), at + done, len - done);
      Span to = span_at(launch, src + srcs + d, at + done, from.run);
      DEV_NO_UNROLL
      for (uint64_t i = 8 * first_vector(done / 8); i < to.run; i += 8 * dev_threads()) {
        store_packet(to.at + 2 * i, load_payload(from.at + i, from.len > i ? from.len - i : 0), cache().flag);
      }
      done += to.run;
    }
  }
}

/// Packets to plain: like `copy_spans`.
DEV_CALL void unpack_spans(const LaunchParams& launch, uint32_t src, uint32_t pairs, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (const uint32_t end = src + pairs; src != end; ++src) {
    DEV_NO_UNROLL
    for (uint64_t done = 0; done < len;) {
      Span from = span_at(launch, src, at + done, len - done);
      Span to = span_at(launch, src + pairs, at + done, from.run);
      DEV_NO_UNROLL
      for (uint64_t i = 8 * first_vector(done / 8); i < to.run; i += 8 * dev_threads()) {
        Vec8 payload = take_packet(launch, from.at + 2 * i, src, (at + done + i) / 8);
        store_payload(to.at + i, to.len > i ? to.len - i : 0, payload);
      }
      done += to.run;
    }
  }
}

/// An element as a vector of one.
template <typename T>
struct Single {
  T value;
};

/// Bytes from the element at byte `i` of a range to this thread's next one; a thread's vectors are 16 bytes long.
template <typename T>
DEV uint64_t next_element(uint64_t i) {
  return (i + sizeof(T)) % 16 != 0 ? sizeof(T) : sizeof(T) + 16 * (static_cast<uint64_t>(dev_threads()) - 1);
}

/// Plain sources into plain destinations if not every operand is one run: element by element, resolving the address of each.
template <typename Arith>
DEV_CALL void reduce_elements(const LaunchParams& launch, Runs runs, uint64_t at, uint64_t len) {
  using T = typename Arith::T;
  DEV_NO_UNROLL
  for (uint64_t i = at + 16 * dev_thread(); i < at + len; i += next_element<T>(i - at)) {
    auto load = [&](uint32_t number) {
      Span span = span_at(launch, runs.instr().operands + number, i, sizeof(T));
      return span.len < sizeof(T) ? Single<T>{} : Single<T>{load_plain<T>(span.at)};
    };
    Accumulator<Arith, Single<T>> acc;
    acc.start(load(0));
    DEV_NO_UNROLL
    for (uint32_t s = 1; s < runs.instr().srcs; ++s) acc.template add<false>(load(s), runs.instr().reduce);
    Single<T> result = acc.finish();
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < runs.instr().dsts; ++d) {
      Span span = span_at(launch, runs.instr().operands + runs.instr().srcs + d, i, sizeof(T));
      if (span.len >= sizeof(T)) store_plain<T>(span.at, result.value);
    }
  }
}

/// Combines the sources at byte `i`, packets or plain, from left to right.
template <typename Arith>
DEV Vec8 combine_packets(const LaunchParams& launch, Runs runs, uint64_t i) {
  Accumulator<Arith, Vec8> acc = {};
  Vec8 payload = {};
  const uint32_t first = runs.instr().operands, end = first + runs.instr().srcs;
  DEV_NO_UNROLL
  for (uint32_t s = first; s < end; ++s) {
    if (space_of(launch, s) == Space::kPackets) {
      payload = take_packet(launch, packets_of(launch, s) + 2 * i, s, i / 8);
    } else {
      Span span = span_at(launch, s, i, 8);
      payload = load_payload(span.at, span.len);
    }
    if (s == first) acc.start(payload);
    else acc.template add<false>(payload, runs.instr().reduce);
  }
  // A single source is not changed.
  return runs.instr().srcs == 1 ? payload : acc.finish();
}

/// Operands of which some are packets.
template <typename Arith>
DEV_CALL void reduce_packet_spans(const LaunchParams& launch, Runs runs, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    const Vec8 result = combine_packets<Arith>(launch, runs, i);
    DEV_NO_UNROLL
    for (uint32_t d = runs.instr().operands + runs.instr().srcs; d < runs.instr().operands + runs.instr().srcs + runs.instr().dsts; ++d) {
      if (space_of(launch, d) == Space::kPackets) {
        store_packet(packets_of(launch, d) + 2 * i, result, cache().flag);
      } else {
        Span span = span_at(launch, d, i, 8);
        store_payload(span.at, span.len, result);
      }
    }
  }
}

}  // namespace mscclpp
