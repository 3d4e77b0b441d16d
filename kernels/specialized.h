// The functions that specialized kernels call (mscclpp-exec/src/cuda/specialize/ generates such kernels).
//
// In a specialized kernel the kinds of operations, their numbers of operands, which of these are packets, and the reduction are
// constants. So nothing is decoded, and all sources of an operation are in flight at once. What differs between thread blocks of
// one shape (ranks, chunks, channels, slices) is read from their records; sizes and addresses are launch parameters, as in the
// interpreter.
//
// All operands consist of whole vectors at addresses that are multiples of a vector's size. Launches with other operands use the
// interpreter's kernel: the host decides (mscclpp-exec/src/cuda/specialize/vectorizable.rs).
#pragma once
#include "executor.h"

namespace mscclpp {

static_assert(sizeof(Vec16) == kVectorBytes, "the vectors of which the host checks that operands consist");

/// Called by: all threads of the block, first. Syncs: block, at exit.
DEV void begin_specialized(const LaunchParams& launch) {
  load_record<false>(launch, launch.first_block + dev_block());
  dev_sync();
  pc() = cache().own.first;
}

/// Loads the cache with operands and ids, counted from the block's first ones. Called by: all threads of the block. Syncs: block, at
/// entry and at exit.
DEV void load_cache(const LaunchParams& launch, uint32_t operand, uint32_t operands, uint32_t id, uint32_t ids) {
  dev_sync();
  InstrCache& c = cache();
  operand += c.own.operands;
  id += c.own.ids;
  const auto from = [&](uint32_t v) {
    return v < operands ? vector_at(launch.operands, operand + v) : vector_at(launch.ids, vectors_of<Id>(1) * id + v - operands);
  };
  copy_tables<2>(0, 0, operands, vectors_of<Id>(ids), from, [] {});
  dev_sync();
  if (dev_thread() == 0) {
    c.first_operand = operand;
    c.first_id = id;
  }
  resolve_operands(launch, operands);
  dev_sync();
}

/// The bytes of its operands that an operation processes.
struct ByteRange {
  uint64_t at, len;
};

/// Number of an operation whose range is not in the kernel parameters.
constexpr uint32_t kComputed = ~0u;

/// Whether the kernel parameters have the range of the block's operation `number`.
DEV bool has_range(const LaunchParams& launch, uint32_t number) { return number != kComputed && launch.has_ranges != 0; }

DEV ParamRange range_of(const LaunchParams& launch, uint32_t number) { return launch.ranges[launch.rows[dev_block()] + number]; }

/// Slice `index` of `of` of `len` bytes: not inlined, since it is long, and only launches with many operations call it.
DEV_CALL ByteRange computed_range(uint64_t unit, uint64_t len, uint32_t index, uint32_t of) {
  ByteRange bytes;
  slice_of(unit, len, index, of, bytes.at, bytes.len);
  return bytes;
}

/// Slice `index` of `of` of `chunks` chunks, of the block's operation `number`.
DEV ByteRange byte_range(const LaunchParams& launch, uint32_t number, uint32_t chunks, uint32_t index, uint32_t of) {
  if (has_range(launch, number)) return ByteRange{range_of(launch, number).start, range_of(launch, number).len};
  return computed_range(launch.unit, chunks * launch.stride, index, of);
}

/// The block's slice of `chunks` chunks, of its operation `number`.
DEV ByteRange own_range(const LaunchParams& launch, uint32_t number, uint32_t chunks) {
  return byte_range(launch, number, chunks, cache().own.slice_index, cache().own.slice_of);
}

/// Windows of a loop, and the current iteration.
struct Pipeline {
  uint64_t unit;
  uint32_t trips;
  uint32_t iteration;
};

/// The loop that is the block's operation `number`.
DEV Pipeline pipeline_of(const LaunchParams& launch, uint32_t number, uint32_t chunks, uint64_t unit) {
  if (has_range(launch, number)) return Pipeline{range_of(launch, number).start, range_of(launch, number).len, 0};
  Pipeline pipeline = {round_up(unit, launch.unit), 0, 0};
  pipeline.trips = trips_of(launch.stride, chunks, pipeline.unit);
  return pipeline;
}

DEV ByteRange clipped(ByteRange bytes, const Pipeline& pipeline) {
  clip_to_iteration(pipeline.iteration, pipeline.unit, bytes.at, bytes.len);
  return bytes;
}

/// Plain sources from index `first` of the cache on, each into its destination.
template <uint32_t kPairs>
DEV_CALL void copy_aligned(uint32_t first, ByteRange bytes) {
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < kPairs; ++i) {
    copy_bytes(head_at(first + kPairs + i) + bytes.at, head_at(first + i) + bytes.at, bytes.len, 0);
  }
}

