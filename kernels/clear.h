// Clears packets of launches long ago, before their flags come again.
//
// Flags repeat after 2^32 - 1 launches. A packet that no launch has overwritten since then would be taken for one of the present
// launch. So launches search all packets of their device for old ones, a part every now and then, and none is older than three quarters
// of the flags.
#pragma once
#include "instr_cache.h"
#include "sync.h"

namespace mscclpp {

/// Launches between two searches.
#ifdef DEV_SIM
constexpr uint64_t kClearInterval = 2;
#else
constexpr uint64_t kClearInterval = 1024;
#endif

/// Number of flags.
constexpr uint64_t kFlags = 0xffffffffull;

/// Searches in which each packet is met at least once: those of half the flags.
constexpr uint64_t kSearches = kFlags / 2 / kClearInterval;

/// Whether a flag is so much older than the launch's that no launch waits for it. Other ranks may be some launches ahead.
DEV bool is_old(uint32_t flag) {
  const uint64_t age = (cache().flag + kFlags - flag) % kFlags;
  return flag != 0 && age > kFlags / 4 && age < 3 * (kFlags / 4);
}

/// Clears a packet of 4 bytes if it is old, unless another rank overwrites it meanwhile.
DEV void clear_old_packet(uint64_t* packet) {
  const uint64_t found = load_relaxed_sys(packet);
  if (is_old(static_cast<uint32_t>(found >> 32))) compare_swap_relaxed_sys(packet, found, 0);
}

/// Called by: all threads of the block, at the end of a launch.
DEV_CALL void clear_old_packets(const LaunchParams& launch) {
  const uint64_t* const table = *reinterpret_cast<uint64_t* const*>(launch.packets);
  const uint64_t areas = table[0], all = table[1];
  if (all == 0) return;
  const uint64_t threads = static_cast<uint64_t>(dev_blocks()) * dev_threads(), search = cache().sequence / kClearInterval;
  const uint64_t thread = static_cast<uint64_t>(dev_block()) * dev_threads() + dev_thread(), each = all / (threads * kSearches) + 1;
  DEV_NO_UNROLL
  for (uint64_t i = 0; i < each; ++i) {
    uint64_t at = ((search * each + i) * threads + thread) % all, area = 0;
    DEV_NO_UNROLL
    while (area + 1 < areas && at >= table[3 + 2 * area]) at -= table[3 + 2 * area++];
    uint64_t* const packets = reinterpret_cast<uint64_t*>(table[2 + 2 * area]) + 2 * at;
    clear_old_packet(packets);
    clear_old_packet(packets + 1);
  }
}

}  // namespace mscclpp
