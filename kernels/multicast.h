// Multicast addresses: a store that reaches every member, loads that combine the values of all members, and the fence between the
// aliases of memory. Devices before compute capability 9.0 have none.
//
// A multicast address is an alias of the members' memory. Between a store by one alias and a load by the other, the side that uses
// the multicast address must execute an alias fence, in addition to all other ordering: one on the path from the store to the load,
// by any thread.
#pragma once
#include "number.h"
#include "vector.h"

#if defined(DEV_THREADS) || (!defined(DEV_SIM) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900))
#define MSCCLPP_HAS_MULTICAST false
#else
#define MSCCLPP_HAS_MULTICAST true
#endif

namespace mscclpp {

/// The reductions of an element type that switches support: sums; minima and maxima; and whether all of them give the bits of other
/// processors, whatever the order.
template <typename T>
struct OnSwitch {
  static constexpr bool kAdds = false, kCompares = false, kIsExact = false;
};

/// Combines the elements of 16 bytes of several members in `A`, from the first to the last, and rounds once. `load` returns the bytes of a
/// member. `kSkipsNan`: whether NaN counts only if all members have it.
template <typename T, typename A, Reduction kOp, bool kSkipsNan = false, typename Load>
DEV Vec16 combine_members(uint64_t members, const Load& load) {
  constexpr uint32_t kCount = 16 / sizeof(T);
  union {
    Vec16 vec;
    T e[kCount];
  } to, from;
  A acc[kCount] = {};
  DEV_NO_UNROLL
  for (uint64_t member = 0; member < members; ++member) {
    from.vec = load(member);
    for (uint32_t i = 0; i < kCount; ++i) {
      const A value = Via<T, A>::widen(from.e[i]);
      if (member == 0 || (kSkipsNan && acc[i] != acc[i])) acc[i] = value;
      else if (!kSkipsNan || value == value) acc[i] = combine_wrapping<kOp, A>(acc[i], value);
    }
  }
  for (uint32_t i = 0; i < kCount; ++i) to.e[i] = Via<T, A>::narrow(acc[i]);
  return to.vec;
}

#if !MSCCLPP_HAS_MULTICAST

DEV void multicast_store16(char*, const Vec16&) {}
DEV void fence_aliases() {}

#elif defined(DEV_SIM)

DEV void multicast_store16(char* at, const Vec16& v) { sim_multicast_store(at, &v, 16); }
DEV void fence_aliases() {}

/// Combines the values of all members at an address in `A`, in any order. Minima and maxima of floats skip NaN: what a switch returns for
/// it is unspecified, so no caller may depend on it.
template <typename T, typename A>
struct OnSimulatedSwitch {
  static constexpr bool kIsExact = !(static_cast<A>(0.5f) > static_cast<A>(0));
  static constexpr bool kAdds = true, kCompares = kIsExact || sizeof(T) == 2;
  template <Reduction kOp>
  DEV static Vec16 load(const char* at) {
    Vec16 members[kMaxMembers];
    const uint32_t count = sim_multicast_load(at, members, 16, kMaxMembers);
    return combine_members<T, A, kOp, !kIsExact && kOp != Reduction::kSum>(count, [&](uint64_t member) { return members[member]; });
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

/// Types of which one instruction loads 16 bytes. `compares`: whether there are instructions for minima and maxima.
#define MSCCLPP_LOAD_VECTOR_ON_SWITCH(op, ptx)                              \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." op ptx " {%0, %1, %2, %3}, [%4];" \
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])     \
               : "l"(at)                                                    \
               : "memory")
#define MSCCLPP_VECTOR_ON_SWITCH(T, add, compare, compares)                                     \
  template <>                                                                                   \
  struct OnSwitch<T> {                                                                          \
    static constexpr bool kAdds = true, kCompares = compares, kIsExact = false;                 \
    template <Reduction kOp>                                                                    \
    DEV static Vec16 load(const char* at) {                                                     \
      Vec16 v;                                                                                  \
      if constexpr (!compares || kOp == Reduction::kSum) {                                      \
        MSCCLPP_LOAD_VECTOR_ON_SWITCH("add", add);                                              \
      } else if constexpr (kOp == Reduction::kMin) {                                            \
        MSCCLPP_LOAD_VECTOR_ON_SWITCH("min", compare);                                          \
      } else {                                                                                  \
        MSCCLPP_LOAD_VECTOR_ON_SWITCH("max", compare);                                          \
      }                                                                                         \
      return v;                                                                                 \
    }                                                                                           \
  };
MSCCLPP_VECTOR_ON_SWITCH(F16, ".acc::f32.v4.f16x2", ".v4.f16x2", true)
MSCCLPP_VECTOR_ON_SWITCH(BF16, ".acc::f32.v4.bf16x2", ".v4.bf16x2", true)
// Has no minima and maxima, so the type of their instruction is not used.
MSCCLPP_VECTOR_ON_SWITCH(float, ".v4.f32", ".v4.f32", false)
#undef MSCCLPP_VECTOR_ON_SWITCH
#undef MSCCLPP_LOAD_VECTOR_ON_SWITCH

/// Types of which one instruction loads one element.
#define MSCCLPP_LOAD_ON_SWITCH(op, type, reg, value, at) \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." op "." type " %0, [%1];" : "=" reg(value) : "l"(at) : "memory")
#define MSCCLPP_ELEMENT_ON_SWITCH(T, Register, add, type, reg, compares)                        \
  template <>                                                                                   \
  struct OnSwitch<T> {                                                                          \
    static constexpr bool kAdds = true, kCompares = compares, kIsExact = compares;              \
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
// The same holds here.
MSCCLPP_ELEMENT_ON_SWITCH(double, double, "f64", "u64", "d", false)
#undef MSCCLPP_ELEMENT_ON_SWITCH
#undef MSCCLPP_LOAD_ON_SWITCH

#endif

/// Called by: all threads of the block. Orders accesses by aliases before it with those after it: one fence, which the block syncs
/// put between the accesses of all threads. Syncs: block, at entry and at exit.
DEV void fence_aliases_of_block() {
  dev_sync();
  if (dev_thread() == 0) fence_aliases();
  dev_sync();
}

}  // namespace mscclpp
