// Kernels of two ranks that exchange data in both directions at once through a memory channel; `memory_channel.rs` launches them.
#include "mscclpp_channels.h"

/// As in `memory_channel.rs`. Shared memory: the part of each rank, then packets.
struct Exchange {
  mscclpp::MemoryChannel peer;
  mscclpp::DeviceBarrier blocks;
  uint64_t bytes, packets;
  uint32_t side, flag;
};

DEV uint32_t thread_of_all() { return dev_block() * dev_threads() + dev_thread(); }
DEV uint32_t threads_of_all() { return dev_blocks() * dev_threads(); }
DEV bool is_first() { return thread_of_all() == 0; }

/// Waits until the peer's kernel has begun. Nothing is published, so that relaxed signals suffice.
DEV bool begin_with_peer(const Exchange& a) {
  bool ok = true;
  if (is_first()) {
    a.peer.relaxed_signal();
    ok = a.peer.relaxed_wait();
  }
  return a.blocks.sync(dev_blocks()) && ok;
}

/// Each rank writes its part to the peer's memory. The signal publishes what all blocks have written before the barrier.
KERNEL(256) by_put(KERNEL_PARAM Exchange a) {
  if (!begin_with_peer(a)) return;
  const uint64_t at = a.side * a.bytes;
  a.peer.put(at, at, a.bytes, thread_of_all(), threads_of_all());
  if (!a.blocks.sync(dev_blocks()) || !is_first()) return;
  a.peer.signal();
  a.peer.wait();
}

/// Each rank reads the peer's part, which the host wrote before the launch.
KERNEL(256) by_get(KERNEL_PARAM Exchange a) {
  if (!begin_with_peer(a)) return;
  const uint64_t at = (1 - a.side) * a.bytes;
  a.peer.get(at, at, a.bytes, thread_of_all(), threads_of_all());
}

/// Each rank writes packets to the peer's memory and unpacks those of the peer: their flags tell that they have arrived, so that nothing is
/// signaled after them. Those of the next launch may overwrite them only when the peer has begun it.
KERNEL(256) by_packets(KERNEL_PARAM Exchange a) {
  if (!begin_with_peer(a)) return;
  a.peer.put_packets(a.packets, a.side * a.bytes, a.bytes, a.flag, thread_of_all(), threads_of_all());
  a.peer.unpack_packets(a.packets, (1 - a.side) * a.bytes, a.bytes, a.flag, thread_of_all(), threads_of_all());
}

// For simulated devices.
SIM_KERNEL(by_put, Exchange)
SIM_KERNEL(by_get, Exchange)
SIM_KERNEL(by_packets, Exchange)
