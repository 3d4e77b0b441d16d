// An all-reduce in the shared memory of all ranks by a switch channel; `switch_channel.rs` launches it.
#include "mscclpp_channels.h"

constexpr uint32_t kMaxRanks = 8;

/// As in `switch_channel.rs`. Shared memory: the vector of the rank, at the end that of the sums.
struct AllReduce {
  mscclpp::MemoryChannel peers[kMaxRanks];
  mscclpp::SwitchChannel all;
  uint64_t bytes;
  uint32_t rank, ranks;
};

/// Called by: all threads of the block. Returns: in each of them, whether the kernels of all ranks have arrived.
DEV bool sync_ranks(const AllReduce& a) {
  dev_sync();
  bool failed = false;
  // One thread for each peer.
  if (dev_thread() < a.ranks && dev_thread() != a.rank) {
    a.peers[dev_thread()].signal();
    failed = !a.peers[dev_thread()].wait();
  }
  return dev_sync_count(failed) == 0;
}

/// Each rank reduces its part of the vectors, and stores the sums in the memory of all: an all-reduce that reads and writes every element
/// once per rank.
KERNEL(256) all_reduce(KERNEL_PARAM AllReduce a) {
  if (!sync_ranks(a)) return;
  a.all.fence();
  const uint64_t vectors = a.bytes / 16, first = a.rank * vectors / a.ranks, end = (a.rank + 1) * vectors / a.ranks;
  for (uint64_t vector = first + dev_thread(); vector < end; vector += dev_threads()) {
    a.all.broadcast(16 * vector, a.all.reduce<float>(16 * vector));
  }
  a.all.fence();
  // The memory of this rank is complete when all ranks have stored their sums.
  sync_ranks(a);
}

// For simulated devices.
SIM_KERNEL(all_reduce, AllReduce)
