// What a kernel that was written for one plan is made of (mscclpp-exec/src/cuda/specialise writes such kernels).
//
// Such a kernel knows its operations: their kinds, how many references each has, which of these are packets, the reduction.
// So nothing is decoded, and all sources of an operation are in flight together. What differs between thread blocks of one
// shape (ranks, chunks, channels) comes from the plan's tables; sizes and addresses from the launch, as ever.
//
// Everything that such a kernel moves divides into whole vectors at addresses that are multiples of 16. Launches of which that is not
// true run the interpreter's kernel: the host chooses (mscclpp-exec/src/cuda/specialise/even.rs).
#pragma once
#include "executor.h"

namespace mscclpp {

/// A thread block of the plan: its first operation, operand and id, the proxy's queue, the part of every sliced reference
/// that is its own, and which function runs it.
struct Block {
  uint32_t instr, operand, id, fifo, slice, shape;
};

/// Called by: all threads of the block, first. Returns: launches before this one. What the window knows of the launch is there
/// after the next sync.
DEV uint64_t begin_launch(const Launch& launch, uint32_t agent, uint32_t fifo) {
  const uint64_t sequence = load_relaxed_gpu(&reinterpret_cast<State*>(launch.state)->launches);
  iteration() = 0;
  if (dev_thread() == 0) {
    Window& w = window();
    w.sequence = sequence;
    w.flag = flag_of(sequence);
    w.agent = agent;
    w.fifo = fifo;
    w.failed = 0;
  }
  return sequence;
}

/// Fills the window with the operands and ids from these numbers on. Called by: all threads of the block. Syncs: block, at exit.
DEV void load_window(const Launch& launch, uint64_t sequence, uint32_t operand, uint32_t operands, uint32_t id, uint32_t ids) {
  Window& w = window();
  if (dev_thread() == 0) {
    w.first_place = operand;
    w.first_id = id;
  }
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < operands; i += dev_threads()) {
    const Place place = place_of(launch, reinterpret_cast<const Operand*>(launch.operands)[operand + i], sequence);
    w.places[i] = place;
    w.heads[i] = place.at;
  }
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < ids; i += dev_threads()) w.ids[i] = reinterpret_cast<const Id*>(launch.ids)[id + i];
  dev_sync();
}

/// The same, where the window is in use. Syncs: block, at entry and at exit.
DEV void reload_window(const Launch& launch, uint32_t operand, uint32_t operands, uint32_t id, uint32_t ids) {
  dev_sync();
  load_window(launch, window().sequence, operand, operands, id, ids);
}

/// The bytes of its references that an operation is about.
struct Piece {
  uint64_t at, len;
};

/// The part `index` of `of` of `chunks` chunks.
DEV Piece piece_of(const Launch& launch, uint32_t chunks, uint32_t index, uint32_t of) {
  Piece piece;
  slice_of(launch.unit, chunks * launch.stride, index, of, piece.at, piece.len);
  return piece;
}

/// Windows of a loop, and the one at hand.
struct Windows {
  uint64_t unit;
  uint32_t trips;
  uint32_t iteration;
};

DEV Windows windows_of(const Launch& launch, uint32_t chunks, uint64_t unit) {
  Windows windows = {round_up(unit, launch.unit), 0, 0};
  windows.trips = trips_of(launch.stride, chunks, windows.unit);
  return windows;
}

DEV Piece narrowed(Piece piece, const Windows& windows) {
  narrow(windows.iteration, windows.unit, piece.at, piece.len);
  return piece;
}

/// Plain sources from place `first` on, each into its destination.
template <uint32_t kPairs>
DEV_CALL void copy_even(uint32_t first, Piece piece) {
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < kPairs; ++i) {
    copy_bytes(window().heads[first + kPairs + i] + piece.at, window().heads[first + i] + piece.at, piece.len, 0);
  }
}