/// Plain sources into packets, each into those of its destination; a single one into those of all destinations.
template <uint32_t kSrcs, uint32_t kDsts>
DEV_CALL void pack_aligned(uint32_t first, ByteRange bytes) {
  constexpr uint32_t kEach = kSrcs == 1 ? kDsts : 1;
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < kSrcs; ++i) {
    const auto to = [&](uint32_t d) { return head_at(first + kSrcs + i + d) + 2 * bytes.at; };
    pack_bytes<kEach>(kEach, to, head_at(first + i) + bytes.at, bytes.len);
  }
}

/// Packets into plain destinations.
template <uint32_t kPairs>
DEV_CALL void unpack_aligned(const LaunchParams& launch, uint32_t first, ByteRange bytes) {
  const uint32_t number = cache().first_operand + first;
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < kPairs; ++i) {
    if (!unpack_bytes(launch, head_at(first + i), head_at(first + kPairs + i), number + i, bytes.at, bytes.at + bytes.len)) return;
  }
}

/// The packets of the operand at index `first` of the cache to each of the following ones.
template <uint32_t kDsts>
DEV_CALL void forward_aligned(const LaunchParams& launch, uint32_t first, ByteRange bytes) {
  const uint32_t number = cache().first_operand + first;
  DEV_NO_UNROLL
  for (uint64_t i = bytes.at + 8 * dev_thread(); i < bytes.at + bytes.len; i += 8 * dev_threads()) {
    const Vec8 payload = take_packet(launch, head_at(first) + 2 * i, number, i / 8);
#pragma unroll
    for (uint32_t d = 0; d < kDsts; ++d) store_packet(head_at(first + 1 + d) + 2 * i, payload, cache().flag);
  }
}

/// The combined sources from index `first` of the cache on.
template <typename Arith, Reduction kOp, uint32_t kSrcs>
struct Combined {
  static constexpr uint32_t kMaxVectors = kInFlight<Arith> / kSrcs;
  static constexpr uint32_t kVectors = kMaxVectors >= 4 ? 4 : kMaxVectors >= 2 ? 2 : 1;
  uint32_t first;

  /// `kCount` vectors from byte `at` on, `step` bytes apart.
  template <uint32_t kCount>
  DEV void load(Vec16 (&result)[kCount], uint64_t at, uint64_t step) const {
    constexpr bool kSum = kOp == Reduction::kSum || kOp == Reduction::kAvg;
    constexpr uint32_t kEach = kInFlight<Arith> / kCount;
    Accumulator<Arith, Vec16> acc[kCount];
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; s += kEach) {
      Vec16 data[kEach][kCount];
      const char* from[kEach];
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) {
        if (s + i < kSrcs) from[i] = head_at(first + s + i) + at;
      }
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) {
        if (s + i >= kSrcs) break;
#pragma unroll
        for (uint32_t v = 0; v < kCount; ++v) data[i][v] = load16(from[i] + v * step);
      }
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) {
        if (s + i >= kSrcs) break;
#pragma unroll
        for (uint32_t v = 0; v < kCount; ++v) {
          // A single source is not changed.
          if constexpr (kSrcs == 1) result[v] = data[i][v];
          else if (s + i == 0) acc[v].start(data[i][v]);
          else acc[v].template add<kSum>(data[i][v], kOp);
        }
      }
    }
    if constexpr (kSrcs > 1) {
#pragma unroll
      for (uint32_t v = 0; v < kCount; ++v) result[v] = acc[v].finish();
    }
  }
};

/// Sources that a switch combines.
template <typename Arith, Reduction kOp>
struct CombinedBySwitch {
  static constexpr uint32_t kVectors = kUnroll;
  const char* from;

  template <uint32_t kCount>
  DEV void load(Vec16 (&result)[kCount], uint64_t at, uint64_t step) const {
    // Averages are sums that are divided after the last operation.
    constexpr Reduction kLoad = kOp == Reduction::kAvg ? Reduction::kSum : kOp;
#pragma unroll
    for (uint32_t v = 0; v < kCount; ++v) result[v] = OnSwitch<typename Arith::T>::template load<kLoad>(from + at + v * step);
  }
};

