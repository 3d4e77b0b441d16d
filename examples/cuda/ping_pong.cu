// Kernels of two ranks that pass a number to each other by turns, each incrementing it. `ping_pong.rs` and `bootstrap.rs` launch them.
#include "mscclpp_channels.h"

/// As in `lib.rs`. Shared memory: the number that is sent, the number that was received, then what `ask` has received and how long that took.
struct PingPong {
  mscclpp::MemoryChannel peer;
  uint64_t* shared;
  uint32_t rounds, reserved;
};

/// The signal publishes the number to the thread whose wait it ends. Where nothing is published, `relaxed_signal` and `relaxed_wait` suffice.
DEV void pass(const PingPong& a, uint64_t number) {
  store_plain<uint64_t>(a.shared, number);
  a.peer.put(8, 0, 8, 0, 1);
  a.peer.signal();
}

KERNEL(32) answer(KERNEL_PARAM PingPong a) {
  if (dev_thread() != 0) return;
  for (uint32_t round = 0; round < a.rounds; ++round) {
    if (!a.peer.wait()) return;
    pass(a, load_plain<uint64_t>(a.shared + 1) + 1);
  }
}

KERNEL(32) ask(KERNEL_PARAM PingPong a) {
  if (dev_thread() != 0) return;
  uint64_t number = 0;
  for (uint32_t round = 0; round < a.rounds; ++round) {
    const uint64_t begin = dev_now();
    pass(a, number + 1);
    if (!a.peer.wait()) return;
    number = load_plain<uint64_t>(a.shared + 1);
    store_plain<uint64_t>(a.shared + 2 + 2 * round, number);
    store_plain<uint64_t>(a.shared + 3 + 2 * round, dev_now() - begin);
  }
}

// For simulated devices.
SIM_KERNEL(answer, PingPong)
SIM_KERNEL(ask, PingPong)
