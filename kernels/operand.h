// Addresses of operands: the byte arithmetic of a launch, on 64 bits. The host's counterpart is mscclpp-exec/src/layout.rs.
//
// A launch runs as if the message were padded with zeros to whole strides. Reads past the end of a buffer (or of a rank's part of
// it) return zero, and writes past it are discarded.
#pragma once
#include "abi.h"

namespace mscclpp {

/// An operand, resolved as far as a message's size and the buffers allow. 32 bytes: many are in shared memory.
struct ResolvedOperand {
  /// The operand's first byte; the buffer's if the buffer has parts or offsets wrap.
  char* at;
  /// Padded bytes before the operand if the buffer has parts or offsets wrap.
  uint64_t first;
  /// Bytes (of payload) that exist from the operand's first one on; 0 with parts; the number of bytes after which offsets wrap.
  uint64_t limit;
  /// The number of a `Space`.
  uint8_t space_number;
  /// Whether the buffer consists of padded parts.
  uint8_t split;
  /// Whether offsets wrap.
  uint8_t wraps;
  uint8_t reserved[5];

  /// Bytes in memory for one of payload.
  DEV uint32_t scale() const { return space_number == static_cast<uint32_t>(Space::kPackets) ? 2 : 1; }
};
static_assert(sizeof(ResolvedOperand) == 32, "the size that shared memory is planned for");

/// A contiguous run of bytes.
struct Span {
  char* at;
  /// Bytes that exist; the rest of `run` is padding.
  uint64_t len;
  uint64_t run;
};

/// The beginning of an operand's buffer: in `LaunchParams`, or in the tables if there are more ranks.
DEV char* base_of(const LaunchParams& launch, const Operand& operand, uint64_t sequence) {
  const uint32_t space = static_cast<uint32_t>(operand.space);
  bool even = (sequence & 1) != 0;  // the flag is the sequence number + 1
  if (operand.space <= Space::kOutput) {
    uint32_t slot = 2 * operand.rank + space;
    uint64_t base = launch.table ? reinterpret_cast<const uint64_t*>(launch.table)[slot] : launch.bases[slot];
    return reinterpret_cast<char*>(base);
  }
  const uint32_t slot = 2 * operand.rank + (space - static_cast<uint32_t>(Space::kScratch));
  const bool is_inline = launch.num_ranks <= kInlineRanks;
  uint64_t base = is_inline ? launch.scratch_bases[slot] : reinterpret_cast<const uint64_t*>(launch.scratch)[slot];
  uint64_t half = operand.space == Space::kScratch ? launch.half_scratch : launch.half_packets;
  return reinterpret_cast<char*>(base + (even ? half : 0));
}

/// What of a `ResolvedOperand` does not depend on addresses.
struct Extent {
  uint64_t first, limit;
  bool split, wraps;
};

DEV Extent extent_of(const LaunchParams& launch, const Operand& operand) {
  Extent extent = {operand.index * launch.stride, 0, false, false};
  uint64_t len = launch.len_packets;
  if (operand.space <= Space::kOutput) {
    const View& view = operand.space == Space::kInput ? launch.input : launch.output;
    len = view.len;
    extent.split = view.part != view.padded;
  } else if (operand.space == Space::kScratch) {
    len = launch.len_scratch;
    extent.wraps = launch.wrap != 0;
  }
  if (extent.wraps) {
    extent.first = operand.index * launch.wrap;
    extent.limit = operand.size * launch.wrap;
  } else if (!extent.split) {
    extent.limit = len > extent.first ? len - extent.first : 0;
  }
  return extent;
}

/// Called by: any thread.
DEV ResolvedOperand resolve_operand(const LaunchParams& launch, const Operand& operand, uint64_t sequence) {
  const Extent extent = extent_of(launch, operand);
  ResolvedOperand resolved = {};
  resolved.first = extent.first;
  resolved.limit = extent.limit;
  resolved.space_number = static_cast<uint8_t>(operand.space);
  resolved.split = extent.split;
  resolved.wraps = extent.wraps;
  resolved.at = base_of(launch, operand, sequence);
  if (!(extent.split | extent.wraps)) resolved.at += resolved.scale() * extent.first;
  return resolved;
}

/// The run that begins at byte `at` of an operand and covers `1..=len` padded bytes (0 if `len` is 0).
DEV Span span_of(const LaunchParams& launch, const ResolvedOperand& operand, uint64_t at, uint64_t len) {
  if (operand.wraps) {
    at %= operand.limit;
    uint64_t run = operand.limit - at < len ? operand.limit - at : len;
    return Span{operand.at + operand.first + at, run, run};
  }
  if (!operand.split) {
    uint64_t room = operand.limit > at ? operand.limit - at : 0;
    return Span{operand.at + operand.scale() * at, len < room ? len : room, len};
  }
  const View& view = operand.space_number == static_cast<uint32_t>(Space::kInput) ? launch.input : launch.output;
  uint64_t first = operand.first + at, number = first / view.padded, inside = first % view.padded;
  uint64_t run = view.padded - inside < len ? view.padded - inside : len;
  uint64_t start = number * view.part + (inside < view.part ? inside : view.part);
  uint64_t end = view.part > inside ? view.part - inside : 0;
  uint64_t room = view.len > start ? view.len - start : 0;
  end = end < room ? end : room;
  return Span{operand.at + start, end < run ? end : run, run};
}

/// Slice `index` of `of` of `len` bytes: whole units; the first slices have one more if the units do not divide evenly.
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

/// The smallest multiple of `unit` that is at least `bytes`; all ones if that exceeds 64 bits.
DEV uint64_t round_up(uint64_t bytes, uint64_t unit) {
  uint64_t rest = bytes % unit;
  if (rest == 0) return bytes;
  uint64_t more = unit - rest;
  return bytes > ~0ull - more ? ~0ull : bytes + more;
}

}  // namespace mscclpp
