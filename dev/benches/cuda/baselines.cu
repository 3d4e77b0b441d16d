// What a device can do at best: a signal from one multiprocessor to another, and a copy.
#include "sync.h"
#include "vector.h"

/// Two words, 128 bytes apart, and how far they have been counted.
struct Hops {
  uint64_t words;
  uint64_t before;
  uint64_t rounds;
};

/// Two blocks, each of which waits for the other one's word and then counts its own up.
KERNEL(32) hops(KERNEL_PARAM Hops hops) {
  if (dev_thread() != 0) return;
  const uint64_t mine = hops.words + 128 * dev_block(), other = hops.words + 128 * (1 - dev_block());
  for (uint64_t round = 1; round <= hops.rounds; ++round) {
    if (dev_block() == 0) store_relaxed_gpu(reinterpret_cast<uint64_t*>(other), hops.before + round);
    while (load_relaxed_gpu(reinterpret_cast<const uint64_t*>(mine)) < hops.before + round) dev_relax();
    if (dev_block() == 1) store_relaxed_gpu(reinterpret_cast<uint64_t*>(other), hops.before + round);
  }
}

/// `vectors` of 16 bytes.
struct Copy {
  uint64_t to;
  uint64_t from;
  uint64_t vectors;
};

/// Four vectors of each thread are in flight.
KERNEL(1024) copy(KERNEL_PARAM Copy copy) {
  const uint64_t all = static_cast<uint64_t>(dev_blocks()) * dev_threads();
  uint64_t v = static_cast<uint64_t>(dev_block()) * dev_threads() + dev_thread();
  const char* from = reinterpret_cast<const char*>(copy.from);
  char* to = reinterpret_cast<char*>(copy.to);
  for (; v + 3 * all < copy.vectors; v += 4 * all) {
    Vec16 data[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) data[i] = load16(from + 16 * (v + i * all));
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) store16(to + 16 * (v + i * all), data[i]);
  }
  for (; v < copy.vectors; v += all) store16(to + 16 * v, load16(from + 16 * v));
}

struct Nothing {
  uint64_t word;
};

/// What a launch costs.
KERNEL(1024) nothing(KERNEL_PARAM Nothing nothing) {
  if (nothing.word == 1) store_plain<uint32_t>(reinterpret_cast<void*>(nothing.word), 0);
}

SIM_KERNEL(hops, Hops)
SIM_KERNEL(copy, Copy)
SIM_KERNEL(nothing, Nothing)
