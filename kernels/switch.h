// Switch channels through multicast objects: a store that reaches every member, a load that combines what all members have on
// its way. Where the host has bound none, and for whatever the hardware has no instruction, the members' memories are read
// and written one by one (`reduce.h`, `copy.h`), as on every device before compute capability 9.0.
//
// Integers come out the same in any order, so their sums, minima and maxima are left to the switch. In which order it adds
// floats up nobody says: these are only left to it if the host allows it. Their minima and maxima never are, since nobody says
// what becomes of NaN and of the sign of zero.
//
// A multicast address is another name for the members' memory. What was stored by one name and is loaded by the other must be
// ordered by a fence of such aliases besides all else, on the side that uses the multicast address.
#pragma once
#include "reduce.h"

#if defined(DEV_THREADS) || (!defined(DEV_SIM) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900))
#define MSCCLPP_HAS_MULTICAST false
#else
#define MSCCLPP_HAS_MULTICAST true
#endif

namespace mscclpp {

/// Which reductions of an element type switches have.
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

/// What all members have at an address, in any order, combined in `A`.
template <typename T, typename A>
struct OnSimulatedSwitch {
  static constexpr bool kAdds = true, kCompares = sizeof(T) == sizeof(A) && !(static_cast<A>(0.5f) > static_cast<A>(0));
  template <Reduction kOp>
  DEV static Vec16 load(const char* at) {
    constexpr uint32_t kCount = 16 / sizeof(T);
    Vec16 members[kMostMembers];
    union {
      Vec16 vec;
      T e[kCount];
    } to, from;
    const uint32_t count = sim_multicast_load(at, members, 16, kMostMembers);
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
  static constexpr uint32_t kMostMembers = 64;
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

/// order: none, like a plain store; whole in 16 bytes.
DEV void multicast_store16(char* at, const Vec16& v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]),
               "r"(v.w[3])
               : "memory");
}

/// Between accesses of the same memory by its own address and by a multicast address.
DEV void fence_aliases() { asm volatile("fence.proxy.alias;" ::: "memory"); }

/// 16 bytes by one instruction.
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

