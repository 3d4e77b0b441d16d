// The interpreter: one block of threads runs the operations of one thread block of a plan.
//
// Instructions are loaded into a cache in shared memory, so their number is unlimited. Each thread of a block executes all of the
// instructions; threads synchronize only at the block syncs of the plan (`kNop`, `kBarrier`) and when the cache is loaded. What the
// host has checked (indexes, sizes, pairs) is not checked again.
#pragma once
#include "clear.h"
#include "channel.h"
#include "counts.h"
#include "load_cache.h"
#include "row_norm.h"
#include "switch.h"

namespace mscclpp {

/// A loop.
struct Loop {
  /// The instruction after its last one.
  uint32_t end;
  uint32_t trips;
  uint64_t unit;
};

DEV const Instr* all_instrs(const LaunchParams& launch) { return reinterpret_cast<const Instr*>(launch.instrs); }

/// Finds out whether each operand of an instruction in the cache is one run, and where these end. `operand`: the first in the cache.
/// The host does the same in mscclpp-exec/src/cuda/ranges.rs.
DEV void find_runs(const LaunchParams& launch, const Instr& instr, uint32_t operand, Range& range) {
  const uint32_t first = instr.operands - operand, count = instr.srcs + instr.dsts;
  range.whole = first + count <= kCachedOperands;
  if (!range.whole) return;
  uint64_t min_limit = range.start + range.len, max_limit = 0, offsets = launch.low_bits;
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < count; ++i) {
    const Operand& of = cache().table_operands[first + i];
    const Extent extent = extent_of(launch, of);
    range.whole &= !(extent.split | extent.wraps);
    offsets |= (of.space == Space::kPackets ? 2 : 1) * extent.first;
    if (extent.limit < min_limit) min_limit = extent.limit;
    if (i >= instr.srcs && extent.limit > max_limit) max_limit = extent.limit;
  }
  if (max_limit > range.start + range.len) max_limit = range.start + range.len;
  // A destination that is longer than a source is filled with zeros, so it is not one run.
  range.whole &= max_limit <= min_limit;
  range.end = max_limit < min_limit ? max_limit : min_limit;
  range.low_bits = static_cast<uint32_t>(offsets) & 15;
}

/// Trip count of a loop over `chunks` chunks in windows of `unit` bytes. The host rejects more than 32 bits hold.
DEV uint32_t trips_of(uint64_t stride, uint64_t chunks, uint64_t unit) {
  uint64_t bytes = stride * chunks;
  return static_cast<uint32_t>(bytes / unit + (bytes % unit != 0));
}

/// The range of a loop's header: bytes of a window as `start`, trip count as `len`.
DEV Range range_of_loop(const LaunchParams& launch, const Instr& header) {
  const uint64_t unit = round_up(header.unit, launch.unit);
  return Range{unit, trips_of(launch.stride, header.count, unit), 0, 0, 0};
}

/// The loop whose header is instruction `header`. Read each time, because keeping it would cost every thread registers.
DEV Loop loop_at(const LaunchParams& launch, uint32_t header) {
  const uint32_t slot = header - cache().first;
  const bool is_cached = slot < cache().count;
  const Instr& instr = is_cached ? cache().instrs[slot] : all_instrs(launch)[header];
  const Range range = is_cached ? cache().ranges[slot] : range_of_loop(launch, instr);
  return Loop{header + 1 + instr.body, static_cast<uint32_t>(range.len), range.start};
}

/// The range of an instruction in the cache. `operand`: the first operand in the cache.
DEV Range range_of(const LaunchParams& launch, const Instr& instr, uint32_t operand) {
  if (instr.opcode == Opcode::kLoop) return range_of_loop(launch, instr);
  Range range = {0, 0, 0, 0, 0};
  slice_of(launch.unit, instr.size * launch.stride, instr.slice_index, instr.slice_of, range.start, range.len);
  find_runs(launch, instr, operand, range);
  return range;
}

#ifdef DEV_SIM
/// Whether two ranges are equal, as far as they are used.
DEV bool are_equal(const Range& a, const Range& b) {
  if (a.start != b.start || a.len != b.len || a.whole != b.whole) return false;
  return !a.whole || (a.end == b.end && a.low_bits == b.low_bits);
}
#endif

