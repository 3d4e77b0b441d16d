// Switch channels through multicast objects: a store that reaches every member, a load that combines the values of all members.
// Without a multicast object, and for reductions without an instruction, the members' memories are read and written one by one
// (`reduce.h`, `copy.h`), as on every device before compute capability 9.0.
//
// The results of integers do not depend on the order, so switches compute their sums, minima and maxima. The order in which a
// switch adds floats is unspecified: switches sum them only if the host allows it. Switches never compute minima and maxima of
// floats, because the results for NaN and for the sign of zero are unspecified.
//
// A multicast address is an alias of the members' memory. Between a store by one alias and a load by the other, the side that uses
// the multicast address must execute an alias fence, in addition to all other ordering.
#pragma once
#include "reduce.h"

#if defined(DEV_THREADS) || (!defined(DEV_SIM) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900))
#define MSCCLPP_HAS_MULTICAST false
#else
#define MSCCLPP_HAS_MULTICAST true
#endif

namespace mscclpp {

/// The reductions of an element type that switches support.
template <typename T>
struct OnSwitch {
  static constexpr bool kAdds = false, kCompares = false;
};

#if !MSCCLPP_HAS_MULTICAST

DEV void multicast_store16(char*, const Vec16&) {}
DEV void fence_aliases() {}

#elif defined(DEV_SIM)

DEV void multicast_store16(char* at, const Vec16& v) { sim_multicast_store(at, &v, 16); }
DEV void fence_aliases() {}

/// Combines the values of all members at an address in `A`, in any order.
template <typename T, typename A>
struct OnSimulatedSwitch {
  static constexpr bool kAdds = true, kCompares = sizeof(T) == sizeof(A) && !(static_cast<A>(0.5f) > static_cast<A>(0));
  template <Reduction kOp>
  DEV static Vec16 load(const char* at) {
    constexpr uint32_t kCount = 16 / sizeof(T);
    Vec16 members[kMaxMembers];
    union {
      Vec16 vec;
      T e[kCount];
    } to, from;
    const uint32_t count = sim_multicast_load(at, members, 16, kMaxMembers);
    A acc[kCount];
    for (uint32_t m = 0; m < count; ++m) {
      from.vec = members[m];
      for (uint32_t i = 0; i < kCount; ++i) {
        const A value = Via<T, A>::widen(from.e[i]);
        acc[i] = m == 0 ? value : combine_wrapping<kOp, A>(acc[i], value);
      }
    }
    for (uint32_t i = 0; i < kCount; ++i) to.e[i] = count == 0 ? T{} : Via<T, A>::narrow(acc[i]);
    return to.vec;
  }
  static constexpr uint32_t kMaxMembers = 64;
};
template <>
struct OnSwitch<int32_t> : OnSimulatedSwitch<int32_t, int32_t> {};
template <>
struct OnSwitch<uint32_t> : OnSimulatedSwitch<uint32_t, uint32_t> {};
template <>
struct OnSwitch<int64_t> : OnSimulatedSwitch<int64_t, int64_t> {};
template <>
struct OnSwitch<uint64_t> : OnSimulatedSwitch<uint64_t, uint64_t> {};
template <>
struct OnSwitch<float> : OnSimulatedSwitch<float, float> {};
template <>
struct OnSwitch<double> : OnSimulatedSwitch<double, double> {};
template <>
struct OnSwitch<F16> : OnSimulatedSwitch<F16, float> {};
template <>
struct OnSwitch<BF16> : OnSimulatedSwitch<BF16, float> {};

#else

/// order: none, like a plain store; 16 bytes as a whole.
DEV void multicast_store16(char* at, const Vec16& v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]),
               "r"(v.w[3])
               : "memory");
}

/// order: between accesses of the same memory by its own address and by a multicast address.
DEV void fence_aliases() { asm volatile("fence.proxy.alias;" ::: "memory"); }