/// The destinations from index `first` of the cache on.
template <uint32_t kDsts>
struct IntoEach {
  uint32_t first;

  template <uint32_t kCount>
  DEV void store(const Vec16 (&result)[kCount], uint64_t at, uint64_t step) const {
#pragma unroll
    for (uint32_t d = 0; d < kDsts; ++d) {
      char* to = head_at(first + d) + at;
#pragma unroll
      for (uint32_t v = 0; v < kCount; ++v) store16(to + v * step, result[v]);
    }
  }
};

/// All destinations by one store to their multicast address.
struct IntoAll {
  char* to;

  template <uint32_t kCount>
  DEV void store(const Vec16 (&result)[kCount], uint64_t at, uint64_t step) const {
#pragma unroll
    for (uint32_t v = 0; v < kCount; ++v) multicast_store16(to + at + v * step, result[v]);
  }
};

template <typename From, typename Into>
DEV void reduce_vectors(const From& from, const Into& into, ByteRange bytes) {
  constexpr uint32_t kVectors = From::kVectors;
  const uint64_t step = 16 * dev_threads(), end = bytes.at + bytes.len;
  uint64_t at = bytes.at + 16 * dev_thread();
  if constexpr (kVectors > 1) {
    DEV_NO_UNROLL
    for (; at + (kVectors - 1) * step < end; at += kVectors * step) {
      Vec16 result[kVectors];
      from.load(result, at, step);
      into.store(result, at, step);
    }
  }
  DEV_NO_UNROLL
  for (; at < end; at += step) {
    Vec16 result[1];
    from.load(result, at, step);
    into.store(result, at, step);
  }
}

/// Plain sources from index `first` of the cache on, combined into the destinations that follow them.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts>
DEV_CALL void reduce_aligned(uint32_t first, ByteRange bytes) {
  reduce_vectors(Combined<Arith, kOp, kSrcs>{first}, IntoEach<kDsts>{first + kSrcs}, bytes);
}

/// `reduce_aligned` through a switch, where it supports the reduction and the operands.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts>
DEV_CALL void reduce_by_switch_aligned(const LaunchParams& launch, uint32_t first, ByteRange bytes) {
  using Switch = OnSwitch<typename Arith::T>;
  constexpr bool kHas = kOp == Reduction::kMin || kOp == Reduction::kMax ? Switch::kCompares : kOp != Reduction::kProd && Switch::kAdds;
  const Instr& instr = all_instrs(launch)[pc()];
  const auto address = [&](uint32_t group, uint32_t operand) {
    const Space space = static_cast<Space>(cache().operands[operand].space_number);
    return multicast_address(launch, group, head_at(operand), space);
  };
  const char* from = nullptr;
  if (kHas && switch_combines<Arith>(launch, kOp)) from = address(instr.src_group, first);
  char* const to = address(instr.dst_group, first + kSrcs);
  const Combined<Arith, kOp, kSrcs> each = {first};
  const IntoEach<kDsts> into_each = {first + kSrcs};
  if (from == nullptr && to == nullptr) return reduce_vectors(each, into_each, bytes);
  fence_aliases_of_block();
  if (from == nullptr) reduce_vectors(each, IntoAll{to}, bytes);
  if constexpr (kHas) {
    const CombinedBySwitch<Arith, kOp> all = {from};
    if (from != nullptr && to == nullptr) reduce_vectors(all, into_each, bytes);
    if (from != nullptr && to != nullptr) reduce_vectors(all, IntoAll{to}, bytes);
  }
  fence_aliases_of_block();
}

/// Which of `kSrcs` operands from index `first` of the cache on is plain; the others are packets. It differs between the ranks of a plan,
/// whose thread blocks share their code.
template <uint32_t kSrcs>
DEV uint32_t plain_source(uint32_t first) {
  uint32_t plain = 0;
#pragma unroll
  for (uint32_t s = 1; s < kSrcs; ++s) {
    if (static_cast<Space>(cache().operands[first + s].space_number) != Space::kPackets) plain = s;
  }
  return plain;
}