/// An element by one instruction, which is chosen when this is compiled.
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
        if constexpr (!compares || kOp == Reduction::Sum) {                                     \
          MSCCLPP_LOAD_ON_SWITCH("add", add, reg, u.e[i], from);                                \
        } else if constexpr (kOp == Reduction::Min) {                                           \
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
// Without minima and maxima, so the instruction for these is not looked at.
MSCCLPP_ELEMENT_ON_SWITCH(double, double, "f64", "u64", "d", false)
#undef MSCCLPP_ELEMENT_ON_SWITCH
#undef MSCCLPP_LOAD_ON_SWITCH

#endif

/// Whether a switch may combine elements: integers always, sums of floats if the launch leaves them to it. Floats that are to be
/// summed in a wider type than the switch sums them in are not.
template <typename Arith>
DEV bool switch_combines(const Launch& launch, Reduction op) {
  using T = typename Arith::T;
  using A = typename Arith::A;
  using Switch = OnSwitch<T>;
  if constexpr (!Switch::kAdds) return false;
  if constexpr (Switch::kCompares) return op != Reduction::Prod;
  constexpr bool kWideEnough = sizeof(A) == sizeof(T) || (sizeof(T) == 2 && sizeof(A) == 4);
  return kWideEnough && launch.float_sums_by_switch != 0 && (op == Reduction::Sum || op == Reduction::Avg);
}

/// The multicast address of a reference that begins at an address; null if there is none. `group`: the number in its operation.
DEV char* multicast_address(const Launch& launch, uint32_t group, char* at, uint32_t space) {
  if (group == 0 || !MSCCLPP_HAS_MULTICAST) return nullptr;
  const uint64_t* scratch = reinterpret_cast<const uint64_t*>(launch.scratch) + 2 * launch.num_ranks;
  const uint64_t* distances = space <= kOutput ? launch.multicast : scratch;
  const uint64_t distance = distances[2 * (group - 1) + space % 2];
  return distance == 0 ? nullptr : at + distance;
}

/// Stores a vector at the multicast address if there is one, else in all destinations.
DEV void switch_store(char* to_all, const Runs& runs, uint64_t byte, const Vec16& vec) {
  if (to_all != nullptr) return multicast_store16(to_all + byte, vec);
  DEV_NO_UNROLL
  for (uint32_t d = 0; d < runs.instr.dsts; ++d) store16(runs.dst(d) + byte, vec);
}

/// The thread's vectors of so many, as `load` gives them: `kInFlight` at a time, as far as there are so many.
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

/// Plain sources into plain destinations, through the switch as far as it takes them.
template <typename Arith>
DEV void reduce_by_switch(const Launch& launch, const Instr& instr, const Range& range, uint64_t at, uint64_t len) {
  using Switch = OnSwitch<typename Arith::T>;
  const Reduction op = reduction_of(instr);
  if (!range.whole) return reduce_pieces<Arith>(launch, instr, at, len);
  if (at >= range.end) return;
  if (len > range.end - at) len = range.end - at;
  const uint32_t first = instr.operands - window().first_place;
  const Runs runs = {instr, first};
  uint64_t addresses = at;
  DEV_NO_UNROLL
  for (uint32_t i = 0; i < runs.instr.srcs + runs.instr.dsts; ++i) addresses |= reinterpret_cast<uint64_t>(runs.src(i));
  if ((addresses & 15) != 0) return reduce_unlike<Arith>(runs, at + 16 * dev_thread(), at + len);
  const uint32_t from_space = window().places[first].space, to_space = window().places[first + instr.srcs].space;
  const char* from_all = nullptr;
  if (switch_combines<Arith>(launch, op)) from_all = multicast_address(launch, instr.src_group, runs.src(0), from_space);
  char* to_all = multicast_address(launch, instr.dst_group, runs.dst(0), to_space);
  const uint64_t vectors = len / 16;
  const bool sums = op == Reduction::Sum || op == Reduction::Avg;
  if (from_all != nullptr || to_all != nullptr) fence_aliases();
  if (from_all == nullptr) {
    auto single = [&](uint64_t byte) { return load16(runs.src(0) + byte); };
    auto sum = [&](uint64_t byte) { return combine_at<Arith, true, true>(runs, byte, 16); };
    auto other = [&](uint64_t byte) { return combine_at<Arith, false, true>(runs, byte, 16); };
    if (instr.srcs == 1) switch_vectors<kUnroll>(single, to_all, runs, at, vectors);
    else if (sums) switch_vectors<1>(sum, to_all, runs, at, vectors);
    else switch_vectors<1>(other, to_all, runs, at, vectors);
  } else if constexpr (Switch::kAdds) {
    auto sum = [&](uint64_t byte) { return Switch::template load<Reduction::Sum>(from_all + byte); };
    if (sums) switch_vectors<kUnroll>(sum, to_all, runs, at, vectors);
    if constexpr (Switch::kCompares) {
      auto least = [&](uint64_t byte) { return Switch::template load<Reduction::Min>(from_all + byte); };
      auto most = [&](uint64_t byte) { return Switch::template load<Reduction::Max>(from_all + byte); };
      if (op == Reduction::Min) switch_vectors<kUnroll>(least, to_all, runs, at, vectors);
      if (op == Reduction::Max) switch_vectors<kUnroll>(most, to_all, runs, at, vectors);
    }
  }
  if (from_all != nullptr || to_all != nullptr) fence_aliases();
  // What is no whole vector is done by the thread whose turn it is.
  if (len % 16 != 0 && vectors % dev_threads() == dev_thread()) reduce_unlike<Arith>(runs, at + 16 * vectors, at + len);
}

/// The packets of a source to all destinations, at once if these have a multicast address.
DEV void forward_by_switch(const Launch& launch, const Instr& instr, uint64_t at, uint64_t len) {
  const uint32_t src = instr.operands, dst = src + instr.srcs;
  char* to_all = multicast_address(launch, instr.dst_group, packets_of(launch, dst), kPackets);
  if (to_all == nullptr) return forward(launch, src, dst, instr.dsts, at, len);
  const char* from = packets_of(launch, src);
  const uint32_t flag = window().flag;
  DEV_NO_UNROLL
  for (uint64_t i = at + 8 * dev_thread(); i < at + len; i += 8 * dev_threads()) {
    const Vec8 payload = take_packet(launch, from + 2 * i, src, i / 8);
    multicast_store16(to_all + 2 * i, Vec16{{payload.w[0], flag, payload.w[1], flag}});
  }
}

}  // namespace mscclpp