/// Types of which one instruction loads 16 bytes.
#define MSCCLPP_VECTOR_ON_SWITCH(T, ptx)                                        \
  template <>                                                                   \
  struct OnSwitch<T> {                                                          \
    static constexpr bool kAdds = true, kCompares = false;                      \
    template <Reduction kOp>                                                    \
    DEV static Vec16 load(const char* at) {                                     \
      Vec16 v;                                                                  \
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add" ptx " {%0, %1, %2, %3}, [%4];" \
                   : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])     \
                   : "l"(at)                                                    \
                   : "memory");                                                 \
      return v;                                                                 \
    }                                                                           \
  };
MSCCLPP_VECTOR_ON_SWITCH(float, ".v4.f32")
MSCCLPP_VECTOR_ON_SWITCH(F16, ".acc::f32.v4.f16x2")
MSCCLPP_VECTOR_ON_SWITCH(BF16, ".acc::f32.v4.bf16x2")
#undef MSCCLPP_VECTOR_ON_SWITCH

/// Types of which one instruction loads one element.
#define MSCCLPP_LOAD_ON_SWITCH(op, type, reg, value, at) \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." op "." type " %0, [%1];" : "=" reg(value) : "l"(at) : "memory")
#define MSCCLPP_ELEMENT_ON_SWITCH(T, Register, add, type, reg, compares)                        \
  template <>                                                                                   \
  struct OnSwitch<T> {                                                                          \
    static constexpr bool kAdds = true, kCompares = compares;                                   \
    template <Reduction kOp>                                                                    \
    DEV static Vec16 load(const char* at) {                                                     \
      union {                                                                                   \
        Vec16 vec;                                                                              \
        Register e[16 / sizeof(T)];                                                             \
      } u;                                                                                      \
      _Pragma("unroll") for (uint32_t i = 0; i < 16 / sizeof(T); ++i) {                         \
        const char* from = at + i * sizeof(T);                                                  \
        if constexpr (!compares || kOp == Reduction::kSum) {                                     \
          MSCCLPP_LOAD_ON_SWITCH("add", add, reg, u.e[i], from);                                \
        } else if constexpr (kOp == Reduction::kMin) {                                           \
          MSCCLPP_LOAD_ON_SWITCH("min", type, reg, u.e[i], from);                               \
        } else {                                                                                \
          MSCCLPP_LOAD_ON_SWITCH("max", type, reg, u.e[i], from);                               \
        }                                                                                       \
      }                                                                                         \
      return u.vec;                                                                             \
    }                                                                                           \
  };
MSCCLPP_ELEMENT_ON_SWITCH(int32_t, uint32_t, "u32", "s32", "r", true)
MSCCLPP_ELEMENT_ON_SWITCH(uint32_t, uint32_t, "u32", "u32", "r", true)
MSCCLPP_ELEMENT_ON_SWITCH(int64_t, uint64_t, "u64", "s64", "l", true)
MSCCLPP_ELEMENT_ON_SWITCH(uint64_t, uint64_t, "u64", "u64", "l", true)
// Has no minima and maxima, so the type of their instruction is not used.
MSCCLPP_ELEMENT_ON_SWITCH(double, double, "f64", "u64", "d", false)
#undef MSCCLPP_ELEMENT_ON_SWITCH
#undef MSCCLPP_LOAD_ON_SWITCH

#endif

/// Whether a switch may combine elements: integers always, sums of floats if the launch allows it. A switch does not sum floats
/// whose accumulator type is wider than the switch's.
template <typename Arith>
DEV bool switch_combines(const LaunchParams& launch, Reduction op) {
  using T = typename Arith::T;
  using A = typename Arith::A;
  using Switch = OnSwitch<T>;
  if constexpr (!Switch::kAdds) return false;
  if constexpr (Switch::kCompares) return op != Reduction::kProd;
  constexpr bool kWideEnough = sizeof(A) == sizeof(T) || (sizeof(T) == 2 && sizeof(A) == 4);
  return kWideEnough && launch.float_sums_by_switch != 0 && (op == Reduction::kSum || op == Reduction::kAvg);
}

/// The multicast address of an operand that begins at an address; null if there is none. `group`: its group in the instruction.
DEV char* multicast_address(const LaunchParams& launch, uint32_t group, char* at, Space space) {
  if (group == 0 || !MSCCLPP_HAS_MULTICAST) return nullptr;
  const uint64_t* scratch = reinterpret_cast<const uint64_t*>(launch.scratch) + 2 * launch.num_ranks;
  const uint64_t* distances = space <= Space::kOutput ? launch.multicast : scratch;
  const uint64_t distance = distances[2 * (group - 1) + static_cast<uint32_t>(space) % 2];
  return distance == 0 ? nullptr : at + distance;
}

/// Stores a vector at the multicast address if there is one, else in all destinations.
DEV void switch_store(char* to_all, const Runs& runs, uint64_t byte, const Vec16& vec) {
  if (to_all != nullptr) return multicast_store16(to_all + byte, vec);
  DEV_NO_UNROLL
  for (uint32_t d = 0; d < runs.instr.dsts; ++d) store16(runs.dst(d) + byte, vec);
}

/// Stores the thread's vectors, of `vectors` in total, that `load` returns; up to `kInFlight` are in flight.
template <uint32_t kInFlight, typename Load>
DEV void switch_vectors(const Load& load, char* to_all, const Runs& runs, uint64_t at, uint64_t vectors) {
  const uint32_t threads = dev_threads();
  uint64_t v = dev_thread();
  DEV_NO_UNROLL
  for (; v + (kInFlight - 1) * threads < vectors; v += kInFlight * threads) {
    Vec16 data[kInFlight];
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) data[i] = load(at + 16 * (v + i * threads));
#pragma unroll
    for (uint32_t i = 0; i < kInFlight; ++i) switch_store(to_all, runs, at + 16 * (v + i * threads), data[i]);
  }
  DEV_NO_UNROLL
  for (; v < vectors; v += threads) switch_store(to_all, runs, at + 16 * v, load(at + 16 * v));
}

/// Plain sources into plain destinations, through the switch where it supports them.
template <typename Arith>
DEV void reduce_by_switch(const LaunchParams& launch, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  using Switch = OnSwitch<typename Arith::T>;
  const Reduction op = instr.reduce;
  if (!range.whole) return reduce_elements<Arith>(launch, instr, at, len);
  if (at >= range.end) return;
  if (len > range.end - at) len = range.end - at;
  const uint32_t first = instr.operands - cache().first_operand;
  const Runs runs = {instr, first};
  uint64_t addresses = at;
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < runs.instr.srcs + runs.instr.dsts; ++i) addresses |= reinterpret_cast<uint64_t>(runs.src(i));
  if ((addresses & 15) != 0) return reduce_unaligned<Arith>(runs, at + 16 * dev_thread(), at + len);
  const Space from_space = static_cast<Space>(cache().operands[first].space_number);
  const Space to_space = static_cast<Space>(cache().operands[first + instr.srcs].space_number);
  const char* from_all = nullptr;
  if (switch_combines<Arith>(launch, op)) from_all = multicast_address(launch, instr.src_group, runs.src(0), from_space);
  char* to_all = multicast_address(launch, instr.dst_group, runs.dst(0), to_space);
  const uint64_t vectors = len / 16;
  const bool sums = op == Reduction::kSum || op == Reduction::kAvg;
  if (from_all != nullptr || to_all != nullptr) fence_aliases();
  if (from_all == nullptr) {
    auto single = [&](uint64_t byte) { return load16(runs.src(0) + byte); };
    auto sum = [&](uint64_t byte) { return combine_at<Arith, true, true>(runs, byte, 16); };
    auto other = [&](uint64_t byte) { return combine_at<Arith, false, true>(runs, byte, 16); };
    if (instr.srcs == 1) switch_vectors<kUnroll>(single, to_all, runs, at, vectors);
    else if (sums) switch_vectors<1>(sum, to_all, runs, at, vectors);
    else switch_vectors<1>(other, to_all, runs, at, vectors);
  } else if constexpr (Switch::kAdds) {
    auto sum = [&](uint64_t byte) { return Switch::template load<Reduction::kSum>(from_all + byte); };
    if (sums) switch_vectors<kUnroll>(sum, to_all, runs, at, vectors);
    if constexpr (Switch::kCompares) {
      auto min = [&](uint64_t byte) { return Switch::template load<Reduction::kMin>(from_all + byte); };
      auto max = [&](uint64_t byte) { return Switch::template load<Reduction::kMax>(from_all + byte); };
      if (op == Reduction::kMin) switch_vectors<kUnroll>(min, to_all, runs, at, vectors);
      if (op == Reduction::kMax) switch_vectors<kUnroll>(max, to_all, runs, at, vectors);
    }
  }
  if (from_all != nullptr || to_all != nullptr) fence_aliases();
  // The thread that would process the next vector processes the partial one.
  if (len % 16 != 0 && vectors % dev_threads() == dev_thread()) reduce_unaligned<Arith>(runs, at + 16 * vectors, at + len);
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
