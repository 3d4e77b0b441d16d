// Per-block state in shared memory: launch parameters and a cache of instructions with their operands and ids.
#pragma once
#include "operand.h"

namespace mscclpp {

/// An instruction's range of bytes, before an iteration of a loop clips it.
struct Range {
  uint64_t start;
  uint64_t len;
  /// If each operand is one run: the end of the range within all operands. Nothing is to be done after it.
  uint64_t end;
  uint32_t whole;
  /// If so, the lowest 4 bits that are set in the address of any operand.
  uint32_t low_bits;
};

/// Loading it changes it between two block syncs; any thread may set `failed`.
struct InstrCache {
  /// Number of launches before this one.
  uint64_t sequence;
  /// Flag of this launch's packets; never 0.
  uint32_t flag;
  /// The block's number among those of all devices of the launch.
  uint32_t block;
  /// Whether a wait of the block has aborted.
  SHARED_FLAG failed;
  /// The cache holds `count` instructions from `first` on, and operands and ids from these numbers on.
  uint32_t first, count, first_operand, first_id;
  // These are in the order of a record.
  alignas(16) Block own;
  Instr instrs[kCachedInstrs];
  Operand table_operands[kCachedOperands];
  Id ids[kCachedIds];
  Range ranges[kCachedInstrs];
  ResolvedOperand operands[kCachedOperands];
  /// First bytes of operands that are one run.
  char* heads[kCachedOperands];
};

DEV InstrCache& cache() {
  SHARED(InstrCache, the_cache, 1);
  return the_cache[0];
}

/// The thread's current instruction, and its iteration of the current loop (0 outside of loops). In shared memory: few operations
/// need them, and registers are needed for data in flight.
DEV uint32_t& pc() {
  SHARED(uint32_t, pcs, kMaxThreads);
  return pcs[dev_thread()];
}
DEV uint32_t& iteration() {
  SHARED(uint32_t, iterations, kMaxThreads);
  return iterations[dev_thread()];
}

/// First byte of the operand at index `slot` of the cache, which is one run. Read again each time: addresses that a loop keeps would
/// take the registers of data in flight.
DEV char* head_at(uint32_t slot) { return *const_cast<char* volatile*>(&cache().heads[slot]); }

/// Whether the addresses at byte `at` of all operands, which are one run each, are multiples of `bytes`, a power of two up to 16.
DEV bool are_aligned(const Range& range, uint64_t at, uint32_t bytes) {
  return ((range.low_bits | static_cast<uint32_t>(at)) & (bytes - 1)) == 0;
}

/// Of `len` bytes from byte `at` of operands that are one run each: the number within the range.
DEV uint64_t len_in(const Range& range, uint64_t at, uint64_t len) {
  const uint64_t room = at < range.end ? range.end - at : 0;
  return len < room ? len : room;
}

/// Operand `number`, of an instruction with more operands than the cache holds.
DEV ResolvedOperand resolve_uncached(const LaunchParams& launch, uint32_t number) {
  return resolve_operand(launch, reinterpret_cast<const Operand*>(launch.operands)[number], cache().sequence);
}

/// `span_at` for an operand that is not one run, or not in the cache.
DEV_CALL Span span_uncached(const LaunchParams& launch, uint32_t number, uint64_t at, uint64_t len) {
  const uint32_t slot = number - cache().first_operand;
  if (slot < kCachedOperands) return span_of(launch, cache().operands[slot], at, len);
  return span_of(launch, resolve_uncached(launch, number), at, len);
}

/// The run that begins at byte `at` of operand `number` and covers `1..=len` padded bytes (0 if `len` is 0).
DEV Span span_at(const LaunchParams& launch, uint32_t number, uint64_t at, uint64_t len) {
  const uint32_t slot = number - cache().first_operand;
  if (slot >= kCachedOperands) return span_uncached(launch, number, at, len);
  const ResolvedOperand& operand = cache().operands[slot];
  if (operand.split | operand.wraps) return span_uncached(launch, number, at, len);
  const uint64_t room = operand.limit > at ? operand.limit - at : 0;
  return Span{operand.at + operand.scale() * at, len < room ? len : room, len};
}

/// The kind of memory of operand `number`.
DEV Space space_of(const LaunchParams& launch, uint32_t number) {
  const uint32_t slot = number - cache().first_operand;
  return slot < kCachedOperands ? static_cast<Space>(cache().operands[slot].space_number)
                                : reinterpret_cast<const Operand*>(launch.operands)[number].space;
}

DEV_CALL char* packets_uncached(const LaunchParams& launch, uint32_t number) { return resolve_uncached(launch, number).at; }

/// The first packet of operand `number`.
DEV char* packets_of(const LaunchParams& launch, uint32_t number) {
  const uint32_t slot = number - cache().first_operand;
  return slot < kCachedOperands ? cache().heads[slot] : packets_uncached(launch, number);
}

/// Channel, semaphore or barrier `number`.
DEV Id id_at(const LaunchParams& launch, uint32_t number) {
  uint32_t slot = number - cache().first_id;
  return slot < kCachedIds ? cache().ids[slot] : reinterpret_cast<const Id*>(launch.ids)[number];
}

}  // namespace mscclpp
