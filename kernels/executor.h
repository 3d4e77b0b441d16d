// The interpreter: one block of threads runs the operations of one thread block of a plan.
//
// Operations stream through a window in shared memory, so there is no limit to their number. All threads of a block go
// through the operations by themselves; they meet at block syncs only (`Nop`, `Barrier`, the window's refill), as the plan
// says. What the host has checked (indexes, sizes, pairs) is not checked again.
#pragma once
#include "channel.h"
#include "switch.h"

namespace mscclpp {

/// A loop.
struct Loop {
  /// Behind its last operation.
  uint32_t end;
  uint32_t trips;
  uint64_t unit;
};

DEV const Instr* all_instrs(const Launch& launch) { return reinterpret_cast<const Instr*>(launch.instrs); }

/// Operation `number` of all, with the launch's reduction if that is to take the place of the operations' own.
DEV Instr instr_at(const Launch& launch, uint32_t number) {
  Instr instr = all_instrs(launch)[number];
  if (launch.reduce < 5) instr.reduce = static_cast<uint8_t>(launch.reduce);
  return instr;
}

/// Finds out whether all operands of an operation in the window are one run each, and where these end.
DEV void find_runs(const Instr& instr, Range& range) {
  const uint32_t first = instr.operands - window().first_place, count = instr.srcs + instr.dsts;
  range.whole = first + count <= kWindowPlaces;
  if (!range.whole) return;
  uint64_t least = range.start + range.len, most = 0;
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < count; ++i) {
    const Place& place = window().places[first + i];
    range.whole &= !(place.split | place.wraps);
    if (place.limit < least) least = place.limit;
    if (i >= instr.srcs && place.limit > most) most = place.limit;
  }
  if (most > range.start + range.len) most = range.start + range.len;
  // A destination that goes on where a source has ended gets zeros: that is not one run.
  range.whole &= most <= least;
  range.end = most < least ? most : least;
}

/// Iterations over `chunks` chunks in windows of `unit` bytes. The host refuses more than 32 bits hold.
DEV uint32_t trips_of(uint64_t stride, uint64_t chunks, uint64_t unit) {
  uint64_t bytes = stride * chunks;
  return static_cast<uint32_t>(bytes / unit + (bytes % unit != 0));
}

/// What a loop's header stands for: window per iteration as `start`, iterations as `len`.
DEV Range range_of_loop(const Launch& launch, const Instr& header) {
  const uint64_t unit = round_up(header.unit, launch.unit);
  return Range{unit, trips_of(launch.stride, header.count, unit), 0, 0, 0};
}

/// The loop whose header is operation `header`. Looked up each time: kept by every thread it would cost registers.
DEV Loop loop_at(const Launch& launch, uint32_t header) {
  const uint32_t in_window = header - window().first;
  const bool is_here = in_window < window().end - window().first;
  const Instr& instr = is_here ? window().instrs[in_window] : all_instrs(launch)[header];
  const Range range = is_here ? window().ranges[in_window] : range_of_loop(launch, instr);
  return Loop{header + 1 + instr.body, static_cast<uint32_t>(range.len), range.start};
}

/// Fills the window with the operations from the one that the threads are at on. Its operands and ids begin at these numbers.
/// Called by: all threads of the block. Syncs: block, at entry and at exit.
DEV void refill(const Launch& launch, uint32_t operand, uint32_t id) {
  dev_sync();
  const uint32_t first = pc();
  Window& w = window();
  const uint32_t t = dev_thread(), threads = dev_threads();
  const uint32_t left = w.instrs_end - first, count = left < kWindowInstrs ? left : kWindowInstrs;
  if (t == 0) {
    w.first = first;
    w.first_place = operand;
    w.first_id = id;
  }
  // All of these loads are in flight together: none needs another's result.
  DEV_NO_UNROLL
  for (uint32_t i = t; i < count; i += threads) w.instrs[i] = instr_at(launch, first + i);
  DEV_NO_UNROLL
  for (uint32_t i = t; i < kWindowPlaces && operand + i < w.operands_end; i += threads) {
    Place place = place_of(launch, reinterpret_cast<const Operand*>(launch.operands)[operand + i], w.sequence);
    w.places[i] = place;
    w.heads[i] = place.at;
  }
  DEV_NO_UNROLL
  for (uint32_t i = t; i < kWindowIds && id + i < w.ids_end; i += threads) {
    w.ids[i] = reinterpret_cast<const Id*>(launch.ids)[id + i];
  }
  dev_sync();
  // As many operations as have all of their operands and ids here; the first one in any case.
  uint32_t fit = 0;
  DEV_NO_UNROLL
  for (uint32_t from = 0; from < count; from += threads) {
    const uint32_t i = from + t;
    bool fits = false;
    if (i < count) {
      const Instr& instr = w.instrs[i];
      fits = i == 0 || (instr.operands + instr.srcs + instr.dsts - operand <= kWindowPlaces &&
                        instr.first_id + instr.ids - id <= kWindowIds);
      Range range = {0, 0, 0, 0, 0};
      if (instr.action == kLoop) {
        range = range_of_loop(launch, instr);
      } else {
        slice_of(launch.unit, instr.size * launch.stride, instr.slice_index, instr.slice_of, range.start, range.len);
        find_runs(instr, range);
      }
      w.ranges[i] = range;
    }
    fit += dev_sync_count(fits);
  }
  if (t == 0) w.end = first + fit;
  dev_sync();
}

