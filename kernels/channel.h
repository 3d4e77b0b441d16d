// Signals, semaphores, barriers and the FIFO to the host's proxy.
#pragma once
#include "wait.h"

namespace mscclpp {

/// Adds one to a counter. order: release publishes the writes of this thread, and, through a block sync, of its block; acquired by
/// `await_counter`. Relaxed publishes nothing: it allows the peer to write.
DEV void signal_counter(const LaunchParams& launch, const Id& id, bool relaxed) {
  uint64_t* counter = reinterpret_cast<uint64_t*>(id.counter);
  if (launch.system_scope) {
    if (relaxed) add_relaxed_sys(counter, 1);
    else add_release_sys(counter, 1);
  } else {
    if (relaxed) add_relaxed_gpu(counter, 1);
    else add_release_gpu(counter, 1);
  }
}

DEV uint64_t load_counter(const LaunchParams& launch, const uint64_t* counter) {
  return launch.system_scope ? load_acquire_sys(counter) : load_acquire_gpu(counter);
}

/// Called by: one thread. Waits until a counter reaches `expected`; the comparison survives wrap-around. A wait for
/// a relaxed signal acquires as well, since that costs nothing compared with the wait.
DEV void await_counter(const LaunchParams& launch, const uint64_t* counter, uint64_t expected, WaitKind kind,
                       uint32_t id) {
  PollTimeout timeout;
  DEV_NO_UNROLL
  for (;;) {
    uint64_t seen = load_counter(launch, counter);
    if (static_cast<int64_t>(seen - expected) >= 0 || cache().failed) return;
    if (timeout.is_expired(launch)) return abort_launch(launch, WaitInfo{kind, id, 0, expected, seen});
  }
}

/// Called by: one thread. Waits for the next signal on a channel.
DEV void await_signal(const LaunchParams& launch, const Id& id) {
  uint64_t expected = id.ordinal != 0
                          ? cache().sequence * id.per_launch + id.ordinal
                          : fetch_add_relaxed_gpu(reinterpret_cast<uint64_t*>(id.expected), 1) + 1;
  await_counter(launch, reinterpret_cast<const uint64_t*>(id.counter), expected, WaitKind::kSignal, id.number);
}

/// Called by: one thread. Waits for a unit and takes it.
DEV void acquire_semaphore(const LaunchParams& launch, Id id) {
  uint64_t* units = reinterpret_cast<uint64_t*>(id.counter);
  PollTimeout timeout;
  DEV_NO_UNROLL
  for (;;) {
    uint64_t seen = load_relaxed_gpu(units);
    if (static_cast<int64_t>(seen) > 0 && compare_swap_acquire_gpu(units, seen, seen - 1) == seen) return;
    if (cache().failed) return;
    if (static_cast<int64_t>(seen) <= 0 && timeout.is_expired(launch)) {
      return abort_launch(launch, WaitInfo{WaitKind::kSemaphore, id.number, 0, 1, seen});
    }
  }
}

/// Called by: all threads of the block. Syncs: block, at entry and at exit; in between, the blocks that participate.
DEV void barrier_wait(const LaunchParams& launch, const Id& id, uint32_t blocks) {
  dev_sync();
  // A block that has aborted does not arrive, because its work is not complete.
  if (dev_thread() == 0 && blocks > 1 && !cache().failed) {
    uint64_t* arrivals = reinterpret_cast<uint64_t*>(id.counter);
    // order: publishes the block's writes; acquired by the others' `await_counter`.
    uint64_t before = fetch_add_acq_rel_gpu(arrivals, 1);
    await_counter(launch, arrivals, before - before % blocks + blocks, WaitKind::kBarrier, id.number);
  }
  dev_sync();
}

/// Called by: one thread. Pushes a trigger to the proxy's FIFO; waits while it is full.
DEV void push_trigger(const LaunchParams& launch, uint32_t number, uint64_t src, uint64_t dst, uint64_t bytes,
                      uint64_t signal) {
  const Fifo& fifo = reinterpret_cast<const Fifo*>(launch.fifos)[number];
  uint64_t turn = fetch_add_relaxed_gpu(reinterpret_cast<uint64_t*>(fifo.head), 1);
  // The work of the slot's previous trigger must be complete.
  const uint64_t* handled = reinterpret_cast<const uint64_t*>(fifo.handled);
  PollTimeout timeout;
  DEV_NO_UNROLL
  while (!cache().failed && static_cast<int64_t>(turn - load_acquire_sys(handled)) >= static_cast<int64_t>(fifo.size)) {
    if (timeout.is_expired(launch)) {
      abort_launch(launch, WaitInfo{WaitKind::kProxy, number, 0, turn + 1 - fifo.size, load_acquire_sys(handled)});
    }
  }
  if (cache().failed) return;
  Trigger* slot = reinterpret_cast<Trigger*>(fifo.slots) + turn % fifo.size;
  store_relaxed_sys(&slot->src, src);
  store_relaxed_sys(&slot->dst, dst);
  store_relaxed_sys(&slot->bytes, bytes);
  store_relaxed_sys(&slot->signal, signal);
  // order: publishes the trigger, and what the block wrote before its last sync; acquired by the proxy.
  store_release_sys(&slot->turn, turn + 1);
}

/// Called by: one thread. Waits until the work of all triggers up to the FIFO's head at the call is complete.
DEV void await_proxy(const LaunchParams& launch, uint32_t number) {
  const Fifo& fifo = reinterpret_cast<const Fifo*>(launch.fifos)[number];
  uint64_t head = load_relaxed_gpu(reinterpret_cast<const uint64_t*>(fifo.head));
  PollTimeout timeout;
  DEV_NO_UNROLL
  for (;;) {
    uint64_t seen = load_acquire_sys(reinterpret_cast<const uint64_t*>(fifo.handled));
    if (static_cast<int64_t>(seen - head) >= 0 || cache().failed) return;
    if (timeout.is_expired(launch)) return abort_launch(launch, WaitInfo{WaitKind::kProxy, number, 0, head, seen});
  }
}

/// Called by: all threads of the block; one thread processes each pair of operands.
DEV void port(const LaunchParams& launch, const Instr& instr, uint64_t at, uint64_t len) {
  const uint32_t fifo = cache().own.fifo;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < instr.dsts; i += dev_threads()) {
    uint32_t src = instr.operands + (instr.srcs == 1 ? 0 : i), dst = instr.operands + instr.srcs + i;
    DEV_NO_UNROLL
    for (uint64_t done = 0; done < len && !cache().failed;) {
      Span from = span_at(launch, src, at + done, len - done);
      Span to = span_at(launch, dst, at + done, from.run);
      uint64_t both = from.len < to.len ? from.len : to.len;
      if (both > 0) {
        push_trigger(launch, fifo, reinterpret_cast<uint64_t>(from.at), reinterpret_cast<uint64_t>(to.at),
                     (space_of(launch, src) == Space::kPackets ? 2 : 1) * both, 0);
      }
      if (to.len > both) {
        push_trigger(launch, fifo, 0, reinterpret_cast<uint64_t>(to.at + both), to.len - both, 0);
      }
      done += to.run;
    }
    if (instr.flags & kFlagThenSignal) {
      push_trigger(launch, fifo, 0, 0, 0, id_at(launch, instr.first_id + i).counter);
    }
    if (instr.flags & kFlagThenFlush) await_proxy(launch, fifo);
  }
}

}  // namespace mscclpp
