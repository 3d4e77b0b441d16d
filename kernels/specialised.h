// What a kernel that was written for one plan is made of (mscclpp-exec/src/cuda/specialise writes such kernels).
//
// Such a kernel knows its operations: their kinds, how many references each has, which of these are packets, the reduction.
// So nothing is decoded, and all sources of an operation are in flight together. What differs between thread blocks of one
// shape (ranks, chunks, channels) comes from the plan's tables; sizes and addresses from the launch, as ever.
//
// Messages that divide into whole vectors everywhere take the functions below. All others, and what goes through the host's
// proxy, take the interpreter's, operation by operation, so results are the same bit for bit.
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

/// Whether all of a reference is one run of whole vectors at addresses that are multiples of 16.
DEV bool is_even(const Launch& launch, const Operand& operand, const Place& place) {
  if (reinterpret_cast<uint64_t>(place.at) % 16 != 0 || (place.split | place.wraps)) return false;
  return place.space == kPackets || place.limit >= operand.size * launch.stride;
}

/// Fills the window with the operands and ids from these numbers on. Returns: whether all of these operands are even.
/// Called by: all threads of the block. Syncs: block, at exit.
DEV bool load_window(const Launch& launch, uint64_t sequence, uint32_t operand, uint32_t operands, uint32_t id, uint32_t ids) {
  Window& w = window();
  if (dev_thread() == 0) {
    w.first_place = operand;
    w.first_id = id;
  }
  bool even = launch.unit % 16 == 0;
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < operands; i += dev_threads()) {
    const Operand from = reinterpret_cast<const Operand*>(launch.operands)[operand + i];
    const Place place = place_of(launch, from, sequence);
    w.places[i] = place;
    w.heads[i] = place.at;
    even &= is_even(launch, from, place);
  }
  DEV_NO_UNROLL
  for (uint32_t i = dev_thread(); i < ids; i += dev_threads()) w.ids[i] = reinterpret_cast<const Id*>(launch.ids)[id + i];
  return dev_sync_count(!even) == 0;
}

/// The same, where the window is in use. Syncs: block, at entry and at exit.
DEV bool reload_window(const Launch& launch, uint32_t operand, uint32_t operands, uint32_t id, uint32_t ids) {
  dev_sync();
  return load_window(launch, window().sequence, operand, operands, id, ids);
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

/// An operation as the interpreter does it. `unit`: of the loop around it, or 0.
template <typename Arith>
DEV_CALL void interpret(const Launch& launch, uint64_t unit) {
  const Instr instr = instr_at(launch, pc());
  Range range = {0, 0, 0, 0, 0};
  slice_of(launch.unit, instr.size * launch.stride, instr.slice_index, instr.slice_of, range.start, range.len);
  find_runs(instr, range);
  uint64_t at = range.start, len = range.len;
  if (unit != 0) narrow(iteration(), unit, at, len);
  execute<Arith>(launch, instr, range, at, len);
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

/// Packets from byte `i` of a reference on, `step` bytes apart, into a plain destination: looked at together, then waited for
/// one after the other.
template <uint32_t kCount>
DEV void unpack_some(const Launch& launch, const char* from, char* to, uint32_t number, uint64_t i,
                     uint32_t step) {
  Vec8 payload[kCount];
  bool there[kCount];
  uint32_t seen;
#pragma unroll
  for (uint32_t j = 0; j < kCount; ++j) {
    there[j] = load_packet(from + 2 * (i + j * step), window().flag, payload[j], seen);
  }
#pragma unroll
  for (uint32_t j = 0; j < kCount; ++j) {
    const uint64_t at = i + j * step;
    if (!there[j]) payload[j] = await_packet(launch, from + 2 * at, number, at / 8);
    store_any(to + at, 8, payload[j]);
  }
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
      unpack_some<kUnroll>(launch, from, to, number + pair, i, step);
    }
    DEV_NO_UNROLL
    for (; i < end; i += step) unpack_some<1>(launch, from, to, number + pair, i, step);
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

/// `kVectors` vectors of every destination, from byte `at` on and `step` bytes apart.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts, uint32_t kVectors>
DEV void reduce_vectors(uint32_t first, uint64_t at, uint64_t step) {
  constexpr bool kSum = kOp == Reduction::Sum || kOp == Reduction::Avg;
  constexpr uint32_t kEach = kInFlight<Arith> / kVectors;
  Accumulator<Arith, Vec16> acc[kVectors];
  Vec16 result[kVectors];
#pragma unroll
  for (uint32_t s = 0; s < kSrcs; s += kEach) {
    Vec16 data[kEach][kVectors];
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
      if (s + i >= kSrcs) break;
      const char* from = window().heads[first + s + i] + at;
#pragma unroll
      for (uint32_t v = 0; v < kVectors; ++v) data[i][v] = load16(from + v * step);
    }
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
      if (s + i >= kSrcs) break;
#pragma unroll
      for (uint32_t v = 0; v < kVectors; ++v) {
        // A single source is handed on as it is.
        if constexpr (kSrcs == 1) result[v] = data[i][v];
        else if (s + i == 0) acc[v].start(data[i][v]);
        else acc[v].template add<kSum>(data[i][v], kOp);
      }
    }
  }
  if constexpr (kSrcs > 1) {
#pragma unroll
    for (uint32_t v = 0; v < kVectors; ++v) result[v] = acc[v].finish();
  }
#pragma unroll
  for (uint32_t d = 0; d < kDsts; ++d) {
    char* to = window().heads[first + kSrcs + d] + at;
#pragma unroll
    for (uint32_t v = 0; v < kVectors; ++v) store16(to + v * step, result[v]);
  }
}

