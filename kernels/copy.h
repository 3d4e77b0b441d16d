// Copies: plain to plain, plain to packets, packets to plain.
// Every function: called by all threads of the block with the same arguments; does not sync.
//
// Functions named `..._runs` move operands that are one run each, several vectors or packets of a thread in flight. `spans.h` has the
// same copies for any operands.
//
// Invariant: byte `i` of a range of plain data belongs to thread `i / 16` modulo the block's threads, in every operation and
// at every alignment. For that reason the checks allow plans to omit a block sync between operations on
// the same range. Byte `i` of packets' payload belongs to thread `i / 8`.
#pragma once
#include "packet.h"
#include "wait.h"

namespace mscclpp {

/// Vectors that a thread has in flight.
constexpr uint32_t kUnroll = 4;

/// This thread's first vector of a run, where `before` vectors of the range precede the run.
DEV uint64_t first_vector(uint64_t before) {
  const uint32_t threads = dev_threads(), t = dev_thread();
  return before == 0 ? t : (t + threads - static_cast<uint32_t>(before % threads)) % threads;
}

/// `copy_bytes` from the thread's vector `v` on, of any alignment.
DEV_CALL void copy_unaligned(char* dst, const char* src, uint64_t len, uint64_t v) {
  const uint32_t threads = dev_threads();
  const uint64_t vectors = len / 16;
  DEV_NO_UNROLL
  for (; v < vectors; v += threads) {
    store_any(dst + 16 * v, alignment_of(dst), load_any<Vec16>(src + 16 * v, alignment_of(src)));
  }
  const uint32_t rest = len % 16;
  if (rest != 0 && v == vectors) store_part(dst + 16 * v, rest, load_part<Vec16>(src + 16 * v, rest));
}

/// `before`: bytes of the range that precede these. If that is not a multiple of 16, neither are the offsets of chunks, and no plan
/// relies on which thread moves which bytes.
DEV void copy_bytes(char* dst, const char* src, uint64_t len, uint64_t before) {
  const uint32_t threads = dev_threads();
  const uint64_t vectors = len / 16;
  uint64_t v = first_vector(before / 16);
  if (((reinterpret_cast<uint64_t>(dst) | reinterpret_cast<uint64_t>(src)) & 15) == 0) {
    DEV_NO_UNROLL
    for (; v + (kUnroll - 1) * threads < vectors; v += kUnroll * threads) {
      const char* from = src + 16 * v;
      char* to = dst + 16 * v;
      Vec16 data[kUnroll];
#pragma unroll
      for (uint32_t i = 0; i < kUnroll; ++i) data[i] = load16(from + i * 16 * threads);
#pragma unroll
      for (uint32_t i = 0; i < kUnroll; ++i) store16(to + i * 16 * threads, data[i]);
    }
    DEV_NO_UNROLL
    for (; v < vectors; v += threads) store16(dst + 16 * v, load16(src + 16 * v));
  }
  if (16 * v < len) copy_unaligned(dst, src, len, v);
}

/// Packs `len` bytes at a multiple of 8, which are loaded once, into each of `dsts` destinations, which are at `to(number)`;
/// `kUnrolled`: of these, how many stores of one vector follow one another without a loop.
template <uint32_t kUnrolled, typename To>
DEV void pack_bytes(uint32_t dsts, const To& to, const char* from, uint64_t len) {
  const uint32_t step = 8 * dev_threads(), flag = cache().flag;
  uint64_t i = 8 * dev_thread();
  DEV_NO_UNROLL
  for (; i + (kUnroll - 1) * step < len; i += kUnroll * step) {
    Vec8 data[kUnroll];
#pragma unroll
    for (uint32_t j = 0; j < kUnroll; ++j) data[j] = load_any<Vec8>(from + i + j * step, 8);
#pragma unroll kUnrolled
    for (uint32_t d = 0; d < dsts; ++d) {
#pragma unroll
      for (uint32_t j = 0; j < kUnroll; ++j) store_packet(to(d) + 2 * (i + j * step), data[j], flag);
    }
  }
  DEV_NO_UNROLL
  for (; i < len; i += step) {
    const Vec8 data = load_any<Vec8>(from + i, 8);
#pragma unroll kUnrolled
    for (uint32_t d = 0; d < dsts; ++d) store_packet(to(d) + 2 * i, data, flag);
  }
}

/// Waits for packet `number` of operand `source`. Returns: its payload; zeros if the wait aborted.
DEV Vec8 await_packet(const LaunchParams& launch, const char* at, uint32_t source, uint64_t number) {
  Vec8 payload;
  uint32_t seen;
  PollTimeout timeout;
  DEV_NO_UNROLL
  while (!load_packet(at, cache().flag, payload, seen)) {
    if (cache().failed) return Vec8{{0, 0}};
    if (timeout.is_expired(launch)) {
      abort_launch(launch, WaitInfo{WaitKind::kPacket, source, number, cache().flag, seen});
      return Vec8{{0, 0}};
    }
  }
  return payload;
}

/// Does the same in a call, for loops that seldom wait: code of its own in each of them would take more room.
DEV_CALL Vec8 await_late_packet(const LaunchParams& launch, const char* at, uint32_t source, uint64_t number) {
  return await_packet(launch, at, source, number);
}

DEV Vec8 take_packet(const LaunchParams& launch, const char* at, uint32_t source, uint64_t number) {
  Vec8 payload;
  uint32_t seen;
  return load_packet(at, cache().flag, payload, seen) ? payload : await_late_packet(launch, at, source, number);
}

/// Polls packets of several operands, those whose bit is in the mask, until all have arrived. `at(n)`: address of the `n`-th one;
/// `await(n)`: waits for it with a timeout, while no payload is in registers. Returns: whether all have arrived.
template <uint32_t kCount, typename At, typename Await>
DEV bool poll_packets(Vec8 (&payload)[kCount], uint64_t mask, const At& at, const Await& await) {
  DEV_NO_UNROLL
  for (uint32_t polls = 1;; ++polls) {
    uint32_t missing = kCount, seen;
    // From right to left, so that the leftmost missing one is reported.
#pragma unroll
    for (uint32_t n = kCount; n-- > 0;) {
      if ((mask >> n & 1) && !load_packet(at(n), cache().flag, payload[n], seen)) missing = n;
    }
    if (missing == kCount) return true;
    dev_relax();
    if (polls % kPollsPerCheck != 0) continue;
    await(missing);
    if (cache().failed) return false;
  }
}

/// Packets from byte `i` of operand `number` on, `step` bytes apart, into a plain destination at multiples of 8. Returns: whether all
/// have arrived.
template <uint32_t kCount>
DEV bool unpack_vectors(const LaunchParams& launch, const char* from, char* to, uint32_t number, uint64_t i, uint32_t step) {
  Vec8 payload[kCount];
  const auto at = [&](uint32_t n) { return from + 2 * (i + n * step); };
  const auto await = [&](uint32_t n) { await_late_packet(launch, at(n), number, (i + n * step) / 8); };
  if (!poll_packets(payload, ~0ull, at, await)) return false;
#pragma unroll
  for (uint32_t n = 0; n < kCount; ++n) store_any(to + i + n * step, 8, payload[n]);
  return true;
}

/// Unpacks bytes `at..end` of operand `number`. Returns: whether all have arrived.
DEV bool unpack_bytes(const LaunchParams& launch, const char* from, char* to, uint32_t number, uint64_t at, uint64_t end) {
  const uint32_t step = 8 * dev_threads();
  uint64_t i = at + 8 * dev_thread();
  DEV_NO_UNROLL
  for (; i + (kUnroll - 1) * step < end; i += kUnroll * step) {
    if (!unpack_vectors<kUnroll>(launch, from, to, number, i, step)) return false;
  }
  DEV_NO_UNROLL
  for (; i < end; i += step) {
    if (!unpack_vectors<1>(launch, from, to, number, i, step)) return false;
  }
  return true;
}

/// The packets of `src` to each of the `dsts` operands from `dst` on.
DEV void forward(const LaunchParams& launch, uint32_t src, uint32_t dst, uint32_t dsts, uint64_t at,
                 uint64_t len) {
  const char* from = packets_of(launch, src);
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    Vec8 payload = take_packet(launch, from + 2 * i, src, i / 8);
    DEV_NO_UNROLL
    for (uint32_t d = 0; d < dsts; ++d) store_packet(packets_of(launch, dst + d) + 2 * i, payload, cache().flag);
  }
}

