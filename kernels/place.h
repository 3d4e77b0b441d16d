// Where chunks lie: the byte arithmetic of a launch, on 64 bits. The host's half is `layout.rs`.
//
// A launch runs as if the message were padded with zeros to whole strides. What an operation reads behind the end of a
// buffer (or of a rank's part in it) is zero, and what it writes there is dropped.
#pragma once
#include "abi.h"

namespace mscclpp {

enum Space : uint32_t { kInput = 0, kOutput = 1, kScratch = 2, kPackets = 3 };

/// A reference, resolved as far as a message's size and the buffers allow. 32 bytes: many lie in shared memory.
struct Place {
  /// The reference's first byte; of places with parts or that wrap, the buffer's.
  char* at;
  /// Of places with parts or that wrap: padded bytes before the reference.
  uint64_t first;
  /// Bytes (of payload) that are there from the reference's first on; with parts 0, if offsets wrap those after which they do.
  uint64_t limit;
  uint8_t space;
  /// Whether the buffer is made of padded parts.
  uint8_t split;
  /// Whether offsets wrap.
  uint8_t wraps;
  uint8_t reserved[5];

  /// Bytes in memory for one of payload.
  DEV uint32_t scale() const { return space == kPackets ? 2 : 1; }
};
static_assert(sizeof(Place) == 32, "places lie in shared memory");

/// Bytes in one run.
struct Span {
  char* at;
  /// Bytes that are there; the rest of `run` is padding.
  uint64_t len;
  uint64_t run;
};

/// `Launch.bases`, or the table where there are more ranks.
DEV char* base_of(const Launch& launch, const Operand& operand, uint64_t sequence) {
  bool even = (sequence & 1) != 0;  // the flag is the sequence number + 1
  if (operand.space <= kOutput) {
    uint32_t slot = 2 * operand.rank + operand.space;
    uint64_t base = launch.table ? reinterpret_cast<const uint64_t*>(launch.table)[slot] : launch.bases[slot];
    return reinterpret_cast<char*>(base);
  }
  uint64_t base = reinterpret_cast<const uint64_t*>(launch.scratch)[2 * operand.rank + (operand.space - kScratch)];
  uint64_t half = operand.space == kScratch ? launch.half_scratch : launch.half_packets;
  return reinterpret_cast<char*>(base + (even ? half : 0));
}

/// Called by: any thread.
DEV Place place_of(const Launch& launch, const Operand& operand, uint64_t sequence) {
  Place place;
  char* area = base_of(launch, operand, sequence);
  place.space = static_cast<uint8_t>(operand.space);
  place.split = 0;
  place.wraps = 0;
  place.first = operand.index * launch.stride;
  uint64_t len = launch.len_packets;
  if (operand.space <= kOutput) {
    const View& view = operand.space == kInput ? launch.input : launch.output;
    len = view.len;
    place.split = view.part != view.padded;
  } else if (operand.space == kScratch) {
    len = launch.len_scratch;
    place.wraps = launch.wrap != 0;
  }
  if (place.split) {
    place.at = area;
    place.limit = 0;
  } else if (place.wraps) {
    place.at = area;
    place.first = operand.index * launch.wrap;
    place.limit = operand.size * launch.wrap;
  } else {
    place.at = area + place.scale() * place.first;
    place.limit = len > place.first ? len - place.first : 0;
  }
  return place;
}

/// The run that begins at byte `at` of a reference and stands for `1..=len` padded bytes (0 if `len` is 0).
DEV Span span_of(const Launch& launch, const Place& place, uint64_t at, uint64_t len) {
  if (place.wraps) {
    at %= place.limit;
    uint64_t run = place.limit - at < len ? place.limit - at : len;
    return Span{place.at + place.first + at, run, run};
  }
  if (!place.split) {
    uint64_t room = place.limit > at ? place.limit - at : 0;
    return Span{place.at + place.scale() * at, len < room ? len : room, len};
  }
  const View& view = place.space == kInput ? launch.input : launch.output;
  uint64_t first = place.first + at, number = first / view.padded, inside = first % view.padded;
  uint64_t run = view.padded - inside < len ? view.padded - inside : len;
  uint64_t start = number * view.part + (inside < view.part ? inside : view.part);
  uint64_t end = view.part > inside ? view.part - inside : 0;
  uint64_t room = view.len > start ? view.len - start : 0;
  end = end < room ? end : room;
  return Span{place.at + start, end < run ? end : run, run};
}

/// The part `index` of `of` of `len` bytes: whole units, the first parts one longer where they do not divide.
DEV void slice_of(uint64_t unit, uint64_t len, uint32_t index, uint32_t of, uint64_t& start, uint64_t& slice) {
  if (of <= 1) {
    start = 0;
    slice = len;
    return;
  }
  uint64_t units = len / unit, each = units / of, more = units % of;
  uint64_t begin = index * each + (index < more ? index : more);
  uint64_t end = begin + each + (index < more ? 1 : 0);
  start = begin * unit;
  slice = (end - begin) * unit;
}

/// The smallest multiple of `unit` that is at least `bytes`, or all ones.
DEV uint64_t round_up(uint64_t bytes, uint64_t unit) {
  uint64_t rest = bytes % unit;
  if (rest == 0) return bytes;
  uint64_t more = unit - rest;
  return bytes > ~0ull - more ? ~0ull : bytes + more;
}

}  // namespace mscclpp