template <typename Arith, bool kSum>
DEV void reduce_as(const Launch& launch, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  if (instr.flags & kUsesPackets) return reduce_packets<Arith, kSum>(launch, instr, at, len);
  reduce_runs<Arith, kSum>(Runs{instr, instr.operands - window().first_place}, at, len_in(range, at, len));
}

template <typename Arith>
DEV void reduce(const Launch& launch, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  if (!(instr.flags & kUsesPackets) && !range.whole) return reduce_pieces<Arith>(launch, instr, at, len);
  const Reduction op = reduction_of(instr);
  // Averages add up; they are divided at the end.
  if (op == Reduction::Sum || op == Reduction::Avg) reduce_as<Arith, true>(launch, instr, range, at, len);
  else reduce_as<Arith, false>(launch, instr, range, at, len);
}

/// Operations on channels and semaphores: one thread for each of the `ids` from number `first` on.
DEV void synchronise(const Launch& launch, uint32_t action, uint32_t flags, uint32_t first, uint32_t ids) {
  // Whoever waits for this block's word must not take it for done.
  if (window().failed) return;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < ids; i += dev_threads()) {
    const Id id = id_at(launch, first + i);
    switch (action) {
      case kPutSignal: signal_counter(launch, id, flags & kRelaxed); break;
      case kPortSignal: push_trigger(launch, window().fifo, 0, 0, 0, id.counter); break;
      case kWait: await_signal(launch, id); break;
      case kFlush: await_proxy(launch, window().fifo); break;
      case kAcquire: acquire_semaphore(launch, id); break;
      default: add_release_gpu(reinterpret_cast<uint64_t*>(id.counter), 1); break;
    }
  }
}

/// Runs an operation that is no loop. `at`, `len`: bytes of its references, of which `range` is all.
template <typename Arith>
DEV void execute(const Launch& launch, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  const uint32_t src = instr.operands, dst = instr.operands + instr.srcs;
  switch (instr.action) {
    case kNop: return dev_sync();
    case kCopy: return copy(launch, src, dst, instr.srcs, at, len);
    case kPack:
      DEV_NO_UNROLL
      for (uint32_t i = 0; i < instr.srcs; ++i) pack(launch, src + i, dst + i, at, len);
      return;
    case kUnpack:
      DEV_NO_UNROLL
      for (uint32_t i = 0; i < instr.srcs; ++i) unpack(launch, src + i, dst + i, at, len);
      return;
    case kForward: return forward(launch, src, dst, instr.dsts, at, len);
    case kReduce: return reduce<Arith>(launch, instr, range, at, len);
    case kPortForward:
      await_packets(launch, src, at, len);
      dev_sync();
      return port(launch, instr, at, len);
    case kPort: return port(launch, instr, at, len);
    case kSwitch: return reduce_by_switch<Arith>(launch, instr, range, at, len);
    case kSwitchForward: return forward_by_switch(launch, instr, at, len);
    case kMeet: return meet(launch, id_at(launch, instr.first_id), instr.count);
    default: return synchronise(launch, instr.action, instr.flags, instr.first_id, instr.ids);
  }
}

