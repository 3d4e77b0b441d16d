// A kernel of two ranks that exchange data in both directions through a port channel; `port_channel.rs` launches it.
#include "mscclpp_channels.h"

/// As in `port_channel.rs`. Shared memory: the part of each rank.
struct Exchange {
  mscclpp::PortChannel peer;
  uint64_t bytes;
  uint32_t side, reserved;
};

/// One thread asks the proxy: for a signal that this rank's memory may be written, and for the copy with a signal after it. The flush
/// ends when the copy has read its source.
KERNEL(32) exchange(KERNEL_PARAM Exchange a) {
  if (dev_thread() != 0 || !a.peer.signal() || !a.peer.wait()) return;
  const uint64_t at = a.side * a.bytes;
  if (a.peer.put_with_signal_and_flush(at, at, a.bytes)) a.peer.wait();
}

// For simulated devices.
SIM_KERNEL(exchange, Exchange)
