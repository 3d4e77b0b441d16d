// Switch channels through multicast objects (`multicast.h`). Without a multicast object, and for reductions without an instruction,
// the members' memories are read and written one by one (`reduce.h`, `copy.h`), as on every device before compute capability 9.0.
//
// The results of integers do not depend on the order, so switches compute their sums, minima and maxima. Of floats the order of sums is
// unspecified, and so are minima and maxima of NaN and of zeros that differ in their sign: switches reduce them only if the host allows it.
// There are no instructions for minima and maxima of f32 and f64.
#pragma once
#include "spans.h"

namespace mscclpp {

/// Whether a switch may combine elements: integers always, floats if the launch allows it. A switch does not sum floats whose accumulator
/// type is wider than the switch's.
template <typename Arith>
DEV bool switch_combines(const LaunchParams& launch, Reduction op) {
  using T = typename Arith::T;
  using A = typename Arith::A;
  using Switch = OnSwitch<T>;
  if constexpr (!Switch::kAdds) return false;
  if constexpr (Switch::kIsExact) return op != Reduction::kProd;
  if (launch.floats_by_switch == 0) return false;
  if (op == Reduction::kSum || op == Reduction::kAvg) return sizeof(A) == sizeof(T) || (sizeof(T) == 2 && sizeof(A) == 4);
  return Switch::kCompares && op != Reduction::kProd;
}

/// The multicast address of an operand that begins at an address; null if there is none. `group`: its group in the instruction.
DEV char* multicast_address(const LaunchParams& launch, uint32_t group, char* at, Space space) {
  if (group == 0 || !MSCCLPP_HAS_MULTICAST) return nullptr;
  const uint32_t number = 2 * (group - 1) + static_cast<uint32_t>(space) % 2;
  uint64_t distance;
  // No pointer to either, which would keep the address of the parameters in registers.
  if (space <= Space::kOutput) distance = launch.multicast[number];
  else distance = reinterpret_cast<const uint64_t*>(launch.scratch)[2 * launch.num_ranks + number];
  return distance == 0 ? nullptr : at + distance;
}

/// Whole vectors that a switch combines: those of this thread from the one at byte `i` up to byte `end`. Returns: the byte after these
/// vectors.
template <typename Switch, Reduction kOp, typename Store>
DEV uint64_t combine_by_switch(const char* from_all, uint64_t i, uint64_t end, const Store& store) {
  const uint64_t step = 16 * dev_threads();
  DEV_NO_UNROLL
  for (; i + (kUnroll - 1) * step + 16 <= end; i += kUnroll * step) {
    Vec16 data[kUnroll];
#pragma unroll
    for (uint32_t v = 0; v < kUnroll; ++v) data[v] = Switch::template load<kOp>(from_all + i + v * step);
#pragma unroll
    for (uint32_t v = 0; v < kUnroll; ++v) store(i + v * step, data[v]);
  }
  DEV_NO_UNROLL
  for (; i + 16 <= end; i += step) store(i, Switch::template load<kOp>(from_all + i));
  return i;
}

/// Plain sources into plain destinations at multicast addresses, of which at least one is not null. Syncs: block, at entry and at
/// exit.
template <typename Arith>
DEV_CALL void reduce_by_switch(Runs runs, const char* from_all, char* to_all, uint64_t at, uint64_t len) {
  using Switch = OnSwitch<typename Arith::T>;
  const auto store = [&](uint64_t byte, const Vec16& vec) {
    if (to_all != nullptr) multicast_store16(to_all + byte, vec);
    else store_each(runs, byte, vec);
  };
  const Reduction op = runs.instr().reduce;
  // Averages are sums that are divided after the last operation.
  const bool sums = op == Reduction::kSum || op == Reduction::kAvg;
  const uint64_t end = at + len;
  uint64_t i = at + 16 * dev_thread();
  fence_aliases_of_block();
  if (from_all == nullptr) {
    if (runs.instr().srcs == 1) i = copy_whole(runs, i, end, store);
    else i = reduce_whole<Arith, false>(runs, i, end, store);
  }
  if constexpr (Switch::kAdds) {
    if (from_all != nullptr && sums) i = combine_by_switch<Switch, Reduction::kSum>(from_all, i, end, store);
  }
  if constexpr (Switch::kCompares) {
    if (from_all != nullptr && op == Reduction::kMin) i = combine_by_switch<Switch, Reduction::kMin>(from_all, i, end, store);
    if (from_all != nullptr && op == Reduction::kMax) i = combine_by_switch<Switch, Reduction::kMax>(from_all, i, end, store);
  }
  // A partial vector is that of the thread that would process the next one.
  if (i < end) reduce_unaligned<Arith>(runs, i, end);
  fence_aliases_of_block();
}

/// Plain sources into plain destinations, through the switch where the instruction allows that and the switch supports it. Syncs:
/// block, if a multicast address is used.
template <typename Arith>
DEV void reduce_plain(const LaunchParams& launch, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  const Runs runs = runs_of(instr);
  if (!range.whole) return reduce_elements<Arith>(launch, runs, at, len);
  len = len_in(range, at, len);
  if (instr.opcode == Opcode::kSwitch && are_aligned(range, at, 16)) {
    const auto address = [&](uint32_t group, uint32_t slot) {
      return multicast_address(launch, group, head_at(slot), static_cast<Space>(cache().operands[slot].space_number));
    };
    char* const to_all = address(instr.dst_group, runs.first + instr.srcs);
    const char* const from_all = switch_combines<Arith>(launch, instr.reduce) ? address(instr.src_group, runs.first) : nullptr;
    if (from_all != nullptr || to_all != nullptr) return reduce_by_switch<Arith>(runs, from_all, to_all, at, len);
  }
  if (instr.reduce == Reduction::kSum || instr.reduce == Reduction::kAvg) reduce_runs<Arith, true>(runs, at, len);
  else reduce_runs<Arith, false>(runs, at, len);
}

/// The packets of a source to all destinations, by one store if these have a multicast address.
DEV void forward_by_switch(const LaunchParams& launch, const Instr& instr, uint64_t at, uint64_t len) {
  const uint32_t src = instr.operands, dst = src + instr.srcs;
  char* to_all = multicast_address(launch, instr.dst_group, packets_of(launch, dst), Space::kPackets);
  if (to_all == nullptr) return forward(launch, src, dst, instr.dsts, at, len);
  const char* from = packets_of(launch, src);
  const uint32_t flag = cache().flag;
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    const Vec8 payload = take_packet(launch, from + 2 * i, src, i / 8);
    multicast_store16(to_all + 2 * i, Vec16{{payload.w[0], flag, payload.w[1], flag}});
  }
}

}  // namespace mscclpp
