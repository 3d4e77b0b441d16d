// Reductions of several sources into several destinations, from left to right. Any length, any alignment, any type.
// Every function: called by all threads of the block with the same arguments; does not sync.
#pragma once
#include "copy.h"
#include "number.h"

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

/// An element as a vector of one.
template <typename T>
struct Single {
  T value;
};

/// Maximum number of source vectors that a thread has in flight; registers limit it.
template <typename Arith, typename T = typename Arith::T>
constexpr uint32_t kBatch = sizeof(T) == 8 ? 2 : sizeof(T) > 1 ? 4 : 1;

/// Operands of an instruction in the cache that are one run each, from index `first` of the cache on. The instruction is read again
/// each time, because registers are needed elsewhere.
struct Runs {
  const Instr& instr;
  uint32_t first;

  DEV char* src(uint32_t number) const { return cache().heads[first + number]; }
  DEV char* dst(uint32_t number) const { return cache().heads[first + instr.srcs + number]; }
};

DEV Reduction reduction_of(const Instr& instr) { return static_cast<Reduction>(instr.reduce); }

/// Combines the vectors at byte `at` of all sources, or their first `bytes`. `kAligned`: all vectors are whole, and all addresses
/// are multiples of 16.
template <typename Arith, bool kSum, bool kAligned>
DEV Vec16 combine_at(const Runs& runs, uint64_t at, uint32_t bytes) {
  auto load = [&](uint32_t number) {
    const char* from = runs.src(number) + at;
    if (!kAligned && bytes < 16) return load_part<Vec16>(from, bytes);
    return load_any<Vec16>(from, kAligned ? 16 : alignment_of(from));
  };
  if (runs.instr.srcs == 1) return load(0);
  Accumulator<Arith, Vec16> acc;
  acc.start(load(0));
  constexpr uint32_t kEach = kAligned || kBatch<Arith> < 2 ? kBatch<Arith> : 2;
  uint32_t s = 1;
  DEV_NO_UNROLL
  for (; s + kEach <= runs.instr.srcs; s += kEach) {
    Vec16 data[kEach];
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) data[i] = load(s + i);
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) acc.template add<kSum>(data[i], runs.instr.reduce);
  }
  DEV_NO_UNROLL
  for (; s < runs.instr.srcs; ++s) acc.template add<kSum>(load(s), runs.instr.reduce);
  return acc.finish();
}

/// Vectors that may be partial or unaligned: those of this thread from the one at byte `i` up to byte `end`.
template <typename Arith>
DEV_CALL void reduce_unaligned(Runs runs, uint64_t i, uint64_t end) {
  DEV_NO_UNROLL
  for (; i < end; i += 16 * dev_threads()) {
    const uint32_t bytes = end - i < 16 ? static_cast<uint32_t>(end - i) : 16;
    Vec16 result = combine_at<Arith, false, false>(runs, i, bytes);
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < runs.instr.dsts; ++d) {
      char* to = runs.dst(d) + i;
      if (bytes < 16) store_part(to, bytes, result);
      else store_any(to, alignment_of(to), result);
    }
  }
}

/// `len` bytes, whole elements, from byte `at` on.
template <typename Arith, bool kSum>
DEV void reduce_runs(const Runs& runs, uint64_t at, uint64_t len) {
  uint64_t addresses = at;
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < runs.instr.srcs + runs.instr.dsts; ++i) addresses |= reinterpret_cast<uint64_t>(runs.src(i));
  const uint64_t end = at + len;
  uint64_t i = at + 16 * dev_thread();
  if ((addresses & 15) == 0) {
    DEV_NO_UNROLL
    for (; i + 16 <= end; i += 16 * dev_threads()) {
      Vec16 result = combine_at<Arith, kSum, true>(runs, i, 16);
      DEV_NO_UNROLL
      for (uint32_t d = 0; d < runs.instr.dsts; ++d) store16(runs.dst(d) + i, result);
    }
  }
  if (i < end) reduce_unaligned<Arith>(runs, i, end);
}

/// Bytes from the element at byte `i` of a range to this thread's next one; a thread's vectors are 16 bytes long.
template <typename T>
DEV uint64_t next_element(uint64_t i) {
  return (i + sizeof(T)) % 16 != 0 ? sizeof(T) : sizeof(T) + 16 * (static_cast<uint64_t>(dev_threads()) - 1);
}

/// Plain sources into plain destinations if not every operand is one run: element by element, resolving the address of each.
template <typename Arith>
DEV_CALL void reduce_elements(const LaunchParams& launch, const Instr& instr, uint64_t at, uint64_t len) {
  using T = typename Arith::T;
  DEV_NO_UNROLL
  for (uint64_t i = at + 16 * dev_thread(); i < at + len; i += next_element<T>(i - at)) {
    auto load = [&](uint32_t number) {
      Span span = span_at(launch, instr.operands + number, i, sizeof(T));
      return span.len < sizeof(T) ? Single<T>{} : Single<T>{load_plain<T>(span.at)};
    };
    Accumulator<Arith, Single<T>> acc;
    acc.start(load(0));
    DEV_NO_UNROLL
    for (uint32_t s = 1; s < instr.srcs; ++s) acc.template add<false>(load(s), instr.reduce);
    Single<T> result = acc.finish();
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < instr.dsts; ++d) {
      Span span = span_at(launch, instr.operands + instr.srcs + d, i, sizeof(T));
      if (span.len >= sizeof(T)) store_plain<T>(span.at, result.value);
    }
  }
}

/// Combines the sources at byte `i`: packets from left to right, then the plain ones.
template <typename Arith, bool kSum>
DEV Vec8 combine_packets(const LaunchParams& launch, const Instr& instr, uint64_t i) {
  Accumulator<Arith, Vec8> acc;
  Vec8 payload = {{0, 0}};
  bool first = true;
  auto take = [&] {
    if (first) acc.start(payload);
    else acc.template add<kSum>(payload, instr.reduce);
    first = false;
  };
  DEV_NO_UNROLL
  for (uint32_t s = instr.operands; s < instr.operands + instr.srcs; ++s) {
    if (space_of(launch, s) != Space::kPackets) continue;
    payload = take_packet(launch, packets_of(launch, s) + 2 * i, s, i / 8);
    take();
  }
  DEV_NO_UNROLL
  for (uint32_t s = instr.operands; s < instr.operands + instr.srcs; ++s) {
    if (space_of(launch, s) == Space::kPackets) continue;
    Span span = span_at(launch, s, i, 8);
    payload = load_payload(span.at, span.len);
    take();
  }
  // A single source is not changed.
  return instr.srcs == 1 ? payload : acc.finish();
}

/// Operands of which some are packets.
template <typename Arith, bool kSum>
DEV void reduce_packets(const LaunchParams& launch, const Instr& instr, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    const Vec8 result = combine_packets<Arith, kSum>(launch, instr, i);
    DEV_NO_UNROLL
    for (uint32_t d = instr.operands + instr.srcs; d < instr.operands + instr.srcs + instr.dsts; ++d) {
      if (space_of(launch, d) == Space::kPackets) {
        store_packet(packets_of(launch, d) + 2 * i, result, cache().flag);
      } else {
        Span span = span_at(launch, d, i, 8);
        store_payload(span.at, span.len, result);
      }
    }
  }
}

}  // namespace mscclpp
