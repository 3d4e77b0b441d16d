// Three all-reduces of f32 sums as one would write them by hand, for RANKS ranks that share a device, in place: what the executor
// is compared with. Blocks rank * each + b of the grid are rank's; block b of all ranks work together. Their waits have no
// end: they are for measuring.
#include "packet.h"
#include "reduce.h"

#ifndef RANKS
#define RANKS 8
#endif

struct Ranks {
  uint64_t buffers[16];
  /// Of every rank: two halves, of RANKS times 2 * bytes for `one_shot`, and of 4 * bytes for `packets`.
  uint64_t packets[16];
  /// Launches, blocks that have finished, then one counter for each block of a rank, 64 bytes apart.
  uint64_t counters;
  uint64_t bytes;
};

using Sum = mscclpp::Arithmetic<float, float>;

/// A thread block's place.
struct Here {
  uint32_t rank, block, each;
  uint64_t launches;
  uint64_t* counter;

  DEV explicit Here(const Ranks& all) {
    each = dev_blocks() / RANKS;
    rank = dev_block() / each;
    block = dev_block() % each;
    counter = reinterpret_cast<uint64_t*>(all.counters + 64 * (1 + block));
    launches = load_relaxed_gpu(reinterpret_cast<const uint64_t*>(all.counters));
  }
};

/// Blocks of all ranks meet.
DEV void meet_ranks(const Here& here, uint64_t until) {
  dev_sync();
  if (dev_thread() == 0) {
    add_release_gpu(here.counter, 1);
    while (load_acquire_gpu(here.counter) < until) dev_relax();
  }
  dev_sync();
}

/// The last block counts the launch.
DEV void finish(const Ranks& all, const Here& here) {
  dev_sync();
  uint64_t* launches = reinterpret_cast<uint64_t*>(all.counters);
  if (dev_thread() == 0 && fetch_add_acq_rel_gpu(launches + 1, 1) + 1 == dev_blocks()) {
    store_relaxed_gpu(launches + 1, uint64_t{0});
    store_relaxed_gpu(launches, here.launches + 1);
  }
}

/// Every rank adds up its part of all buffers, and writes it to all.
KERNEL(1024) all_pairs(KERNEL_PARAM Ranks all) {
  const Here here(all);
  const uint64_t met = 2 * RANKS * here.launches;
  meet_ranks(here, met + RANKS);
  const uint64_t vectors = all.bytes / 16, parts = static_cast<uint64_t>(RANKS) * here.each;
  const uint64_t part = static_cast<uint64_t>(here.rank) * here.each + here.block;
  const uint64_t end = vectors * (part + 1) / parts;
  DEV_NO_UNROLL
  for (uint64_t v = vectors * part / parts + dev_thread(); v < end; v += dev_threads()) {
    Vec16 data[RANKS];
#pragma unroll
    for (uint32_t r = 0; r < RANKS; ++r) data[r] = load16(reinterpret_cast<const char*>(all.buffers[r]) + 16 * v);
    mscclpp::Accumulator<Sum, Vec16> sum;
    sum.start(data[0]);
#pragma unroll
    for (uint32_t r = 1; r < RANKS; ++r) sum.add<true>(data[r], Reduction::kSum);
    const Vec16 result = sum.finish();
#pragma unroll
    for (uint32_t r = 0; r < RANKS; ++r) store16(reinterpret_cast<char*>(all.buffers[r]) + 16 * v, result);
  }
  meet_ranks(here, met + 2 * RANKS);
  finish(all, here);
}