/// Computes the ranges of the instructions in the cache. `operand`: the first operand in the cache.
DEV_CALL void find_ranges(const LaunchParams& launch, uint32_t operand) {
  InstrCache& c = cache();
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < c.instrs[0].cached; i += dev_threads()) c.ranges[i] = range_of(launch, c.instrs[i], operand);
}

/// Takes the ranges of a block's first instructions from the kernel parameters: of at least as many as the cache holds, which the block's
/// threads need not know yet.
DEV void take_ranges(const LaunchParams& launch) {
  const uint32_t row = launch.rows[dev_block()], count = at_most(kParamRanges - row, launch.record_instrs);
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < count; i += dev_threads()) {
    const ParamRange from = launch.ranges[row + i];
    cache().ranges[i] = Range{from.start, from.len, from.end, from.whole, from.low_bits | static_cast<uint32_t>(launch.low_bits)};
  }
}

/// Every simulated launch compares the host's arithmetic with the device's.
DEV void check_ranges(const LaunchParams& launch) {
#ifdef DEV_SIM
  InstrCache& c = cache();
  for (uint32_t i = dev_thread(); i < c.count; i += dev_threads()) {
    DEV_ASSERT(are_equal(c.ranges[i], range_of(launch, c.instrs[i], c.own.operands)));
  }
#endif
}

/// Replaces the reductions of the instructions in the cache, if the launch has its own.
DEV void replace_reductions(const LaunchParams& launch) {
  if (launch.reduce >= kPlanReductions) return;
  InstrCache& c = cache();
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < c.instrs[0].cached; i += dev_threads()) c.instrs[i].reduce = static_cast<Reduction>(launch.reduce);
}

/// Loads the cache with the instructions from the threads' current one on, whose operands and ids begin at these numbers.
/// Called by: all threads of the block. Syncs: block, at entry and at exit.
DEV_CALL void load_instrs(const LaunchParams& launch, uint32_t operand, uint32_t id) {
  dev_sync();
  InstrCache& c = cache();
  const uint32_t first = pc(), entry = vectors_of<Block>(1);
  const uint32_t instrs = vectors_of<Instr>(at_most(c.own.end - first, kCachedInstrs));
  const uint32_t operands = vectors_of<Operand>(at_most(c.own.operands_end - operand, kCachedOperands));
  const uint32_t ids = vectors_of<Id>(at_most(c.own.ids_end - id, kCachedIds));
  const auto from = [&](uint32_t v) {
    if (v < instrs) return vector_at(launch.instrs, vectors_of<Instr>(1) * first + v);
    if (v < instrs + operands) return vector_at(launch.operands, operand + v - instrs);
    return vector_at(launch.ids, vectors_of<Id>(1) * id + v - instrs - operands);
  };
  copy_tables<2>(entry, instrs, operands, ids, from, [] {});
  dev_sync();
  if (dev_thread() == 0) {
    c.first = first;
    c.count = c.instrs[0].cached;
    c.first_operand = operand;
    c.first_id = id;
  }
  resolve_operands(launch, operands);
  find_ranges(launch, operand);
  replace_reductions(launch);
  dev_sync();
}

/// Loads the cache with the record of a block. Called by: all threads of the block, first. Syncs: block, at exit.
DEV void begin_block(const LaunchParams& launch) {
  load_record<true>(launch, launch.first_block + dev_block());
  if (launch.has_ranges != 0) take_ranges(launch);
  dev_sync();
  pc() = cache().own.first;
  if (launch.has_ranges != 0) return check_ranges(launch);
  find_ranges(launch, cache().own.operands);
  dev_sync();
}

/// Whether the operands, of which some are packets, are one run each, no run ends within these bytes, and all consist of whole packets.
/// A call, because what follows needs the registers.
DEV_CALL bool are_packet_runs(Runs runs, uint64_t at, uint64_t len) {
  const Range& range = cache().ranges[runs.number];
  return range.whole && at + len <= range.end && len % 8 == 0 && are_aligned(range, at, 8);
}

