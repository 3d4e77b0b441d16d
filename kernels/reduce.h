// Reductions of several sources into several destinations, from left to right, of operands that are one run each.
// Every function: called by all threads of the block with the same arguments; does not sync.
#pragma once
#include "copy.h"
#include "multicast.h"

namespace mscclpp {

/// Elements of type `T` and their accumulator type `A`. If `A` is `T`, results are rounded after every step; if `A` is wider, once.
template <typename T_, typename A_>
struct Arithmetic {
  using T = T_;
  using A = A_;
};

/// A reduction that is known at compile time.
template <Reduction kOp_>
struct Known {
  static constexpr Reduction kOp = kOp_;
};

/// Calls `body` with the reduction, which is a sum if `kSum`.
template <bool kSum, typename Body>
DEV void with_known(Reduction op, const Body& body) {
  if constexpr (kSum) return body(Known<Reduction::kSum>{});
  switch (op) {
    case Reduction::kProd: return body(Known<Reduction::kProd>{});
    case Reduction::kMin: return body(Known<Reduction::kMin>{});
    case Reduction::kMax: return body(Known<Reduction::kMax>{});
    default: return body(Known<Reduction::kSum>{});
  }
}

/// The unsigned integer of `kBytes` bytes.
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

/// An accumulator of a vector of elements, packed in words as in memory: unpacked narrow elements would take several times the
/// registers.
template <typename Arith, typename Vec, bool kNative = sizeof(typename Arith::T) == sizeof(typename Arith::A)>
struct Accumulator {
  using T = typename Arith::T;
  using Wide = typename Native<T>::Type;
  static constexpr uint32_t kWordBytes = sizeof(T) > 4 ? sizeof(T) : sizeof(Vec) < 4 ? sizeof(Vec) : 4;
  using Word = typename Bits<kWordBytes>::Type;
  union Packed {
    Word word;
    T e[kWordBytes / sizeof(T)];
  };
  union Words {
    Vec vec;
    Word word[sizeof(Vec) / kWordBytes];
  };
  Vec acc;

  DEV void start(const Vec& vec) { acc = vec; }

  template <Reduction kOp>
  DEV static Word combine_words(Word left, Word right) {
    Packed l = {left}, r = {right};
#pragma unroll
    for (uint32_t i = 0; i < kWordBytes / sizeof(T); ++i) {
      l.e[i] = Via<T, Wide>::narrow(combine_wrapping<kOp, Wide>(Via<T, Wide>::widen(l.e[i]), Via<T, Wide>::widen(r.e[i])));
    }
    return l.word;
  }

  /// A call, for elements whose conversion takes many instructions.
  template <Reduction kOp>
  DEV_CALL static Word combine_words_call(Word left, Word right) {
    return combine_words<kOp>(left, right);
  }

  /// `op`: the reduction, if `kSum` is false.
  template <bool kSum>
  DEV void add(const Vec& vec, Reduction op) {
    Words left = {acc}, right = {vec};
    with_known<kSum>(op, [&](auto known) {
      constexpr Reduction kOp = decltype(known)::kOp;
#pragma unroll
      for (uint32_t i = 0; i < sizeof(Vec) / kWordBytes; ++i) {
        if constexpr (sizeof(T) == 1 && Native<T>::kRounds) left.word[i] = combine_words_call<kOp>(left.word[i], right.word[i]);
        else left.word[i] = combine_words<kOp>(left.word[i], right.word[i]);
      }
    });
    acc = left.vec;
  }

  DEV Vec finish() const { return acc; }
};

/// An accumulator of elements in the wider type `A`, which are rounded once, at the end.
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

/// Maximum number of source vectors of a reduction that are in flight; registers limit it: accumulators of a wider type take several
/// times those of their vector, and vectors whose words are combined by calls (fp8) must be preserved across these.
template <typename Arith, typename T = typename Arith::T>
constexpr uint32_t kInFlight = sizeof(typename Arith::A) > sizeof(T) || (sizeof(T) == 1 && Native<T>::kRounds) ? 4 : 8;

/// A number that is known at compile time.
template <uint32_t kValue_>
struct Count {
  static constexpr uint32_t kValue = kValue_;
};

/// Combines the vectors that `load` returns for the numbers `0..srcs`, at least 2, from left to right. Up to `kMost` are in flight,
/// the first one included: as many as one batch has, whose sizes are powers of two.
template <typename Arith, bool kSum, uint32_t kMost, typename Load>
DEV Vec16 combine_vectors(const Load& load, uint32_t srcs, Reduction op) {
  // Initialized, because registers of a value that is undefined on one path are reserved in the whole kernel.
  Accumulator<Arith, Vec16> acc = {};
  const auto batch = [&](auto count, uint32_t s) {
    constexpr uint32_t kCount = decltype(count)::kValue;
    Vec16 data[kCount];
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) data[i] = load(s + i);
    if (s == 0) acc.start(data[0]);
    else acc.template add<kSum>(data[0], op);
#pragma unroll
    for (uint32_t i = 1; i < kCount; ++i) acc.template add<kSum>(data[i], op);
  };
  uint32_t s = 0;
  DEV_NO_UNROLL
  for (; s + kMost <= srcs; s += kMost) batch(Count<kMost>{}, s);
  if (kMost > 4 && (srcs - s & 4) != 0) {
    batch(Count<4>{}, s);
    s += 4;
  }
  if (kMost > 2 && (srcs - s & 2) != 0) {
    batch(Count<2>{}, s);
    s += 2;
  }
  if (kMost > 1 && s < srcs) batch(Count<1>{}, s);
  return acc.finish();
}

