// Combining several sources into several destinations, from left to right. Any length, any alignment, any type.
// Every function: called by all threads of the block with the same arguments; syncs nothing but where it says so.
#pragma once
#include "copy.h"
#include "number.h"

namespace mscclpp {

/// Elements of type `T` that combine natively, rounding after every step: `A` is `T` itself. Else in the wider type `A`,
/// rounding once.
template <typename T_, typename A_>
struct Arithmetic {
  using T = T_;
  using A = A_;
};

/// A reduction that the compiler knows.
template <Reduction kOp_>
struct Known {
  static constexpr Reduction kOp = kOp_;
};

/// Calls `body` with the operation, which is a sum if `kSum`.
template <bool kSum, typename Body>
DEV void with_known(Reduction op, const Body& body) {
  if constexpr (kSum) return body(Known<Reduction::Sum>{});
  switch (op) {
    case Reduction::Prod: return body(Known<Reduction::Prod>{});
    case Reduction::Min: return body(Known<Reduction::Min>{});
    case Reduction::Max: return body(Known<Reduction::Max>{});
    default: return body(Known<Reduction::Sum>{});
  }
}

/// The unsigned integer of so many bytes.
template <uint32_t kBytes>
struct Bits {
  using Type = uint32_t;
};
template <>
struct Bits<1> {
  using Type = uint8_t;
};
template <>
struct Bits<2> {
  using Type = uint16_t;
};
template <>
struct Bits<8> {
  using Type = uint64_t;
};

/// What has been combined so far: elements as they are in memory, which stay packed in words. Narrow ones unpacked, all of a
/// vector at once, would take several times the registers.
template <typename Arith, typename Vec, bool kNative = sizeof(typename Arith::T) == sizeof(typename Arith::A)>
struct Accumulator {
  using T = typename Arith::T;
  using Wide = typename Native<T>::Type;
  static constexpr uint32_t kWordBytes = sizeof(T) > 4 ? sizeof(T) : sizeof(Vec) < 4 ? sizeof(Vec) : 4;
  union Packed {
    typename Bits<kWordBytes>::Type word;
    T e[kWordBytes / sizeof(T)];
  };
  union Words {
    Vec vec;
    typename Bits<kWordBytes>::Type word[sizeof(Vec) / kWordBytes];
  };
  Vec acc;

  DEV void start(const Vec& vec) { acc = vec; }

  /// `op`: the operation, where it is not known to be a sum.
  template <bool kSum>
  DEV void add(const Vec& vec, Reduction op) {
    Words left = {acc}, right = {vec};
    with_known<kSum>(op, [&](auto known) {
#pragma unroll
      for (uint32_t i = 0; i < sizeof(Vec) / kWordBytes; ++i) {
        Packed l = {left.word[i]}, r = {right.word[i]};
#pragma unroll
        for (uint32_t j = 0; j < kWordBytes / sizeof(T); ++j) {
          l.e[j] = Via<T, Wide>::narrow(
              combine_wrapping<decltype(known)::kOp, Wide>(Via<T, Wide>::widen(l.e[j]), Via<T, Wide>::widen(r.e[j])));
        }
        left.word[i] = l.word;
      }
    });
    acc = left.vec;
  }

  DEV Vec finish() const { return acc; }
};

/// Elements in the wider type `A`, which are rounded once, at the end.
template <typename Arith, typename Vec>
struct Accumulator<Arith, Vec, false> {
  using T = typename Arith::T;
  using A = typename Arith::A;
  static constexpr uint32_t kCount = sizeof(Vec) / sizeof(T);
  union Elements {
    Vec vec;
    T e[kCount];
  };
  A acc[kCount];

  DEV void start(const Vec& vec) {
    Elements from = {vec};
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) acc[i] = Via<T, A>::widen(from.e[i]);
  }

  template <bool kSum>
  DEV void add(const Vec& vec, Reduction op) {
    Elements from = {vec};
    with_known<kSum>(op, [&](auto known) {
#pragma unroll
      for (uint32_t i = 0; i < kCount; ++i) {
        acc[i] = combine_wrapping<decltype(known)::kOp, A>(acc[i], Via<T, A>::widen(from.e[i]));
      }
    });
  }

  DEV Vec finish() const {
    Elements to;
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) to.e[i] = Via<T, A>::narrow(acc[i]);
    return to.vec;
  }
};

/// An element as a vector of one.
template <typename T>
struct Single {
  T value;
};

/// Vectors of sources that a thread has in flight: as many as registers allow.
template <typename Arith>
constexpr uint32_t kBatch = sizeof(typename Arith::A) > sizeof(typename Arith::T) ? 2 : 4;

/// Operands that are one run each: `srcs` from place `first` of the window on, then `dsts`.
struct Runs {
  uint32_t first;
  uint32_t srcs;
  uint32_t dsts;
  Reduction op;

  DEV char* src(uint32_t number) const { return window().heads[first + number]; }
  DEV char* dst(uint32_t number) const { return window().heads[first + srcs + number]; }
};

/// Combines the vectors at byte `at` of all sources, or their first `bytes`. `kAligned`: whether all are whole, and all addresses
/// multiples of 16.
template <typename Arith, bool kSum, typename Vec, bool kAligned>
DEV Vec combine_at(const Runs& runs, uint64_t at, uint32_t bytes) {
  auto load = [&](uint32_t number) {
    const char* from = runs.src(number) + at;
    if (!kAligned && bytes < sizeof(Vec)) return load_part<Vec>(from, bytes);
    return load_any<Vec>(from, kAligned ? 16 : alignment_of(from));
  };
  if (runs.srcs == 1) return load(0);
  Accumulator<Arith, Vec> acc;
  acc.start(load(0));
  constexpr uint32_t kEach = kAligned ? kBatch<Arith> : 2;
  uint32_t s = 1;
  DEV_NO_UNROLL
  for (; s + kEach <= runs.srcs; s += kEach) {
    Vec data[kEach];
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) data[i] = load(s + i);
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) acc.template add<kSum>(data[i], runs.op);
  }
  DEV_NO_UNROLL
  for (; s < runs.srcs; ++s) acc.template add<kSum>(load(s), runs.op);
  return acc.finish();
}