/// Plain sources into packets. As many vectors are in flight as in a copy.
template <uint32_t kPairs>
DEV_CALL void pack_even(uint32_t first, Piece piece) {
  const uint32_t step = 8 * dev_threads(), flag = window().flag;
  DEV_NO_UNROLL
  for (uint32_t pair = 0; pair < kPairs; ++pair) {
    const char* from = window().heads[first + pair] + piece.at;
    char* to = window().heads[first + kPairs + pair] + 2 * piece.at;
    uint64_t i = 8 * dev_thread();
    DEV_NO_UNROLL
    for (; i + (kUnroll - 1) * step < piece.len; i += kUnroll * step) {
      Vec8 data[kUnroll];
#pragma unroll
      for (uint32_t j = 0; j < kUnroll; ++j) data[j] = load_any<Vec8>(from + i + j * step, 8);
#pragma unroll
      for (uint32_t j = 0; j < kUnroll; ++j) store_packet(to + 2 * (i + j * step), data[j], flag);
    }
    DEV_NO_UNROLL
    for (; i < piece.len; i += step) store_packet(to + 2 * i, load_any<Vec8>(from + i, 8), flag);
  }
}

/// Packets of several places, looked at together until all are there: those whose bit is in the mask. `at(n)`: where the `n`-th
/// one is; `await(n)`: waits for it with patience, while no payload is in registers. Returns: whether all came.
template <uint32_t kCount, typename At, typename Await>
DEV bool look_for_packets(Vec8 (&payload)[kCount], uint64_t mask, const At& at, const Await& await) {
  DEV_NO_UNROLL
  for (uint32_t looks = 1;; ++looks) {
    uint32_t missing = kCount, seen;
    // From right to left, so that the leftmost one is what is waited for.
#pragma unroll
    for (uint32_t n = kCount; n-- > 0;) {
      if ((mask >> n & 1) && !load_packet(at(n), window().flag, payload[n], seen)) missing = n;
    }
    if (missing == kCount) return true;
    dev_relax();
    if (looks % kPollsPerLook != 0) continue;
    await(missing);
    if (window().failed) return false;
  }
}

/// Packets from byte `i` of a reference on, `step` bytes apart, into a plain destination. Returns: whether all came.
template <uint32_t kCount>
DEV bool unpack_some(const Launch& launch, const char* from, char* to, uint32_t number, uint64_t i, uint32_t step) {
  Vec8 payload[kCount];
  const auto at = [&](uint32_t n) { return from + 2 * (i + n * step); };
  const auto await = [&](uint32_t n) { await_packet(launch, at(n), number, (i + n * step) / 8); };
  if (!look_for_packets(payload, ~0ull, at, await)) return false;
#pragma unroll
  for (uint32_t n = 0; n < kCount; ++n) store_any(to + i + n * step, 8, payload[n]);
  return true;
}

/// Packets into plain destinations.
template <uint32_t kPairs>
DEV_CALL void unpack_even(const Launch& launch, uint32_t first, Piece piece) {
  const uint32_t step = 8 * dev_threads(), number = window().first_place + first;
  const uint64_t end = piece.at + piece.len;
  DEV_NO_UNROLL
  for (uint32_t pair = 0; pair < kPairs; ++pair) {
    const char* from = window().heads[first + pair];
    char* to = window().heads[first + kPairs + pair];
    uint64_t i = piece.at + 8 * dev_thread();
    DEV_NO_UNROLL
    for (; i + (kUnroll - 1) * step < end; i += kUnroll * step) {
      if (!unpack_some<kUnroll>(launch, from, to, number + pair, i, step)) return;
    }
    DEV_NO_UNROLL
    for (; i < end; i += step) {
      if (!unpack_some<1>(launch, from, to, number + pair, i, step)) return;
    }
  }
}

/// The packets of the reference at place `first` to every one behind it.
template <uint32_t kDsts>
DEV_CALL void forward_even(const Launch& launch, uint32_t first, Piece piece) {
  const uint32_t number = window().first_place + first;
  DEV_NO_UNROLL
  for (uint64_t i = piece.at + 8 * dev_thread(); i < piece.at + piece.len; i += 8 * dev_threads()) {
    const Vec8 payload = take_packet(launch, window().heads[first] + 2 * i, number, i / 8);
#pragma unroll
    for (uint32_t d = 0; d < kDsts; ++d) store_packet(window().heads[first + 1 + d] + 2 * i, payload, window().flag);
  }
}

/// Sources of a reduction that are in flight together: as many as registers allow.
template <typename Arith>
constexpr uint32_t kInFlight = sizeof(typename Arith::A) > sizeof(typename Arith::T) ? kBatch<Arith> : 8;

