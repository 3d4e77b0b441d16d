// The argument of kernels that `mscclpp.compile_native` makes algorithms of: `KERNEL(256) name(KERNEL_PARAM mscclpp::NativeCall call)`.
// `_core/native.py` writes it, with the same layout.
#pragma once
#include "mscclpp_channels.h"

namespace mscclpp {

/// The largest number of ranks of an algorithm.
constexpr uint32_t kMaxNativeRanks = 48;

/// A call of an algorithm: the same numbers on all ranks, but for `rank` and the addresses.
struct NativeCall {
  /// Input and output of this rank. In place, one is part of the other.
  const char* input;
  char* output;
  uint64_t input_bytes, output_bytes;
  /// Memory of this rank that the channels of the others access. It is not cleared between calls.
  char* shared;
  uint64_t shared_bytes;
  /// The number of calls before this one.
  uint64_t number;
  uint32_t rank, num_ranks;
  /// `mscclpp.DataType` and `mscclpp.ReduceOp`.
  uint32_t dtype, op;
  /// Of the thread blocks of this rank.
  DeviceBarrier blocks;
  /// With each rank. Puts read the input and write the peer's shared memory.
  MemoryChannel channels[kMaxNativeRanks];

  /// The number of this thread among those of all blocks, and how many there are.
  DEV uint32_t thread() const { return dev_block() * dev_threads() + dev_thread(); }
  DEV uint32_t threads() const { return dev_blocks() * dev_threads(); }

  /// Called by: all threads of all blocks. Waits until the kernels of all ranks have come here. order: what a rank's threads wrote before
  /// it is visible to the threads of all ranks after it. False if a rank did not arrive in time: then the kernel must exit.
  DEV bool sync_ranks() const {
    bool arrived = blocks.sync(dev_blocks());
    if (thread() == 0) {
      for (uint32_t peer = 0; peer < num_ranks; ++peer) channels[peer].signal();
      for (uint32_t peer = 0; peer < num_ranks; ++peer) arrived = channels[peer].wait() && arrived;
    }
    return blocks.sync(dev_blocks()) && arrived;
  }

  /// Called by: all threads of all blocks. Copies from this rank's shared memory to its output. order: none.
  DEV void to_output(uint64_t to, uint64_t from, uint64_t bytes) const {
    MemoryChannel own = channels[rank];
    own.remote = output;
    own.source = shared;
    own.put(to, from, bytes, thread(), threads());
  }
};

}  // namespace mscclpp
