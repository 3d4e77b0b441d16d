// Gathers the ranks' parts in the shared memory of every rank, by each kind of channel.
#include "mscclpp_channels.h"
// The proxy's side of the structs.
#include "abi.h"

static_assert(sizeof(mscclpp::PortQueue) == sizeof(mscclpp::Fifo) && offsetof(mscclpp::PortQueue, handled) == offsetof(mscclpp::Fifo, handled), "");
static_assert(sizeof(mscclpp::PortTrigger) == sizeof(mscclpp::Trigger), "");
static_assert(offsetof(mscclpp::PortTrigger, turn) == offsetof(mscclpp::Trigger, turn), "");
static_assert(offsetof(mscclpp::PortTrigger, from) == offsetof(mscclpp::Trigger, src), "");
static_assert(offsetof(mscclpp::PortTrigger, to) == offsetof(mscclpp::Trigger, dst), "");
static_assert(offsetof(mscclpp::PortTrigger, bytes) == offsetof(mscclpp::Trigger, bytes), "");
static_assert(offsetof(mscclpp::PortTrigger, signal) == offsetof(mscclpp::Trigger, signal), "");

struct Gather {
  mscclpp::MemoryChannel memory[4];
  mscclpp::PortChannel port[4];
  mscclpp::SwitchChannel all;
  mscclpp::DeviceBarrier barrier;
  uint64_t bytes;
  uint32_t rank, ranks, flag, reserved;
};

/// Synchronizes with the kernels of all other ranks; called by all threads of all blocks.
DEV bool meet(const Gather& a) {
  bool ok = a.barrier.sync(dev_blocks());
  if (dev_block() == 0 && dev_thread() == 0) {
    for (uint32_t peer = 0; peer < a.ranks; ++peer) {
      if (peer != a.rank) a.memory[peer].signal();
    }
    for (uint32_t peer = 0; ok && peer < a.ranks; ++peer) {
      if (peer != a.rank) ok = a.memory[peer].wait();
    }
  }
  return a.barrier.sync(dev_blocks()) && ok;
}

DEV uint32_t thread_of_all() { return dev_block() * dev_threads() + dev_thread(); }
DEV uint32_t threads_of_all() { return dev_blocks() * dev_threads(); }

KERNEL(256) by_put(KERNEL_PARAM Gather a) {
  const uint64_t at = a.rank * a.bytes;
  for (uint32_t peer = 0; peer < a.ranks; ++peer) {
    if (peer != a.rank) a.memory[peer].put(at, at, a.bytes, thread_of_all(), threads_of_all());
  }
  meet(a);
}

KERNEL(256) by_get(KERNEL_PARAM Gather a) {
  if (!meet(a)) return;
  for (uint32_t peer = 0; peer < a.ranks; ++peer) {
    if (peer != a.rank) a.memory[peer].get(peer * a.bytes, peer * a.bytes, a.bytes, thread_of_all(), threads_of_all());
  }
  meet(a);
}

/// The packets of all ranks follow the data.
template <typename Packet>
DEV void gather_by_packets(const Gather& a) {
  const uint64_t packets = (a.ranks * a.bytes + 15) / 16 * 16;
  for (uint32_t peer = 0; peer < a.ranks; ++peer) {
    if (peer == a.rank) continue;
    a.memory[peer].put_packets<Packet>(packets + 2 * a.rank * a.bytes, a.rank * a.bytes, a.bytes, a.flag, thread_of_all(), threads_of_all());
  }
  for (uint32_t peer = 0; peer < a.ranks; ++peer) {
    if (peer == a.rank) continue;
    if (!a.memory[peer].unpack_packets<Packet>(packets + 2 * peer * a.bytes, peer * a.bytes, a.bytes, a.flag, thread_of_all(), threads_of_all())) return;
  }
}

KERNEL(256) by_packets(KERNEL_PARAM Gather a) { gather_by_packets<mscclpp::LL16>(a); }
KERNEL(256) by_short_packets(KERNEL_PARAM Gather a) { gather_by_packets<mscclpp::LL8>(a); }

/// More requests than the queue has slots, then one with a signal.
KERNEL(256) by_port(KERNEL_PARAM Gather a) {
  if (dev_block() != 0 || dev_thread() != 0) return;
  const uint64_t at = a.rank * a.bytes;
  for (uint32_t peer = 0; peer < a.ranks; ++peer) {
    if (peer == a.rank) continue;
    for (uint32_t i = 0; i < 300; ++i) {
      if (!a.port[peer].put(at, at, a.bytes < 8 ? a.bytes : 8)) return;
    }
    if (!a.port[peer].put_with_signal(at, at, a.bytes)) return;
  }
  if (!a.port[(a.rank + 1) % a.ranks].flush()) return;
  for (uint32_t peer = 0; peer < a.ranks; ++peer) {
    if (peer != a.rank && !a.port[peer].wait()) return;
  }
}

