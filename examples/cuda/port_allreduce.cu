// An all-reduce of f32 sums: the host's proxies copy the input of each rank to the memory of all others, then each rank adds them up.
#include "mscclpp_channels.h"

/// As in `port_allreduce.rs`.
struct AllReduce {
  mscclpp::PortChannel peers[8];
  const char* input;
  char* output;
  /// A slot of each rank, of which launches use two in turn: a rank that is a launch ahead does not overwrite what others still add.
  const char* shared;
  uint64_t bytes, first_slot;
  uint32_t rank, ranks;
};

KERNEL(256) port_allreduce(KERNEL_PARAM AllReduce all) {
  bool failed = false;
  if (dev_thread() == 0) {
    for (uint32_t peer = 0; peer < all.ranks && !failed; ++peer) {
      if (peer != all.rank) failed = !all.peers[peer].put_with_signal(all.first_slot + all.rank * all.bytes, 0, all.bytes);
    }
    for (uint32_t peer = 0; peer < all.ranks && !failed; ++peer) {
      if (peer != all.rank) failed = !all.peers[peer].wait();
    }
    // The caller may write its input again after the launch.
    if (!failed) failed = !all.peers[all.rank].flush();
  }
  if (dev_sync_count(failed) != 0) return;
  for (uint64_t at = 4 * static_cast<uint64_t>(dev_thread()); at < all.bytes; at += 4 * static_cast<uint64_t>(dev_threads())) {
    float sum = 0;
    for (uint32_t rank = 0; rank < all.ranks; ++rank) {
      const char* slot = rank == all.rank ? all.input : all.shared + all.first_slot + rank * all.bytes;
      sum += load_plain<float>(slot + at);
    }
    store_plain<float>(all.output + at, sum);
  }
}

// For simulated devices.
SIM_KERNEL(port_allreduce, AllReduce)