/// Stores a vector in each destination.
DEV void store_each(const Runs& runs, uint64_t byte, const Vec16& vec) {
  DEV_NO_UNROLL
  for (uint32_t d = 0; d < runs.instr().dsts; ++d) store16(runs.dst(d) + byte, vec);
}

/// Vectors that may be partial or unaligned: those of this thread from the one at byte `i` up to byte `end`.
template <typename Arith>
DEV_CALL void reduce_unaligned(Runs runs, uint64_t i, uint64_t end) {
  DEV_NO_UNROLL
  for (; i < end; i += 16 * dev_threads()) {
    const uint32_t bytes = end - i < 16 ? static_cast<uint32_t>(end - i) : 16;
    const auto load = [&](uint32_t source) {
      const char* from = runs.src(source) + i;
      return bytes < 16 ? load_part<Vec16>(from, bytes) : load_any<Vec16>(from, alignment_of(from));
    };
    const uint32_t srcs = runs.instr().srcs;
    const Vec16 result = srcs == 1 ? load(0) : combine_vectors<Arith, false, 1>(load, srcs, runs.instr().reduce);
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < runs.instr().dsts; ++d) {
      char* to = runs.dst(d) + i;
      if (bytes < 16) store_part(to, bytes, result);
      else store_any(to, alignment_of(to), result);
    }
  }
}

/// One source, which is not changed: whole vectors at multiples of 16, those of this thread from the one at byte `i` up to byte `end`.
/// `store(byte, vec)` stores one. Returns: the byte after these vectors.
template <typename Store>
DEV uint64_t copy_whole(const Runs& runs, uint64_t i, uint64_t end, const Store& store) {
  const uint64_t step = 16 * dev_threads();
  DEV_NO_UNROLL
  for (; i + (kUnroll - 1) * step + 16 <= end; i += kUnroll * step) {
    Vec16 data[kUnroll];
#pragma unroll
    for (uint32_t v = 0; v < kUnroll; ++v) data[v] = load16(runs.src(0) + i + v * step);
#pragma unroll
    for (uint32_t v = 0; v < kUnroll; ++v) store(i + v * step, data[v]);
  }
  DEV_NO_UNROLL
  for (; i + 16 <= end; i += step) store(i, load16(runs.src(0) + i));
  return i;
}

/// Several sources: like `copy_whole`.
template <typename Arith, bool kSum, typename Store>
DEV uint64_t reduce_whole(const Runs& runs, uint64_t i, uint64_t end, const Store& store) {
  DEV_NO_UNROLL
  for (; i + 16 <= end; i += 16 * dev_threads()) {
    const auto load = [&](uint32_t source) { return load16(runs.src(source) + i); };
    store(i, combine_vectors<Arith, kSum, kSum ? kInFlight<Arith> : 4>(load, runs.instr().srcs, runs.instr().reduce));
  }
  return i;
}

/// `len` bytes, whole elements, from byte `at` on. A call, so that data in flight has almost all registers.
template <typename Arith, bool kSum>
DEV_CALL void reduce_runs(Runs runs, uint64_t at, uint64_t len) {
  const auto store = [&](uint64_t byte, const Vec16& vec) { store_each(runs, byte, vec); };
  const uint64_t end = at + len;
  uint64_t i = at + 16 * dev_thread();
  if (are_aligned(cache().ranges[runs.number], at, 16)) {
    if (runs.instr().srcs == 1) i = copy_whole(runs, i, end, store);
    else i = reduce_whole<Arith, kSum>(runs, i, end, store);
  }
  if (i < end) reduce_unaligned<Arith>(runs, i, end);
}

/// Sources of which all are packets, or all but one, at multiples of 8: from left to right, several polled at a time.
/// `count`: that of the instruction, with a bit for each source that is packets, of at most 32.
template <typename Arith, bool kSum>
DEV void reduce_packet_runs(const LaunchParams& launch, const Runs& runs, uint32_t count, uint64_t at, uint64_t len) {
  // A packet in flight takes four registers. Payloads whose words are combined by calls (fp8) must be preserved across these.
  using T = typename Arith::T;
  constexpr uint32_t kEach = sizeof(T) == 1 && sizeof(typename Arith::A) == 1 && Native<T>::kRounds ? 2 : 4;
  // In code for elements of one byte to read it again takes an address that is spilled, in other code to keep it takes a register that is.
  const auto packets = [&] { return sizeof(T) == 1 ? count : runs.instr().count; };
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    Accumulator<Arith, Vec8> acc = {};
    const uint32_t srcs = runs.instr().srcs;
    DEV_NO_UNROLL
    for (uint32_t s = 0; s < srcs; s += kEach) {
      const uint32_t mask = packets() >> s & ((1u << kEach) - 1);
      Vec8 payload[kEach] = {};
      const auto from = [&](uint32_t n) { return runs.src(s + n) + 2 * i; };
      const auto await = [&](uint32_t n) { await_packet(launch, from(n), runs.instr().operands + s + n, i / 8); };
      if (mask != 0 && !poll_packets(payload, mask, from, await)) return;
#pragma unroll
      for (uint32_t n = 0; n < kEach; ++n) {
        if (s + n >= srcs) break;
        if (!(mask >> n & 1)) payload[n] = load_any<Vec8>(runs.src(s + n) + i, 8);
        if ((s | n) == 0) acc.start(payload[n]);
        else acc.template add<kSum>(payload[n], runs.instr().reduce);
      }
    }
    const Vec8 result = acc.finish();
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < runs.instr().dsts; ++d) {
      if (runs.is_packets(srcs + d)) store_packet(runs.dst(d) + 2 * i, result, cache().flag);
      else store_any(runs.dst(d) + i, 8, result);
    }
  }
}

}  // namespace mscclpp