/// Sources of which one is plain and the others are packets, from left to right, into the destinations, of which those in the mask are
/// packets.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts, uint64_t kPacketDsts>
DEV_CALL void reduce_packets_aligned(const LaunchParams& launch, uint32_t first, ByteRange bytes) {
  constexpr bool kSum = kOp == Reduction::kSum || kOp == Reduction::kAvg;
  constexpr uint32_t kPackets = kSrcs - 1;
  // Sources that are polled together: a packet in flight takes four registers.
  constexpr uint32_t kEach = kPackets <= 8 ? kPackets : 4;
  const uint32_t own = plain_source<kSrcs>(first);
  DEV_NO_UNROLL
  for (uint64_t i = bytes.at + 8 * dev_thread(); i < bytes.at + bytes.len; i += 8 * dev_threads()) {
    // In flight while packets are polled.
    const Vec8 plain = load_any<Vec8>(head_at(first + own) + i, 8);
    Accumulator<Arith, Vec8> acc;
#pragma unroll
    for (uint32_t s = 0; s < kPackets; s += kEach) {
      constexpr uint32_t kAll = (1u << kEach) - 1;
      const uint32_t mask = kPackets - s < kEach ? (1u << (kPackets - s)) - 1 : kAll;
      Vec8 payload[kEach];
      const auto slot = [&](uint32_t n) { return first + s + n + (s + n >= own ? 1 : 0); };
      const auto at = [&](uint32_t n) { return head_at(slot(n)) + 2 * i; };
      const auto await = [&](uint32_t n) { await_packet(launch, at(n), cache().first_operand + slot(n), i / 8); };
      if (!poll_packets(payload, mask, at, await)) return;
#pragma unroll
      for (uint32_t n = 0; n < kEach; ++n) {
        if (!(mask >> n & 1)) break;
        if (s + n > 0) {
          if (s + n == own) acc.template add<kSum>(plain, kOp);
          acc.template add<kSum>(payload[n], kOp);
        } else if (own == 0) {
          acc.start(plain);
          acc.template add<kSum>(payload[n], kOp);
        } else {
          acc.start(payload[n]);
        }
      }
    }
    if (own == kPackets) acc.template add<kSum>(plain, kOp);
    const Vec8 result = acc.finish();
#pragma unroll
    for (uint32_t d = 0; d < kDsts; ++d) {
      char* to = head_at(first + kSrcs + d);
      if (kPacketDsts >> d & 1) store_packet(to + 2 * i, result, cache().flag);
      else store_any(to + i, 8, result);
    }
  }
}

/// The rows of the operand at index `first` of the cache, normalized, into the one after it. Rows of which each thread has few vectors are
/// read once, and stored once.
template <typename Arith>
DEV_CALL void norm_rows_aligned(const LaunchParams& launch, uint32_t first, ByteRange bytes) {
  using T = typename Arith::T;
  constexpr uint32_t kKept = 4;
  const uint32_t src = cache().first_operand + first;
  begin_rows(launch, src, src + 1, bytes.at, bytes.len);
  if (row_state().params.row <= 16 * kKept * row_state().threads) {
    norm_rows(launch, [](uint32_t turn) { return RowPasses<T, kKept>{row_place(turn), {}}; });
  } else {
    norm_rows(launch, [](uint32_t turn) { return SeparatePasses<T>{turn}; });
  }
}

/// Packets by a switch, from the instruction in the plan's table, since nothing in it can be unrolled.
DEV_CALL void forward_by_switch_aligned(const LaunchParams& launch, ByteRange bytes) {
  forward_by_switch(launch, all_instrs(launch)[pc()], bytes.at, bytes.len);
}

/// A put through the host's proxy, from the same table. `kAwait`: of packets, once all have arrived.
template <bool kAwait>
DEV_CALL void port_aligned(const LaunchParams& launch, uint32_t first, ByteRange bytes) {
  if (kAwait) {
    await_packets(launch, cache().first_operand + first, bytes.at, bytes.len);
    dev_sync();
  }
  port(launch, all_instrs(launch)[pc()], bytes.at, bytes.len);
}

/// An operation on channels or semaphores: `ids` of them from index `first` of the cache on.
template <Opcode kOpcode, uint32_t kFlags>
DEV_CALL void synchronize_as(const LaunchParams& launch, uint32_t first, uint32_t ids) {
  synchronize(launch, kOpcode, kFlags, cache().first_id + first, ids);
}

/// A barrier of thread blocks of a rank, at index `first` of the cached ids.
DEV_CALL void barrier_wait_at(const LaunchParams& launch, uint32_t first, uint32_t blocks) {
  barrier_wait(launch, cache().ids[first], blocks);
}

}  // namespace mscclpp