/// Plain sources from place `first` on, combined into the destinations behind them.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts>
DEV_CALL void reduce_even(uint32_t first, Piece piece) {
  constexpr uint32_t kMost = kInFlight<Arith> / kSrcs, kVectors = kMost >= 4 ? 4 : kMost >= 2 ? 2 : 1;
  const uint64_t step = 16 * dev_threads(), end = piece.at + piece.len;
  uint64_t at = piece.at + 16 * dev_thread();
  if constexpr (kVectors > 1) {
    DEV_NO_UNROLL
    for (; at + (kVectors - 1) * step < end; at += kVectors * step) {
      reduce_vectors<Arith, kOp, kSrcs, kDsts, kVectors>(first, at, step);
    }
  }
  DEV_NO_UNROLL
  for (; at < end; at += step) reduce_vectors<Arith, kOp, kSrcs, kDsts, 1>(first, at, step);
}

/// Sources of which those in the mask are packets: these from left to right, then the plain ones, into the destinations.
template <typename Arith, Reduction kOp, uint32_t kSrcs, uint32_t kDsts, uint32_t kPacketSrcs, uint32_t kPacketDsts>
DEV_CALL void reduce_packets_even(const Launch& launch, uint32_t first, Piece piece) {
  constexpr bool kSum = kOp == Reduction::Sum || kOp == Reduction::Avg;
  const uint32_t number = window().first_place + first;
  DEV_NO_UNROLL
  for (uint64_t i = piece.at + 8 * dev_thread(); i < piece.at + piece.len; i += 8 * dev_threads()) {
    Vec8 payload[kSrcs];
    bool there[kSrcs];
    uint32_t seen;
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; ++s) {
      const char* from = window().heads[first + s];
      if (kPacketSrcs >> s & 1) there[s] = load_packet(from + 2 * i, window().flag, payload[s], seen);
    }
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; ++s) {
      if (!(kPacketSrcs >> s & 1)) payload[s] = load_any<Vec8>(window().heads[first + s] + i, 8);
    }
    Accumulator<Arith, Vec8> acc;
    Vec8 single;
    bool begun = false;
    auto take = [&](const Vec8& next) {
      single = next;
      if (!begun) acc.start(next);
      else acc.template add<kSum>(next, kOp);
      begun = true;
    };
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; ++s) {
      if (!(kPacketSrcs >> s & 1)) continue;
      if (!there[s]) payload[s] = await_packet(launch, window().heads[first + s] + 2 * i, number + s, i / 8);
      take(payload[s]);
    }
#pragma unroll
    for (uint32_t s = 0; s < kSrcs; ++s) {
      if (!(kPacketSrcs >> s & 1)) take(payload[s]);
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