template <typename Arith>
DEV void reduce(const LaunchParams& launch, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  if (!(instr.flags & kFlagUsesPackets)) return reduce_plain<Arith>(launch, instr, range, at, len);
  const Runs runs = runs_of(instr);
  // A single source is not changed, which an accumulator of a wider type would do.
  const bool is_special = instr.srcs > 32 || (instr.srcs == 1 && sizeof(typename Arith::A) > sizeof(typename Arith::T));
  if (is_special || !are_packet_runs(runs, at, len)) return reduce_packet_spans<Arith>(launch, runs, at, len);
  // Averages are sums that are divided after the last operation.
  if (instr.reduce == Reduction::kSum || instr.reduce == Reduction::kAvg) reduce_packet_runs<Arith, true>(launch, runs, instr.count, at, len);
  else reduce_packet_runs<Arith, false>(launch, runs, instr.count, at, len);
}

/// Operations on channels and semaphores: one thread for each of the `ids` from number `first` on.
DEV void synchronize(const LaunchParams& launch, Opcode opcode, uint32_t flags, uint32_t first, uint32_t ids) {
  // A block that has aborted does not signal, because its work is not complete.
  if (cache().failed) return;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < ids; i += dev_threads()) {
    const Id id = id_at(launch, first + i);
    switch (opcode) {
      case Opcode::kSignal: signal_counter(launch, id, flags & kFlagRelaxed); break;
      case Opcode::kPortSignal: push_trigger(launch, cache().own.fifo, 0, 0, 0, id.counter); break;
      case Opcode::kWait: await_signal(launch, id); break;
      case Opcode::kFlush: await_proxy(launch, cache().own.fifo); break;
      case Opcode::kAcquire: acquire_semaphore(launch, id); break;
      default: add_release_gpu(reinterpret_cast<uint64_t*>(id.counter), 1); break;
    }
  }
}

/// Executes an instruction other than a loop. `at`, `len`: bytes of its operands, a part of `range`.
template <typename Arith>
DEV void execute(const LaunchParams& launch, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  const uint32_t src = instr.operands, dst = instr.operands + instr.srcs;
  switch (instr.opcode) {
    case Opcode::kNop: return dev_sync();
    case Opcode::kCopy:
      if (range.whole) return copy_runs(runs_of(instr), at, len_in(range, at, len));
      return copy_spans(launch, src, instr.srcs, at, len);
    case Opcode::kPack:
      if (are_packet_runs(runs_of(instr), at, len)) return pack_runs(runs_of(instr), at, len);
      return pack_spans(launch, src, instr.srcs, instr.dsts, at, len);
    case Opcode::kUnpack:
      if (are_packet_runs(runs_of(instr), at, len)) return unpack_runs(launch, runs_of(instr), at, len);
      return unpack_spans(launch, src, instr.srcs, at, len);
    case Opcode::kForward: return forward(launch, src, dst, instr.dsts, at, len);
    case Opcode::kReduce:
    case Opcode::kSwitch: return reduce<Arith>(launch, instr, range, at, len);
    case Opcode::kPortForward:
      await_packets(launch, src, at, len);
      dev_sync();
      return port(launch, instr, at, len);
    case Opcode::kPort: return port(launch, instr, at, len);
    case Opcode::kSwitchForward: return forward_by_switch(launch, instr, at, len);
    case Opcode::kBarrier: return barrier_wait(launch, id_at(launch, instr.first_id), instr.count);
    default: return synchronize(launch, instr.opcode, instr.flags, instr.first_id, instr.ids);
  }
}

/// Clips a range to the window of an iteration, `unit` bytes; the result is empty if the range ends before the window.
DEV void clip_to_iteration(uint32_t iteration, uint64_t unit, uint64_t& at, uint64_t& len) {
  uint64_t skip = iteration * unit;
  skip = skip < len ? skip : len;
  at += skip;
  len = len - skip < unit ? len - skip : unit;
}