/// Vectors of which not all are whole and aligned: of `len` bytes from byte `at` on those of this thread, or the last one.
template <typename Arith>
DEV_CALL void reduce_unlike(Runs runs, uint64_t at, uint64_t len, bool last) {
  DEV_NO_UNROLL
  for (uint64_t v = last ? len / 16 : dev_thread(); 16 * v < len; v += dev_threads()) {
    const uint64_t from = at + 16 * v;
    const uint32_t bytes = len - 16 * v < 16 ? static_cast<uint32_t>(len - 16 * v) : 16;
    Vec16 result = combine_at<Arith, false, Vec16, false>(runs, from, bytes);
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < runs.dsts; ++d) {
      char* to = runs.dst(d) + from;
      if (bytes < 16) store_part(to, bytes, result);
      else store_any(to, alignment_of(to), result);
    }
  }
}

/// `len` bytes, whole elements, from byte `at` on.
template <typename Arith, bool kSum>
DEV void reduce_runs(const Runs& runs, uint64_t at, uint64_t len) {
  uint64_t addresses = at, v = dev_thread();
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < runs.srcs + runs.dsts; ++i) addresses |= reinterpret_cast<uint64_t>(runs.src(i));
  const bool aligned = (addresses & 15) == 0;
  if (aligned) {
    DEV_NO_UNROLL
    for (; v < len / 16; v += dev_threads()) {
      Vec16 result = combine_at<Arith, kSum, Vec16, true>(runs, at + 16 * v, 16);
      DEV_NO_UNROLL
      for (uint32_t d = 0; d < runs.dsts; ++d) store16(runs.dst(d) + at + 16 * v, result);
    }
  }
  if (16 * v < len) reduce_unlike<Arith>(runs, at, len, aligned);
}

/// References of an operation: `srcs` from number `first` on, then `dsts`.
struct Operands {
  uint32_t first;
  uint32_t srcs;
  uint32_t dsts;
  Reduction op;
};

/// From the element at byte `i` of a range to this thread's next one: its vectors are 16 bytes long.
template <typename T>
DEV uint64_t next_element(uint64_t i) {
  return (i + sizeof(T)) % 16 != 0 ? sizeof(T) : sizeof(T) + 16 * (static_cast<uint64_t>(dev_threads()) - 1);
}

/// Plain sources into plain destinations where not every operand is one whole run: element by element, each looked up.
template <typename Arith>
DEV_CALL void reduce_pieces(const Launch& launch, Operands operands, uint64_t at, uint64_t len) {
  using T = typename Arith::T;
  DEV_NO_UNROLL
  for (uint64_t i = at + 16 * dev_thread(); i < at + len; i += next_element<T>(i - at)) {
    auto load = [&](uint32_t number) {
      Span span = span_at(launch, operands.first + number, i, sizeof(T));
      return span.len < sizeof(T) ? Single<T>{} : Single<T>{load_plain<T>(span.at)};
    };
    Accumulator<Arith, Single<T>> acc;
    acc.start(load(0));
    DEV_NO_UNROLL
    for (uint32_t s = 1; s < operands.srcs; ++s) acc.template add<false>(load(s), operands.op);
    Single<T> result = acc.finish();
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < operands.dsts; ++d) {
      Span span = span_at(launch, operands.first + operands.srcs + d, i, sizeof(T));
      if (span.len >= sizeof(T)) store_plain<T>(span.at, result.value);
    }
  }
}

/// Operands of which some are packets: those from left to right, then the plain ones, into all destinations. What `instr`, in
/// shared memory, says is looked up each time: registers are needed elsewhere.
template <typename Arith, bool kSum>
DEV void reduce_packets(const Launch& launch, uint32_t pc, const Instr& instr, Reduction op,
                        uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    Accumulator<Arith, Vec8> acc;
    bool first = true;
    auto take = [&](const Vec8& payload) {
      if (first) acc.start(payload);
      else acc.template add<kSum>(payload, op);
      first = false;
    };
    Vec8 payload = {{0, 0}};
    DEV_NO_UNROLL
    for (uint32_t s = instr.operands; s < instr.operands + instr.srcs; ++s) {
      if (space_of(launch, s) != kPackets) continue;
      payload = take_packet(launch, pc, packets_of(launch, s) + 2 * i, s, i / 8);
      take(payload);
    }
    DEV_NO_UNROLL
    for (uint32_t s = instr.operands; s < instr.operands + instr.srcs; ++s) {
      if (space_of(launch, s) == kPackets) continue;
      Span span = span_at(launch, s, i, 8);
      payload = load_payload(span.at, span.len);
      take(payload);
    }
    // A single source is handed on as it is.
    Vec8 result = instr.srcs == 1 ? payload : acc.finish();
    DEV_NO_UNROLL
    for (uint32_t d = instr.operands + instr.srcs; d < instr.operands + instr.srcs + instr.dsts; ++d) {
      if (space_of(launch, d) == kPackets) {
        store_packet(packets_of(launch, d) + 2 * i, result, window().flag);
      } else {
        Span span = span_at(launch, d, i, 8);
        store_payload(span.at, span.len, result);
      }
    }
  }
}

}  // namespace mscclpp