/// Each rank stores its part, in whole vectors, in the memory of all.
KERNEL(256) by_broadcast(KERNEL_PARAM Gather a) {
  a.all.fence();
  const char* shared = a.memory[0].shared;
  for (uint64_t i = 16 * static_cast<uint64_t>(thread_of_all()); i < a.bytes; i += 16 * static_cast<uint64_t>(threads_of_all())) {
    a.all.broadcast(a.rank * a.bytes + i, load16(shared + a.rank * a.bytes + i));
  }
  a.all.fence();
  meet(a);
}

template <typename T, mscclpp::Reduction kOp>
DEV void reduce_at(const Gather& a, uint64_t at) {
  a.all.broadcast(at, a.all.reduce<T, kOp>(at));
}

/// Each rank reduces one of the parts of all ranks, as the flag states, and stores the results in the memory of all.
KERNEL(256) by_reduction(KERNEL_PARAM Gather a) {
  using mscclpp::Reduction;
  if (!meet(a)) return;
  a.all.fence();
  for (uint64_t i = 16 * static_cast<uint64_t>(thread_of_all()); i < a.bytes; i += 16 * static_cast<uint64_t>(threads_of_all())) {
    const uint64_t at = a.rank * a.bytes + i;
    switch (a.flag) {
      case 0: reduce_at<uint32_t, Reduction::kSum>(a, at); break;
      case 1: reduce_at<int32_t, Reduction::kMin>(a, at); break;
      case 2: reduce_at<uint32_t, Reduction::kMax>(a, at); break;
      case 3: reduce_at<float, Reduction::kSum>(a, at); break;
      case 4: reduce_at<float, Reduction::kMax>(a, at); break;
      case 5: reduce_at<F16, Reduction::kSum>(a, at); break;
      case 6: reduce_at<F16, Reduction::kMin>(a, at); break;
      case 7: reduce_at<BF16, Reduction::kSum>(a, at); break;
      case 8: reduce_at<BF16, Reduction::kMax>(a, at); break;
      case 9: reduce_at<int64_t, Reduction::kMax>(a, at); break;
      case 10: reduce_at<uint64_t, Reduction::kSum>(a, at); break;
      case 11: reduce_at<double, Reduction::kSum>(a, at); break;
      case 12: reduce_at<double, Reduction::kMin>(a, at); break;
    }
  }
  a.all.fence();
  meet(a);
}

KERNEL(256) wait_alone(KERNEL_PARAM Gather a) {
  if (dev_thread() == 0 && dev_block() == 0) a.memory[(a.rank + 1) % a.ranks].wait();
}

/// Each kind of channel of the rank with itself.
KERNEL(256) with_itself(KERNEL_PARAM Gather a) {
  if (dev_block() != 0) return;
  a.memory[0].put(16, 0, 16, dev_thread(), dev_threads());
  dev_sync();
  if (dev_thread() != 0) return;
  a.memory[0].signal();
  if (!a.memory[0].wait() || !a.port[0].put(32, 16, 16) || !a.port[0].put_with_signal_and_flush(48, 16, 16)) return;
  a.port[0].wait();
}

/// Asks for a copy to bytes that the next rank does not have.
KERNEL(256) beyond(KERNEL_PARAM Gather a) {
  if (dev_block() == 0 && dev_thread() == 0) a.port[(a.rank + 1) % a.ranks].put_with_signal_and_flush(uint64_t{1} << 32, 0, 8);
}

KERNEL(256) wait_for_port(KERNEL_PARAM Gather a) {
  if (dev_block() == 0 && dev_thread() == 0) a.port[(a.rank + 1) % a.ranks].wait();
}

SIM_KERNEL(with_itself, Gather)
SIM_KERNEL(beyond, Gather)
SIM_KERNEL(wait_for_port, Gather)
SIM_KERNEL(by_put, Gather)
SIM_KERNEL(by_get, Gather)
SIM_KERNEL(by_packets, Gather)
SIM_KERNEL(by_short_packets, Gather)
SIM_KERNEL(by_port, Gather)
SIM_KERNEL(by_broadcast, Gather)
SIM_KERNEL(by_reduction, Gather)
SIM_KERNEL(wait_alone, Gather)