/// The combined sources from place `first` on.
template <typename Arith, Reduction kOp, uint32_t kSrcs>
struct Combined {
  static constexpr uint32_t kMost = kInFlight<Arith> / kSrcs;
  static constexpr uint32_t kVectors = kMost >= 4 ? 4 : kMost >= 2 ? 2 : 1;
  uint32_t first;

  /// So many vectors from byte `at` on, `step` bytes apart.
  template <uint32_t kCount>
  DEV void load(Vec16 (&result)[kCount], uint64_t at, uint64_t step) const {
    constexpr bool kSum = kOp == Reduction::Sum || kOp == Reduction::Avg;
    constexpr uint32_t kEach = kInFlight<Arith> / kCount;
    Accumulator<Arith, Vec16> acc[kCount];
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; s += kEach) {
      Vec16 data[kEach][kCount];
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) {
        if (s + i >= kSrcs) break;
        const char* from = window().heads[first + s + i] + at;
#pragma unroll
        for (uint32_t v = 0; v < kCount; ++v) data[i][v] = load16(from + v * step);
      }
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) {
        if (s + i >= kSrcs) break;
#pragma unroll
        for (uint32_t v = 0; v < kCount; ++v) {
          // A single source is handed on as it is.
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

/// The same, combined by a switch.
template <typename Arith, Reduction kOp>
struct CombinedBySwitch {
  static constexpr uint32_t kVectors = kUnroll;
  const char* from;

  template <uint32_t kCount>
  DEV void load(Vec16 (&result)[kCount], uint64_t at, uint64_t step) const {
    // Averages add up; they are divided at the end.
    constexpr Reduction kLoad = kOp == Reduction::Avg ? Reduction::Sum : kOp;
#pragma unroll
    for (uint32_t v = 0; v < kCount; ++v) result[v] = OnSwitch<typename Arith::T>::template load<kLoad>(from + at + v * step);
  }
};

/// The destinations from place `first` on.
template <uint32_t kDsts>
struct IntoEach {
  uint32_t first;

  template <uint32_t kCount>
  DEV void store(const Vec16 (&result)[kCount], uint64_t at, uint64_t step) const {
#pragma unroll
    for (uint32_t d = 0; d < kDsts; ++d) {
      char* to = window().heads[first + d] + at;
#pragma unroll
      for (uint32_t v = 0; v < kCount; ++v) store16(to + v * step, result[v]);
    }
  }
};

/// All destinations at once, by their multicast address.
struct IntoAll {
  char* to;

  template <uint32_t kCount>
  DEV void store(const Vec16 (&result)[kCount], uint64_t at, uint64_t step) const {
#pragma unroll
    for (uint32_t v = 0; v < kCount; ++v) multicast_store16(to + at + v * step, result[v]);
  }
};

template <typename From, typename Into>
DEV void reduce_vectors(const From& from, const Into& into, Piece piece) {
  constexpr uint32_t kVectors = From::kVectors;
  const uint64_t step = 16 * dev_threads(), end = piece.at + piece.len;
  uint64_t at = piece.at + 16 * dev_thread();
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

/// Plain sources from place `first` on, combined into the destinations behind them.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts>
DEV_CALL void reduce_even(uint32_t first, Piece piece) {
  reduce_vectors(Combined<Arith, kOp, kSrcs>{first}, IntoEach<kDsts>{first + kSrcs}, piece);
}

/// The same through a switch, as far as it takes them.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts>
DEV_CALL void reduce_by_switch_even(const Launch& launch, uint32_t first, Piece piece) {
  using Switch = OnSwitch<typename Arith::T>;
  constexpr bool kHas = kOp == Reduction::Min || kOp == Reduction::Max ? Switch::kCompares : kOp != Reduction::Prod && Switch::kAdds;
  const Instr& instr = all_instrs(launch)[pc()];
  const auto address = [&](uint32_t group, uint32_t place) {
    return multicast_address(launch, group, window().heads[place], window().places[place].space);
  };
  const char* from = nullptr;
  if (kHas && switch_combines<Arith>(launch, kOp)) from = address(instr.src_group, first);
  char* const to = address(instr.dst_group, first + kSrcs);
  const Combined<Arith, kOp, kSrcs> each = {first};
  const IntoEach<kDsts> into_each = {first + kSrcs};
  if (from == nullptr && to == nullptr) return reduce_vectors(each, into_each, piece);
  fence_aliases();
  if (from == nullptr) reduce_vectors(each, IntoAll{to}, piece);
  if constexpr (kHas) {
    const CombinedBySwitch<Arith, kOp> all = {from};
    if (from != nullptr && to == nullptr) reduce_vectors(all, into_each, piece);
    if (from != nullptr && to != nullptr) reduce_vectors(all, IntoAll{to}, piece);
  }
  fence_aliases();
}

/// Sources of which those in the mask are packets: these from left to right, then the plain ones, into the destinations.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts, uint64_t kPacketSrcs, uint64_t kPacketDsts>
DEV_CALL void reduce_packets_even(const Launch& launch, uint32_t first, Piece piece) {
  constexpr bool kSum = kOp == Reduction::Sum || kOp == Reduction::Avg;
  // Sources that are looked at together: a packet on its way takes four registers.
  constexpr uint32_t kEach = kSrcs <= 8 ? kSrcs : 4;
  DEV_NO_UNROLL
  for (uint64_t i = piece.at + 8 * dev_thread(); i < piece.at + piece.len; i += 8 * dev_threads()) {
    Accumulator<Arith, Vec8> acc;
    Vec8 single;
    bool begun = false;
    auto take = [&](const Vec8& next) {
      single = next;
      if (!begun) acc.start(next);
      else acc.template add<kSum>(next, kOp);
      begun = true;
    };
    // These are on their way meanwhile.
    Vec8 plain[kSrcs];
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; ++s) {
      if (!(kPacketSrcs >> s & 1)) plain[s] = load_any<Vec8>(window().heads[first + s] + i, 8);
    }
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; s += kEach) {
      const uint64_t mask = kPacketSrcs >> s & ((1u << kEach) - 1);
      Vec8 payload[kEach];
      const auto at = [&](uint32_t n) { return window().heads[first + s + n] + 2 * i; };
      const auto await = [&](uint32_t n) { await_packet(launch, at(n), window().first_place + first + s + n, i / 8); };
      if (mask != 0 && !look_for_packets(payload, mask, at, await)) return;
#pragma unroll
      for (uint32_t n = 0; n < kEach; ++n) {
        if (mask >> n & 1) take(payload[n]);
      }
    }
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; ++s) {
      if (!(kPacketSrcs >> s & 1)) take(plain[s]);
    }
    const Vec8 result = kSrcs == 1 ? single : acc.finish();
#pragma unroll
    for (uint32_t d = 0; d < kDsts; ++d) {
      char* to = window().heads[first + kSrcs + d];
      if (kPacketDsts >> d & 1) store_packet(to + 2 * i, result, window().flag);
      else store_any(to + i, 8, result);
    }
  }
}

/// Packets by a switch, from the operation in the plan's table: there is nothing in it to unroll.
DEV_CALL void forward_by_switch_even(const Launch& launch, Piece piece) {
  forward_by_switch(launch, all_instrs(launch)[pc()], piece.at, piece.len);
}

/// What goes through the host's proxy, from the same table. `kAwait`: packets, once all are there.
template <bool kAwait>
DEV_CALL void port_even(const Launch& launch, uint32_t first, Piece piece) {
  if (kAwait) {
    await_packets(launch, window().first_place + first, piece.at, piece.len);
    dev_sync();
  }
  port(launch, all_instrs(launch)[pc()], piece.at, piece.len);
}

/// An operation that waits, signals, takes or gives: `ids` of them from number `first` of the window on.
template <uint32_t kAction, uint32_t kFlags>
DEV_CALL void synchronise_as(const Launch& launch, uint32_t first, uint32_t ids) {
  synchronise(launch, kAction, kFlags, window().first_id + first, ids);
}

/// Thread blocks of a rank meet, at id `first` of the window.
DEV_CALL void meet_at(const Launch& launch, uint32_t first, uint32_t blocks) {
  meet(launch, window().ids[first], blocks);
}

}  // namespace mscclpp