/// A range as seen by an iteration: its window of `unit` bytes, or nothing where the range ends before.
DEV void narrow(uint32_t iteration, uint64_t unit, uint64_t& at, uint64_t& len) {
  uint64_t skip = iteration * unit;
  skip = skip < len ? skip : len;
  at += skip;
  len = len - skip < unit ? len - skip : unit;
}

/// What an iteration has to do of an operation in the window that moves or combines data.
DEV void range_in_window(const Launch& launch, uint32_t number, uint64_t& at, uint64_t& len) {
  const Range& range = window().ranges[number];
  at = range.start;
  len = range.len;
  const uint32_t around = window().instrs[number].around;
  if (around != 0) narrow(iteration(), loop_at(launch, around - 1).unit, at, len);
}

/// To the next operation, which is the first one of the loop if the last one of it is over and iterations are left.
DEV void step(const Launch& launch) {
  const uint32_t around = window().instrs[pc() - window().first].around, next = pc() + 1;
  pc() = next;
  if (around == 0) return;
  const Loop loop = loop_at(launch, around - 1);
  if (next != loop.end) return;
  const uint32_t then = iteration() + 1;
  iteration() = then < loop.trips ? then : 0;
  if (then < loop.trips) pc() = around;
}

/// Called by: all threads of the block. To the first operation of the loop whose header they are at, or behind the loop if
/// there is nothing in it. Syncs: block, where the body does not lie in the window.
DEV void enter_loop(const Launch& launch, const Instr& header) {
  const uint32_t end = pc() + 1 + header.body;
  if (header.body == 0 || loop_at(launch, pc()).trips == 0) {
    pc() = end;
    return;
  }
  // So that as much as fits of the body is in one window, behind its header.
  if (end > window().end) refill(launch, header.operands, header.first_id);
  pc() += 1;
}

/// Called by: all threads of the block. Runs the operation that they are at, which is in the window.
template <typename Arith>
DEV void execute_next(const Launch& launch) {
  const uint32_t number = pc() - window().first;
  const Instr& instr = window().instrs[number];
  if (instr.action == kLoop) return enter_loop(launch, instr);
  uint64_t at, len;
  range_in_window(launch, number, at, len);
  execute<Arith>(launch, instr, window().ranges[number], at, len);
  step(launch);
}

/// Called by: all threads of the block, which are at its first operation.
template <typename Arith>
DEV void run_block(const Launch& launch) {
  DEV_NO_UNROLL
  while (pc() < window().instrs_end) {
    if (pc() - window().first >= window().end - window().first) {
      const Instr& next = all_instrs(launch)[pc()];
      refill(launch, next.operands, next.first_id);
      if (window().failed) return;
    }
    execute_next<Arith>(launch);
  }
}

/// Called by: all threads of the block, at the end of a launch. The last block makes ready for the next launch.
DEV void finish_launch(const Launch& launch) {
  dev_sync();
  if (dev_thread() != 0) return;
  State* state = reinterpret_cast<State*>(launch.state);
  if (fetch_add_acq_rel_gpu(&state->finished, 1) + 1 == dev_blocks()) {
    store_relaxed_gpu(&state->finished, uint64_t{0});
    store_relaxed_gpu(&state->launches, window().sequence + 1);
  }
}

/// What packets of a launch carry: 1, 2, …, and after the largest flag again 1.
DEV uint32_t flag_of(uint64_t sequence) { return static_cast<uint32_t>(sequence % 0xffffffffull) + 1; }

template <typename Arith>
DEV void execute_launch(const Launch& launch) {
  const uint32_t number = launch.first_agent + dev_block();
  const Agent* agent = reinterpret_cast<const Agent*>(launch.agents) + number;
  const uint64_t sequence = load_relaxed_gpu(&reinterpret_cast<State*>(launch.state)->launches);
  if (dev_thread() == 0) {
    Window& w = window();
    w.sequence = sequence;
    w.flag = flag_of(sequence);
    w.agent = number;
    w.fifo = agent->fifo;
    w.failed = 0;
    w.instrs_end = agent->end;
    // The entry behind the last one says where the tables end.
    w.operands_end = agent[1].operands;
    w.ids_end = agent[1].ids;
  }
  pc() = agent->first;
  iteration() = 0;
  refill(launch, agent->operands, agent->ids);
  run_block<Arith>(launch);
  finish_launch(launch);
}

}  // namespace mscclpp
