// An all-reduce of f32 sums in one kernel, for ranks that share a device: every vector is read from all inputs, added up in
// the order of the ranks, and written to all outputs. What the ranks did before on the stream is done, so nobody waits.
#include "reduce.h"

using Sum = mscclpp::Accumulator<mscclpp::Arithmetic<float, float>, Vec16>;

struct Ranks {
  uint64_t inputs[16];
  uint64_t outputs[16];
  uint64_t bytes;
  uint64_t ranks;
};

KERNEL(512) native_allreduce(KERNEL_PARAM Ranks all) {
  const uint64_t threads = static_cast<uint64_t>(dev_blocks()) * dev_threads();
  DEV_NO_UNROLL
  for (uint64_t at = 16 * (static_cast<uint64_t>(dev_block()) * dev_threads() + dev_thread()); at < all.bytes; at += 16 * threads) {
    const uint32_t bytes = all.bytes - at < 16 ? static_cast<uint32_t>(all.bytes - at) : 16;
    auto load = [&](uint64_t rank) {
      const char* from = reinterpret_cast<const char*>(all.inputs[rank] + at);
      return bytes < 16 ? load_part<Vec16>(from, bytes) : load_any<Vec16>(from, alignment_of(from));
    };
    Sum sum;
    sum.start(load(0));
    for (uint64_t rank = 1; rank < all.ranks; ++rank) sum.add<true>(load(rank), Reduction::kSum);
    const Vec16 result = sum.finish();
    for (uint64_t rank = 0; rank < all.ranks; ++rank) {
      char* to = reinterpret_cast<char*>(all.outputs[rank] + at);
      if (bytes < 16) store_part(to, bytes, result);
      else store_any(to, alignment_of(to), result);
    }
  }
}

// The simulator's tests run it too.
SIM_KERNEL(native_allreduce, Ranks)