/// Every rank sends its buffer to all others as packets, and adds up what it gets.
KERNEL(1024) one_shot(KERNEL_PARAM Ranks all) {
  const Here here(all);
  const uint32_t flag = static_cast<uint32_t>(here.launches % 0xffffffffull) + 1;
  const uint64_t half = (here.launches & 1) * RANKS * 2 * all.bytes;
  char* own = reinterpret_cast<char*>(all.buffers[here.rank]);
  const uint64_t first = 8 * (static_cast<uint64_t>(here.block) * dev_threads() + dev_thread());
  const uint64_t step = 8 * static_cast<uint64_t>(here.each) * dev_threads();
  DEV_NO_UNROLL
  for (uint64_t i = first; i < all.bytes; i += step) {
    const Vec8 payload = load_any<Vec8>(own + i, 8);
#pragma unroll
    for (uint32_t s = 1; s < RANKS; ++s) {
      const uint32_t peer = (here.rank + s) % RANKS;
      store_packet(reinterpret_cast<char*>(all.packets[peer]) + half + 2 * (here.rank * all.bytes + i), payload, flag);
    }
  }
  const char* arrived = reinterpret_cast<const char*>(all.packets[here.rank]) + half;
  DEV_NO_UNROLL
  for (uint64_t i = first; i < all.bytes; i += step) {
    Vec8 data[RANKS];
    bool there[RANKS];
    uint32_t seen;
#pragma unroll
    for (uint32_t r = 0; r < RANKS; ++r) {
      if (r == here.rank) data[r] = load_any<Vec8>(own + i, 8);
      else there[r] = load_packet(arrived + 2 * (r * all.bytes + i), flag, data[r], seen);
    }
    mscclpp::Accumulator<Sum, Vec8> sum;
#pragma unroll
    for (uint32_t r = 0; r < RANKS; ++r) {
      if (r != here.rank) {
        while (!there[r]) {
          dev_relax();
          there[r] = load_packet(arrived + 2 * (r * all.bytes + i), flag, data[r], seen);
        }
      }
      if (r == 0) sum.start(data[r]);
      else sum.add<true>(data[r], Reduction::kSum);
    }
    store_any(own + i, 8, sum.finish());
  }
  finish(all, here);
}

/// Every rank adds up its part of all buffers, which comes as packets, and sends the sums to all as packets. Bytes are a multiple of
/// 8 * RANKS. A thread has the same places of all parts, so it reads a place before it writes it.
KERNEL(1024) packets(KERNEL_PARAM Ranks all) {
  const Here here(all);
  const uint32_t flag = static_cast<uint32_t>(here.launches % 0xffffffffull) + 1;
  const uint64_t part = all.bytes / RANKS, half = (here.launches & 1) * 4 * all.bytes;
  char* own = reinterpret_cast<char*>(all.buffers[here.rank]);
  const uint64_t first = 8 * (static_cast<uint64_t>(here.block) * dev_threads() + dev_thread());
  const uint64_t step = 8 * static_cast<uint64_t>(here.each) * dev_threads();
  DEV_NO_UNROLL
  for (uint64_t i = first; i < part; i += step) {
#pragma unroll
    for (uint32_t s = 1; s < RANKS; ++s) {
      const uint32_t peer = (here.rank + s) % RANKS;
      const Vec8 payload = load_any<Vec8>(own + peer * part + i, 8);
      store_packet(reinterpret_cast<char*>(all.packets[peer]) + half + 2 * (here.rank * part + i), payload, flag);
    }
  }
  const char* arrived = reinterpret_cast<const char*>(all.packets[here.rank]) + half;
  uint32_t seen;
  DEV_NO_UNROLL
  for (uint64_t i = first; i < part; i += step) {
    mscclpp::Accumulator<Sum, Vec8> sum;
#pragma unroll
    for (uint32_t r = 0; r < RANKS; ++r) {
      Vec8 data;
      if (r == here.rank) data = load_any<Vec8>(own + r * part + i, 8);
      else while (!load_packet(arrived + 2 * (r * part + i), flag, data, seen)) dev_relax();
      if (r == 0) sum.start(data);
      else sum.add<true>(data, Reduction::kSum);
    }
    const Vec8 result = sum.finish();
    store_any(own + here.rank * part + i, 8, result);
#pragma unroll
    for (uint32_t s = 1; s < RANKS; ++s) {
      const uint32_t peer = (here.rank + s) % RANKS;
      char* results = reinterpret_cast<char*>(all.packets[peer]) + half + 2 * all.bytes;
      store_packet(results + 2 * (here.rank * part + i), result, flag);
    }
  }
  DEV_NO_UNROLL
  for (uint64_t i = first; i < part; i += step) {
#pragma unroll
    for (uint32_t s = 1; s < RANKS; ++s) {
      const uint32_t peer = (here.rank + s) % RANKS;
      Vec8 data;
      while (!load_packet(arrived + 2 * (all.bytes + peer * part + i), flag, data, seen)) dev_relax();
      store_any(own + peer * part + i, 8, data);
    }
  }
  finish(all, here);
}

SIM_KERNEL(all_pairs, Ranks)
SIM_KERNEL(one_shot, Ranks)
SIM_KERNEL(packets, Ranks)