/// Waits until all packets of an operand have arrived.
DEV void await_packets(const LaunchParams& launch, uint32_t src, uint64_t at, uint64_t len) {
  const char* from = packets_of(launch, src);
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    take_packet(launch, from + 2 * i, src, i / 8);
  }
}

/// Operands of an instruction in the cache that are one run each. The instruction is read again each time, because registers are
/// needed for data in flight.
struct Runs {
  /// Its index in the cache, and that of its first operand.
  uint32_t number, first;

  DEV const Instr& instr() const { return cache().instrs[number]; }
  DEV char* src(uint32_t source) const { return head_at(first + source); }
  DEV char* dst(uint32_t destination) const { return head_at(first + instr().srcs + destination); }
  DEV bool is_packets(uint32_t operand) const {
    return cache().operands[first + operand].space_number == static_cast<uint32_t>(Space::kPackets);
  }
};

DEV Runs runs_of(const Instr& instr) {
  return Runs{static_cast<uint32_t>(&instr - cache().instrs), instr.operands - cache().first_operand};
}

/// Each source into its destination.
DEV void copy_runs(const Runs& runs, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (uint32_t pair = 0; pair < runs.instr().srcs; ++pair) copy_bytes(runs.dst(pair) + at, runs.src(pair) + at, len, 0);
}

/// Each source into the packets of its destination; a single one into those of all destinations.
DEV void pack_runs(const Runs& runs, uint64_t at, uint64_t len) {
  const uint32_t dsts = runs.instr().srcs == 1 ? runs.instr().dsts : 1;
  DEV_NO_UNROLL
  for (uint32_t source = 0; source < runs.instr().srcs; ++source) {
    pack_bytes<1>(dsts, [&](uint32_t d) { return runs.dst(source + d) + 2 * at; }, runs.src(source) + at, len);
  }
}

// A call on sm_100, inlined elsewhere: otherwise nvcc 13.0 spills registers of the interpreter.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define MSCCLPP_UNPACK_RUNS DEV_CALL
#else
#define MSCCLPP_UNPACK_RUNS DEV
#endif

/// The packets of each source into its destination.
MSCCLPP_UNPACK_RUNS void unpack_runs(const LaunchParams& launch, Runs runs, uint64_t at, uint64_t len) {
  DEV_NO_UNROLL
  for (uint32_t pair = 0; pair < runs.instr().srcs; ++pair) {
    if (!unpack_bytes(launch, runs.src(pair), runs.dst(pair), runs.instr().operands + pair, at, at + len)) return;
  }
}

}  // namespace mscclpp
