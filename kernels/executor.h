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

/// Fills the window with the operations from `pc` on, whose operands and ids begin at these numbers.
/// Called by: all threads of the block. Syncs: block, at entry and at exit.
DEV void refill(const Launch& launch, uint32_t pc, uint32_t operand, uint32_t id) {
  dev_sync();
  Window& w = window();
  const uint32_t t = dev_thread(), threads = dev_threads();
  const uint32_t left = w.instrs_end - pc, count = left < kWindowInstrs ? left : kWindowInstrs;
  if (t == 0) {
    w.first = pc;
    w.first_place = operand;
    w.first_id = id;
  }
  // All of these loads are in flight together: none needs another's result.
  DEV_NO_UNROLL
  for (uint32_t i = t; i < count; i += threads) w.instrs[i] = all_instrs(launch)[pc + i];
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
  if (t == 0) w.end = pc + fit;
  dev_sync();
}

template <typename Arith, bool kSum>
DEV void reduce_as(const Launch& launch, uint32_t pc, const Instr& instr, const Range& range, Reduction op,
                   uint64_t at, uint64_t len) {
  if (instr.flags & kUsesPackets) return reduce_packets<Arith, kSum>(launch, pc, instr, op, at, len);
  if (at >= range.end) return;
  if (len > range.end - at) len = range.end - at;
  reduce_runs<Arith, kSum>(Runs{instr.operands - window().first_place, instr.srcs, instr.dsts, op}, at, len);
}

template <typename Arith>
DEV void reduce(const Launch& launch, uint32_t pc, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  const Reduction op = reduction_of(launch, instr);
  if (!(instr.flags & kUsesPackets) && !range.whole) {
    return reduce_pieces<Arith>(launch, Operands{instr.operands, instr.srcs, instr.dsts, op}, at, len);
  }
  // Averages add up; they are divided at the end.
  if (op == Reduction::Sum || op == Reduction::Avg) {
    reduce_as<Arith, true>(launch, pc, instr, range, op, at, len);
  } else {
    reduce_as<Arith, false>(launch, pc, instr, range, op, at, len);
  }
}

/// Operations that move or combine data, on `len` bytes from `at` on.
template <typename Arith>
DEV void execute_data(const Launch& launch, uint32_t pc, const Instr& instr, const Range& range, uint64_t at,
                      uint64_t len) {
  const uint32_t src = instr.operands, dst = instr.operands + instr.srcs;
  switch (instr.action) {
    case kReduce: return reduce<Arith>(launch, pc, instr, range, at, len);
    case kForward: return forward(launch, pc, src, dst, instr.dsts, at, len);
    case kPortForward:
      await_packets(launch, pc, src, at, len);
      dev_sync();
      return port(launch, pc, instr, at, len);
    case kPort: return port(launch, pc, instr, at, len);
    case kCopy:
      DEV_NO_UNROLL
      for (uint32_t i = 0; i < instr.srcs; ++i) copy(launch, src + i, dst + i, at, len);
      return;
    case kPack:
      DEV_NO_UNROLL
      for (uint32_t i = 0; i < instr.srcs; ++i) pack(launch, src + i, dst + i, at, len);
      return;
    default:
      DEV_NO_UNROLL
      for (uint32_t i = 0; i < instr.srcs; ++i) unpack(launch, pc, src + i, dst + i, at, len);
      return;
  }
}

/// Operations on switch channels that may have multicast addresses.
template <typename Arith>
DEV void execute_switch(const Launch& launch, uint32_t pc, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  if (instr.action == kSwitch) reduce_by_switch<Arith>(launch, instr, range, at, len);
  else forward_by_switch(launch, pc, instr, at, len);
}

/// Operations on channels and semaphores: one thread for each of the `ids` from number `first` on.
DEV void synchronise(const Launch& launch, uint32_t pc, uint32_t action, uint32_t flags, uint32_t first, uint32_t ids) {
  // Whoever waits for this block's word must not take it for done.
  if (window().failed) return;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < ids; i += dev_threads()) {
    const Id id = id_at(launch, first + i);
    switch (action) {
      case kPutSignal: signal_counter(launch, id, flags & kRelaxed); break;
      case kPortSignal: push_trigger(launch, pc, window().fifo, 0, 0, 0, id.counter); break;
      case kWait: await_signal(launch, pc, id); break;
      case kFlush: await_proxy(launch, pc, window().fifo); break;
      case kAcquire: acquire_semaphore(launch, pc, id); break;
      default: add_release_gpu(reinterpret_cast<uint64_t*>(id.counter), 1); break;
    }
  }
}

