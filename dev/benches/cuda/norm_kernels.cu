// Row norms of bf16 as one would write them by hand, for RANKS ranks that share a device: what the executor is compared with. The order of
// their sums depends on the number of threads. Their waits have no end: they are for measuring.
#include "packet.h"
#include "reduce.h"

#ifndef RANKS
#define RANKS 8
#endif

/// Vectors of 8 bytes of a row that a thread keeps.
constexpr uint32_t kKept = 4;

struct Norms {
  uint64_t inputs[16];
  uint64_t outputs[16];
  uint64_t residuals[16];
  /// Of every rank: two halves of RANKS times twice the bytes of its input.
  uint64_t packets[16];
  uint64_t gamma;
  /// Launches, then blocks that have finished.
  uint64_t counters;
  uint64_t rows;
  /// Bytes of a row, at most 8 * kKept for each thread.
  uint64_t bytes;
};

union Four {
  Vec8 vec;
  BF16 e[4];
};

/// Adds the values of all threads of the block.
DEV float sum_of_block(float value) {
  SHARED(float, partials, 1024);
  SHARED(float, columns, 32);
  const uint32_t threads = dev_threads(), width = threads < 32 ? threads : 32;
  partials[dev_thread()] = value;
  dev_sync();
  if (dev_thread() < width) {
    float sum = 0;
    for (uint32_t i = dev_thread(); i < threads; i += width) sum += partials[i];
    columns[dev_thread()] = sum;
  }
  dev_sync();
  float sum = 0;
  for (uint32_t i = 0; i < width; ++i) sum += columns[i];
  return sum;
}

/// Adds the residual to a row of which a thread has some vectors, and normalizes it.
DEV void norm_row(const Norms& all, uint32_t rank, uint64_t row, Four (&kept)[kKept]) {
  char* const residual = reinterpret_cast<char*>(all.residuals[rank]) + row * all.bytes;
  char* const output = reinterpret_cast<char*>(all.outputs[rank]) + row * all.bytes;
  const char* const gamma = reinterpret_cast<const char*>(all.gamma);
  float squares = 0;
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) {
    const uint64_t i = 8 * (dev_thread() + k * dev_threads());
    if (i >= all.bytes) break;
    Four more = {load_any<Vec8>(residual + i, 8)};
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      kept[k].e[e] = Via<BF16, float>::narrow(Via<BF16, float>::widen(kept[k].e[e]) + Via<BF16, float>::widen(more.e[e]));
      const float value = Via<BF16, float>::widen(kept[k].e[e]);
      squares += value * value;
    }
    store_any(residual + i, 8, kept[k].vec);
  }
  const float mean = dev_divide(sum_of_block(squares), static_cast<float>(all.bytes / 2));
  const float inverse = dev_divide(1.0f, dev_sqrt(mean + 1e-6f));
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) {
    const uint64_t i = 8 * (dev_thread() + k * dev_threads());
    if (i >= all.bytes) break;
    Four factor = {load_any<Vec8>(gamma + i, 8)};
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      const float value = Via<BF16, float>::widen(kept[k].e[e]) * inverse * Via<BF16, float>::widen(factor.e[e]);
      kept[k].e[e] = Via<BF16, float>::narrow(value);
    }
    store_any(output + i, 8, kept[k].vec);
  }
}

/// A block for each row of each rank normalizes the sums in the outputs.
KERNEL(512) norm_rows(KERNEL_PARAM Norms all) {
  const uint32_t rank = static_cast<uint32_t>(dev_block() / all.rows);
  const uint64_t row = dev_block() % all.rows;
  const char* const sums = reinterpret_cast<const char*>(all.outputs[rank]) + row * all.bytes;
  Four kept[kKept] = {};
#pragma unroll
  for (uint32_t k = 0; k < kKept; ++k) {
    const uint64_t i = 8 * (dev_thread() + k * dev_threads());
    if (i < all.bytes) kept[k].vec = load_any<Vec8>(sums + i, 8);
  }
  norm_row(all, rank, row, kept);
}

/// Every rank sends its rows to all others as packets, adds up what it gets, and normalizes. Blocks rank * each + b of the grid are rank's.
KERNEL(512) reduce_and_norm(KERNEL_PARAM Norms all) {
  const uint32_t each = dev_blocks() / RANKS, rank = dev_block() / each;
  uint64_t* const counters = reinterpret_cast<uint64_t*>(all.counters);
  const uint64_t launches = load_relaxed_gpu(const_cast<const uint64_t*>(counters)), len = all.rows * all.bytes;
  const uint32_t flag = static_cast<uint32_t>(launches % 0xffffffffull) + 1;
  const uint64_t half = (launches & 1) * RANKS * 2 * len;
  const char* const own = reinterpret_cast<const char*>(all.inputs[rank]);
  for (uint64_t row = dev_block() % each; row < all.rows; row += each) {
    for (uint64_t i = 8 * dev_thread(); i < all.bytes; i += 8 * dev_threads()) {
      const uint64_t at = row * all.bytes + i;
      const Vec8 payload = load_any<Vec8>(own + at, 8);
#pragma unroll
      for (uint32_t s = 1; s < RANKS; ++s) {
        const uint32_t peer = (rank + s) % RANKS;
        store_packet(reinterpret_cast<char*>(all.packets[peer]) + half + 2 * (rank * len + at), payload, flag);
      }
    }
  }
  const char* const arrived = reinterpret_cast<const char*>(all.packets[rank]) + half;
  for (uint64_t row = dev_block() % each; row < all.rows; row += each) {
    Four kept[kKept] = {};
#pragma unroll
    for (uint32_t k = 0; k < kKept; ++k) {
      const uint64_t i = 8 * (dev_thread() + k * dev_threads());
      if (i >= all.bytes) break;
      const uint64_t at = row * all.bytes + i;
      Vec8 data[RANKS];
      bool there[RANKS];
      uint32_t seen;
#pragma unroll
      for (uint32_t r = 0; r < RANKS; ++r) {
        if (r == rank) data[r] = load_any<Vec8>(own + at, 8);
        else there[r] = load_packet(arrived + 2 * (r * len + at), flag, data[r], seen);
      }
      mscclpp::Accumulator<mscclpp::Arithmetic<BF16, BF16>, Vec8> sum;
#pragma unroll
      for (uint32_t r = 0; r < RANKS; ++r) {
        if (r != rank) {
          while (!there[r]) {
            dev_relax();
            there[r] = load_packet(arrived + 2 * (r * len + at), flag, data[r], seen);
          }
        }
        if (r == 0) sum.start(data[r]);
        else sum.add<true>(data[r], Reduction::kSum);
      }
      kept[k].vec = sum.finish();
    }
    norm_row(all, rank, row, kept);
  }
  dev_sync();
  if (dev_thread() == 0 && fetch_add_acq_rel_gpu(counters + 1, 1) + 1 == dev_blocks()) {
    store_relaxed_gpu(counters + 1, uint64_t{0});
    store_relaxed_gpu(counters, launches + 1);
  }
}

SIM_KERNEL(norm_rows, Norms)
SIM_KERNEL(reduce_and_norm, Norms)
