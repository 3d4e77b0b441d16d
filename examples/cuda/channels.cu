// Kernels of two ranks or more that exchange and add data by channels; `channels.rs` launches them.
#include "mscclpp_channels.h"

/// As in `channels.rs`. `shared` memory: a vector of `bytes` of each rank, then as many packets.
struct Ring {
  /// With the next rank, and with the previous one.
  mscclpp::MemoryChannel next, previous;
  mscclpp::PortChannel port_next, port_previous;
  mscclpp::SwitchChannel all;
  uint64_t bytes;
  uint32_t rank, ranks, flag, reserved;
};

DEV bool first() { return dev_thread() == 0; }

/// A memory channel: each rank puts its vector in the next one's memory, and tells it.
KERNEL(256) by_memory(KERNEL_PARAM Ring ring) {
  const uint64_t at = ring.rank * ring.bytes;
  ring.next.put(at, at, ring.bytes, dev_thread(), dev_threads());
  dev_sync();
  if (first()) ring.next.signal();
  if (first()) ring.previous.wait();
  dev_sync();
}

/// The same by packets, which need no signal.
KERNEL(256) by_packets(KERNEL_PARAM Ring ring) {
  const uint64_t packets = ring.ranks * ring.bytes, from = (ring.rank + ring.ranks - 1) % ring.ranks;
  ring.next.put_packets(packets, ring.rank * ring.bytes, ring.bytes, ring.flag, dev_thread(), dev_threads());
  ring.previous.unpack_packets(packets, from * ring.bytes, ring.bytes, ring.flag, dev_thread(), dev_threads());
}

/// A port channel: one thread asks the host's proxy for the copy.
KERNEL(256) by_port(KERNEL_PARAM Ring ring) {
  const uint64_t at = ring.rank * ring.bytes;
  if (first() && ring.port_next.put_with_signal_and_flush(at, at, ring.bytes)) ring.port_previous.wait();
}

/// A switch channel: rank 0 adds the first vectors of all ranks, and stores the sum in the memory of all.
KERNEL(256) by_switch(KERNEL_PARAM Ring ring) {
  if (ring.rank == 0) {
    ring.all.fence();
    for (uint64_t at = 16 * static_cast<uint64_t>(dev_thread()); at < ring.bytes; at += 16 * static_cast<uint64_t>(dev_threads())) {
      ring.all.broadcast(at, ring.all.reduce<float>(at));
    }
    ring.all.fence();
  }
  dev_sync();
  // Round the ring: each rank passes on that the sum is there.
  if (first() && (ring.rank == 0 || ring.previous.wait())) ring.next.signal();
  if (first() && ring.rank == 0) ring.previous.wait();
}

// For simulated devices.
SIM_KERNEL(by_memory, Ring)
SIM_KERNEL(by_packets, Ring)
SIM_KERNEL(by_port, Ring)
SIM_KERNEL(by_switch, Ring)