/// The bytes that the current iteration processes, of an instruction in the cache that moves or combines data.
DEV void range_of_iteration(const LaunchParams& launch, uint32_t number, uint64_t& at, uint64_t& len) {
  const Range& range = cache().ranges[number];
  at = range.start;
  len = range.len;
  const uint32_t loop_header = cache().instrs[number].loop_header;
  if (loop_header != 0) clip_to_iteration(iteration(), loop_at(launch, loop_header - 1).unit, at, len);
}

/// Advances to the next instruction: after the last one of a loop, to its first one if iterations are left.
DEV void advance_pc(const LaunchParams& launch) {
  const uint32_t loop_header = cache().instrs[pc() - cache().first].loop_header, next = pc() + 1;
  pc() = next;
  if (loop_header == 0) return;
  const Loop loop = loop_at(launch, loop_header - 1);
  if (next != loop.end) return;
  const uint32_t then = iteration() + 1;
  iteration() = then < loop.trips ? then : 0;
  if (then < loop.trips) pc() = loop_header;
}

/// Called by: all threads of the block. Advances from a loop's header to its first instruction, or past the loop if it has no
/// instructions or iterations. Syncs: block, if the body is not in the cache.
DEV void enter_loop(const LaunchParams& launch, const Instr& header) {
  const uint32_t end = pc() + 1 + header.body;
  if (header.body == 0 || loop_at(launch, pc()).trips == 0) {
    pc() = end;
    return;
  }
  // So that the cache holds the header and as much of the body as fits.
  if (end - cache().first > cache().count) load_instrs(launch, header.operands, header.first_id);
  pc() += 1;
}

/// Executes the current instruction, which depends on what ranks pass to the launch, and advances to the next one. It is read from the
/// plan's table: values that the interpreter kept for this call would take registers of all others.
template <typename Arith>
DEV_CALL void execute_passed(const LaunchParams& launch) {
  using T = typename Arith::T;
  const Instr& instr = all_instrs(launch)[pc()];
  if (instr.opcode == Opcode::kExchangeCounts) {
    exchange_counts(launch, sizeof(T), instr.flags & kFlagPacked);
  } else if (instr.opcode == Opcode::kCopyCounted) {
    copy_counted(launch, instr, sizeof(T));
  } else if constexpr (kHasRows<T>) {
    uint64_t at, len;
    range_of_iteration(launch, pc() - cache().first, at, len);
    begin_rows(launch, instr.operands, instr.operands + 1, at, len);
    norm_rows(launch, [](uint32_t turn) { return SeparatePasses<T>{turn}; });
  }
  advance_pc(launch);
}

/// Called by: all threads of the block. Executes their current instruction, which is in the cache.
template <typename Arith>
DEV void execute_next(const LaunchParams& launch) {
  const uint32_t number = pc() - cache().first;
  const Instr& instr = cache().instrs[number];
  if (instr.opcode == Opcode::kLoop) return enter_loop(launch, instr);
  if (instr.opcode >= Opcode::kExchangeCounts) return execute_passed<Arith>(launch);
  uint64_t at, len;
  range_of_iteration(launch, number, at, len);
  execute<Arith>(launch, instr, cache().ranges[number], at, len);
  advance_pc(launch);
}

/// Called by: all threads of the block, which are at its first instruction.
template <typename Arith>
DEV void run_block(const LaunchParams& launch) {
  DEV_NO_UNROLL
  while (pc() < cache().own.end) {
    if (pc() - cache().first >= cache().count) {
      const Instr& next = all_instrs(launch)[pc()];
      load_instrs(launch, next.operands, next.first_id);
      if (cache().failed) return;
    }
    execute_next<Arith>(launch);
  }
}

/// Called by: all threads of the block, at the end of a launch. Prepares the block's state for the next one, which the end of the
/// kernel publishes.
DEV void finish_launch(const LaunchParams& launch) {
  if (cache().sequence % kClearInterval == kClearInterval - 1) clear_old_packets(launch);
  if (dev_thread() == 0) store_relaxed_gpu(reinterpret_cast<uint64_t*>(launch.launches) + cache().block, cache().sequence + 1);
}

template <typename Arith>
DEV void execute_launch(const LaunchParams& launch) {
  begin_block(launch);
  run_block<Arith>(launch);
  finish_launch(launch);
}

}  // namespace mscclpp