/// Operations on channels, semaphores and barriers.
DEV void execute_sync(const Launch& launch, uint32_t pc, const Instr& instr) {
  if (instr.action == kMeet) return meet(launch, pc, id_at(launch, instr.first_id), instr.count);
  synchronise(launch, pc, instr.action, instr.flags, instr.first_id, instr.ids);
}

/// A range as seen by an iteration: its window of `unit` bytes, or nothing where the range ends before.
DEV void narrow(uint32_t iteration, uint64_t unit, uint64_t& at, uint64_t& len) {
  uint64_t skip = iteration * unit;
  skip = skip < len ? skip : len;
  at += skip;
  len = len - skip < unit ? len - skip : unit;
}

/// What an iteration has to do of an operation in the window that moves or combines data.
DEV void range_in_window(const Launch& launch, uint32_t pc, uint64_t& at, uint64_t& len) {
  const Range& range = window().ranges[pc - window().first];
  at = range.start;
  len = range.len;
  const uint32_t around = window().instrs[pc - window().first].around;
  if (around != 0) narrow(iteration(), loop_at(launch, around - 1).unit, at, len);
}

/// The operation behind `pc`, or the first one of the loop that `pc` ends.
DEV uint32_t step(const Launch& launch, uint32_t pc) {
  const uint32_t around = window().instrs[pc - window().first].around;
  pc += 1;
  if (around == 0) return pc;
  const Loop loop = loop_at(launch, around - 1);
  if (pc != loop.end) return pc;
  const uint32_t next = iteration() + 1;
  iteration() = next < loop.trips ? next : 0;
  return next < loop.trips ? around : pc;
}

/// Runs an operation on a switch channel. Returns: the next one. By itself, and called from outside of the loop over all others, so that
/// these have all registers.
template <typename Arith>
DEV_CALL uint32_t switch_in_window(const Launch& launch, uint32_t pc) {
  uint64_t at, len;
  range_in_window(launch, pc, at, len);
  const uint32_t number = pc - window().first;
  execute_switch<Arith>(launch, pc, window().instrs[number], window().ranges[number], at, len);
  return step(launch, pc);
}

/// Called by: all threads of the block. Returns: the first operation of the loop whose header is at `pc`, or the one behind the
/// loop if there is nothing in it. Syncs: block, where the body does not lie in the window.
DEV uint32_t enter_loop(const Launch& launch, uint32_t pc, const Instr& header) {
  const uint32_t end = pc + 1 + header.body;
  if (header.body == 0 || loop_at(launch, pc).trips == 0) return end;
  // So that as much as fits of the body is in one window, behind its header.
  if (end > window().end) refill(launch, pc, header.operands, header.first_id);
  return pc + 1;
}

/// Called by: all threads of the block. Returns: the next operation on a switch channel, or where the block ends.
template <typename Arith>
DEV uint32_t run_until_switch(const Launch& launch, uint32_t pc) {
  DEV_NO_UNROLL
  while (pc < window().instrs_end) {
    if (pc - window().first >= window().end - window().first) {
      const Instr& next = all_instrs(launch)[pc];
      refill(launch, pc, next.operands, next.first_id);
      if (window().failed) return window().instrs_end;
    }
    const Instr& instr = window().instrs[pc - window().first];
    if (instr.action == kLoop) {
      pc = enter_loop(launch, pc, instr);
      continue;
    }
    if (instr.action == kNop) {
      dev_sync();
    } else if (instr.action >= kPutSignal) {
      execute_sync(launch, pc, instr);
    } else if (instr.action >= kSwitch) {
      return pc;
    } else {
      uint64_t at, len;
      range_in_window(launch, pc, at, len);
      execute_data<Arith>(launch, pc, instr, window().ranges[pc - window().first], at, len);
    }
    pc = step(launch, pc);
  }
  return pc;
}

template <typename Arith>
DEV void run_block(const Launch& launch, uint32_t pc) {
  iteration() = 0;
  DEV_NO_UNROLL
  while (true) {
    pc = run_until_switch<Arith>(launch, pc);
    if (pc >= window().instrs_end) return;
    pc = switch_in_window<Arith>(launch, pc);
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
  refill(launch, agent->first, agent->operands, agent->ids);
  run_block<Arith>(launch, agent->first);
  finish_launch(launch);
}

}  // namespace mscclpp
