// Signals, semaphores, barriers and the queue to the host's proxy.
#pragma once
#include "wait.h"

namespace mscclpp {

/// Adds one to a counter. order: release publishes what this thread, and through a block sync its block, wrote; acquired by
/// `await_counter`. Relaxed publishes nothing: it says "you may write".
DEV void signal_counter(const Launch& launch, const Id& id, bool relaxed) {
  uint64_t* counter = reinterpret_cast<uint64_t*>(id.counter);
  if (launch.system_scope) {
    if (relaxed) add_relaxed_sys(counter, 1);
    else add_release_sys(counter, 1);
  } else {
    if (relaxed) add_relaxed_gpu(counter, 1);
    else add_release_gpu(counter, 1);
  }
}

DEV uint64_t look_at_counter(const Launch& launch, const uint64_t* counter) {
  return launch.system_scope ? load_acquire_sys(counter) : load_acquire_gpu(counter);
}

/// Called by: one thread. Waits until a counter reaches `expected`; the comparison survives wrap-around. A wait that follows
/// from a relaxed signal acquires all the same: that costs nothing beside the wait.
DEV void await_counter(const Launch& launch, const uint64_t* counter, uint64_t expected, uint32_t what,
                       uint32_t id) {
  Patience patience;
  DEV_NO_UNROLL
  for (;;) {
    uint64_t seen = look_at_counter(launch, counter);
    if (static_cast<int64_t>(seen - expected) >= 0 || window().failed) return;
    if (patience.is_over(launch)) return give_up(launch, Awaiting{what, id, 0, expected, seen});
  }
}

/// Called by: one thread. Waits for the next signal on a channel.
DEV void await_signal(const Launch& launch, const Id& id) {
  uint64_t expected = id.ordinal != 0
                          ? window().sequence * id.per_launch + id.ordinal
                          : fetch_add_relaxed_gpu(reinterpret_cast<uint64_t*>(id.expected), 1) + 1;
  await_counter(launch, reinterpret_cast<const uint64_t*>(id.counter), expected, kSignal, id.number);
}

/// Called by: one thread. Takes a unit, waiting for one.
DEV void acquire_semaphore(const Launch& launch, Id id) {
  uint64_t* units = reinterpret_cast<uint64_t*>(id.counter);
  Patience patience;
  DEV_NO_UNROLL
  for (;;) {
    uint64_t seen = load_relaxed_gpu(units);
    if (static_cast<int64_t>(seen) > 0 && compare_swap_acquire_gpu(units, seen, seen - 1) == seen) return;
    if (window().failed) return;
    if (static_cast<int64_t>(seen) <= 0 && patience.is_over(launch)) {
      return give_up(launch, Awaiting{kSemaphore, id.number, 0, 1, seen});
    }
  }
}

/// Called by: all threads of the block. Syncs: block, at entry and at exit; the blocks that take part meet in between.
DEV void meet(const Launch& launch, const Id& id, uint32_t blocks) {
  dev_sync();
  // A block that has given up does not arrive: others must not take that for work that is done.
  if (dev_thread() == 0 && blocks > 1 && !window().failed) {
    uint64_t* arrivals = reinterpret_cast<uint64_t*>(id.counter);
    // order: publishes the block's writes; acquired by the others' `await_counter`.
    uint64_t before = fetch_add_acq_rel_gpu(arrivals, 1);
    await_counter(launch, arrivals, before - before % blocks + blocks, kBarrier, id.number);
  }
  dev_sync();
}

/// Called by: one thread. Adds a request to the proxy's queue; waits while it is full.
DEV void push_trigger(const Launch& launch, uint32_t number, uint64_t src, uint64_t dst, uint64_t bytes,
                          uint64_t signal) {
  const Fifo& fifo = reinterpret_cast<const Fifo*>(launch.fifos)[number];
  uint64_t turn = fetch_add_relaxed_gpu(reinterpret_cast<uint64_t*>(fifo.head), 1);
  // The slot's last request must be done.
  const uint64_t* handled = reinterpret_cast<const uint64_t*>(fifo.handled);
  Patience patience;
  DEV_NO_UNROLL
  while (!window().failed && static_cast<int64_t>(turn - load_acquire_sys(handled)) >= static_cast<int64_t>(fifo.size)) {
    if (patience.is_over(launch)) {
      give_up(launch, Awaiting{kProxy, number, 0, turn + 1 - fifo.size, load_acquire_sys(handled)});
    }
  }
  if (window().failed) return;
  Trigger* slot = reinterpret_cast<Trigger*>(fifo.slots) + turn % fifo.size;
  store_relaxed_sys(&slot->src, src);
  store_relaxed_sys(&slot->dst, dst);
  store_relaxed_sys(&slot->bytes, bytes);
  store_relaxed_sys(&slot->signal, signal);
  // order: publishes the request, and what the block wrote before its last sync; acquired by the proxy.
  store_release_sys(&slot->turn, turn + 1);
}

/// Called by: one thread. Waits until all requests up to the queue's head at the call are done.
DEV void await_proxy(const Launch& launch, uint32_t number) {
  const Fifo& fifo = reinterpret_cast<const Fifo*>(launch.fifos)[number];
  uint64_t head = load_relaxed_gpu(reinterpret_cast<const uint64_t*>(fifo.head));
  Patience patience;
  DEV_NO_UNROLL
  for (;;) {
    uint64_t seen = load_acquire_sys(reinterpret_cast<const uint64_t*>(fifo.handled));
    if (static_cast<int64_t>(seen - head) >= 0 || window().failed) return;
    if (patience.is_over(launch)) return give_up(launch, Awaiting{kProxy, number, 0, head, seen});
  }
}

/// Called by: all threads of the block, one for each pair of references; `first`: the first source.
DEV void port(const Launch& launch, const Instr& instr, uint64_t at, uint64_t len) {
  const uint32_t fifo = window().fifo;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < instr.dsts; i += dev_threads()) {
    uint32_t src = instr.operands + (instr.srcs == 1 ? 0 : i), dst = instr.operands + instr.srcs + i;
    DEV_NO_UNROLL
    for (uint64_t done = 0; done < len && !window().failed;) {
      Span from = span_at(launch, src, at + done, len - done);
      Span to = span_at(launch, dst, at + done, from.run);
      uint64_t both = from.len < to.len ? from.len : to.len;
      if (both > 0) {
        push_trigger(launch, fifo, reinterpret_cast<uint64_t>(from.at), reinterpret_cast<uint64_t>(to.at),
                     (space_of(launch, src) == kPackets ? 2 : 1) * both, 0);
      }
      if (to.len > both) {
        push_trigger(launch, fifo, 0, reinterpret_cast<uint64_t>(to.at + both), to.len - both, 0);
      }
      done += to.run;
    }
    if (instr.flags & kThenSignal) {
      push_trigger(launch, fifo, 0, 0, 0, id_at(launch, instr.first_id + i).counter);
    }
    if (instr.flags & kThenFlush) await_proxy(launch, fifo);
  }
}

}  // namespace mscclpp
