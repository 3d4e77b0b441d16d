// CUDA's types of 16 bits, for all three compilers: `__half` and `__nv_bfloat16`, pairs of them, and their arithmetic, which rounds once, to
// nearest, ties to even.
#pragma once
#include "mscclpp/device.hpp"

namespace mscclpp {
namespace native {

template <typename To, typename From>
MSCCLPP_HOST_DEVICE_INLINE To same_bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits cannot be lost");
  union {
    From from;
    To to;
  } u = {from};
  return u.to;
}

/// The float next to a value towards zero, with its last bit set if it is not the value itself: rounding it again rounds the value.
MSCCLPP_HOST_DEVICE_INLINE float round_to_odd_float(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest, magnitude_back = back < 0 ? -back : back, magnitude = value < 0 ? -value : value;
  const unsigned bits = same_bits_as<unsigned>(nearest) - (magnitude_back > magnitude ? 1 : 0);
  return same_bits_as<float>(bits | (back != value && back == back ? 1 : 0));
}

/// The value of an integer of 64 bits; of one with more bits than a double has, a value that rounds in the same way to any type of fewer bits.
template <typename Integer>
MSCCLPP_HOST_DEVICE_INLINE double value_of(Integer value) {
  const Integer high = value >> 52, low = value & 0xfff;
  if (high == 0 || high == static_cast<Integer>(-1) || low == 0) return static_cast<double>(value);
  return static_cast<double>(value - low + 0x800);
}

struct HalfBits {
  MSCCLPP_HOST_DEVICE_INLINE static float widen(unsigned short bits) {
#if defined(MSCCLPP_DEVICE_CUDA)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
    if (exponent == 0x1f) return same_bits_as<float>(sign | 0x7f800000u | mantissa << 13);
    // Exact: a small integer times a power of two.
    if (exponent == 0) {
      const float value = static_cast<float>(mantissa) * same_bits_as<float>(103u << 23);
      return sign != 0 ? -value : value;
    }
    return same_bits_as<float>(sign | (exponent + 112) << 23 | mantissa << 13);
#endif
  }
  MSCCLPP_HOST_DEVICE_INLINE static unsigned short narrow(float value) {
#if defined(MSCCLPP_DEVICE_CUDA)
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = same_bits_as<unsigned>(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fff;
    // From half of the step above the largest value on.
    if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
      // In units of the smallest value; adding 2^23 rounds to them.
      const float units = same_bits_as<float>(magnitude) * same_bits_as<float>(151u << 23) + 8388608.0f;
      return static_cast<unsigned short>(sign | (same_bits_as<unsigned>(units) & 0x7fffffu));
    }
    return static_cast<unsigned short>(sign | ((magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13));
#endif
  }
};

struct Bfloat16Bits {
  MSCCLPP_HOST_DEVICE_INLINE static float widen(unsigned short bits) { return same_bits_as<float>(static_cast<unsigned>(bits) << 16); }
  MSCCLPP_HOST_DEVICE_INLINE static unsigned short narrow(float value) {
    const unsigned bits = same_bits_as<unsigned>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }
};

}  // namespace native
}  // namespace mscclpp

// `type`, a pair of them, how they convert, and the names of the pair's functions.
#define MSCCLPP_HALF_TYPE(type, pair, bits_of)                                                                                        \
  struct type##_raw {                                                                                                                 \
    unsigned short x;                                                                                                                 \
  };                                                                                                                                  \
  struct alignas(2) type {                                                                                                            \
    unsigned short __x;                                                                                                               \
    type() = default;                                                                                                                 \
    MSCCLPP_HOST_DEVICE_INLINE type(const type##_raw& raw) : __x(raw.x) {}                                                            \
    MSCCLPP_HOST_DEVICE_INLINE type(float value) : __x(::mscclpp::native::bits_of::narrow(value)) {}                                  \
    MSCCLPP_HOST_DEVICE_INLINE type(double value) : type(::mscclpp::native::round_to_odd_float(value)) {}                             \
    MSCCLPP_HOST_DEVICE_INLINE type(int value) : type(static_cast<double>(value)) {}                                                  \
    MSCCLPP_HOST_DEVICE_INLINE type(unsigned value) : type(static_cast<double>(value)) {}                                             \
    MSCCLPP_HOST_DEVICE_INLINE type(long value) : type(::mscclpp::native::value_of(value)) {}                                         \
    MSCCLPP_HOST_DEVICE_INLINE type(unsigned long value) : type(::mscclpp::native::value_of(value)) {}                                \
    MSCCLPP_HOST_DEVICE_INLINE type(long long value) : type(::mscclpp::native::value_of(value)) {}                                    \
    MSCCLPP_HOST_DEVICE_INLINE type(unsigned long long value) : type(::mscclpp::native::value_of(value)) {}                           \
    MSCCLPP_HOST_DEVICE_INLINE operator float() const { return ::mscclpp::native::bits_of::widen(__x); }                              \
    MSCCLPP_HOST_DEVICE_INLINE operator type##_raw() const { return {__x}; }                                                          \
    MSCCLPP_HOST_DEVICE_INLINE type& operator+=(const type& b);                                                                       \
    MSCCLPP_HOST_DEVICE_INLINE type& operator-=(const type& b);                                                                       \
    MSCCLPP_HOST_DEVICE_INLINE type& operator*=(const type& b);                                                                       \
    MSCCLPP_HOST_DEVICE_INLINE type& operator/=(const type& b);                                                                       \
  };                                                                                                                                  \
  struct alignas(4) pair {                                                                                                            \
    type x, y;                                                                                                                        \
    pair() = default;                                                                                                                 \
    MSCCLPP_HOST_DEVICE_INLINE pair(const type& x, const type& y) : x(x), y(y) {}                                                     \
    MSCCLPP_HOST_DEVICE_INLINE pair& operator+=(const pair& b);                                                                       \
    MSCCLPP_HOST_DEVICE_INLINE pair& operator-=(const pair& b);                                                                       \
    MSCCLPP_HOST_DEVICE_INLINE pair& operator*=(const pair& b);                                                                       \
  };                                                                                                                                  \
  MSCCLPP_HALF_OPERATION(type, pair, +, __hadd)                                                                                       \
  MSCCLPP_HALF_OPERATION(type, pair, -, __hsub)                                                                                       \
  MSCCLPP_HALF_OPERATION(type, pair, *, __hmul)                                                                                       \
  MSCCLPP_HOST_DEVICE_INLINE type __hdiv(type a, type b) { return type(static_cast<float>(a) / static_cast<float>(b)); }              \
  MSCCLPP_HOST_DEVICE_INLINE type operator/(const type& a, const type& b) { return __hdiv(a, b); }                                    \
  MSCCLPP_HOST_DEVICE_INLINE type& type::operator/=(const type& b) { return *this = *this / b; }                                      \
  MSCCLPP_HOST_DEVICE_INLINE pair __h2div(pair a, pair b) { return {a.x / b.x, a.y / b.y}; }                                          \
  MSCCLPP_HOST_DEVICE_INLINE pair operator/(const pair& a, const pair& b) { return __h2div(a, b); }                                   \
  MSCCLPP_HOST_DEVICE_INLINE type __hneg(type a) { return type##_raw{static_cast<unsigned short>(a.__x ^ 0x8000u)}; }                 \
  MSCCLPP_HOST_DEVICE_INLINE type __habs(type a) { return type##_raw{static_cast<unsigned short>(a.__x & 0x7fffu)}; }                 \
  MSCCLPP_HOST_DEVICE_INLINE type operator-(const type& a) { return __hneg(a); }                                                      \
  MSCCLPP_HOST_DEVICE_INLINE type operator+(const type& a) { return a; }                                                              \
  MSCCLPP_HOST_DEVICE_INLINE pair __hneg2(pair a) { return {-a.x, -a.y}; }                                                            \
  MSCCLPP_HOST_DEVICE_INLINE pair __habs2(pair a) { return {__habs(a.x), __habs(a.y)}; }                                              \
  MSCCLPP_HOST_DEVICE_INLINE bool __hisnan(type a) { return !(static_cast<float>(a) == static_cast<float>(a)); }                      \
  /* The product is exact in `double`. */                                                                                             \
  MSCCLPP_HOST_DEVICE_INLINE type __hfma(type a, type b, type c) {                                                                    \
    const double product = static_cast<double>(static_cast<float>(a)) * static_cast<float>(b);                                        \
    return type(::mscclpp::native::round_to_odd_float(product + static_cast<float>(c)));                                              \
  }                                                                                                                                   \
  MSCCLPP_HOST_DEVICE_INLINE pair __hfma2(pair a, pair b, pair c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }          \
  /* The other one, if one is no number; zero is more than its negative. */                                                           \
  MSCCLPP_HOST_DEVICE_INLINE type __hmax(type a, type b) {                                                                            \
    if (__hisnan(a) || __hisnan(b)) return __hisnan(a) ? b : a;                                                                       \
    return static_cast<float>(a) > static_cast<float>(b) || (static_cast<float>(a) == static_cast<float>(b) && a.__x < b.__x) ? a : b; \
  }                                                                                                                                   \
  MSCCLPP_HOST_DEVICE_INLINE type __hmin(type a, type b) {                                                                            \
    if (__hisnan(a) || __hisnan(b)) return __hisnan(a) ? b : a;                                                                       \
    return static_cast<float>(a) < static_cast<float>(b) || (static_cast<float>(a) == static_cast<float>(b) && a.__x > b.__x) ? a : b; \
  }                                                                                                                                   \
  MSCCLPP_HOST_DEVICE_INLINE pair __hmax2(pair a, pair b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                            \
  MSCCLPP_HOST_DEVICE_INLINE pair __hmin2(pair a, pair b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                            \
  MSCCLPP_HALF_COMPARISON(type, ==, __heq)                                                                                            \
  MSCCLPP_HALF_COMPARISON(type, !=, __hne)                                                                                            \
  MSCCLPP_HALF_COMPARISON(type, <, __hlt)                                                                                             \
  MSCCLPP_HALF_COMPARISON(type, <=, __hle)                                                                                            \
  MSCCLPP_HALF_COMPARISON(type, >, __hgt)                                                                                             \
  MSCCLPP_HALF_COMPARISON(type, >=, __hge)                                                                                            \
  MSCCLPP_HOST_DEVICE_INLINE float __low2float(pair a) { return a.x; }                                                                \
  MSCCLPP_HOST_DEVICE_INLINE float __high2float(pair a) { return a.y; }                                                               \
  MSCCLPP_HALF_SHUFFLES(type, unsigned short)                                                                                         \
  MSCCLPP_HALF_SHUFFLES(pair, unsigned)

#define MSCCLPP_HALF_OPERATION(type, pair, sign, name)                                                                              \
  MSCCLPP_HOST_DEVICE_INLINE type name(type a, type b) { return type(static_cast<float>(a) sign static_cast<float>(b)); }           \
  MSCCLPP_HOST_DEVICE_INLINE type operator sign(const type& a, const type& b) { return name(a, b); }                                \
  MSCCLPP_HOST_DEVICE_INLINE type& type::operator sign##=(const type& b) { return *this = name(*this, b); }                         \
  MSCCLPP_HOST_DEVICE_INLINE pair name##2(pair a, pair b) { return {name(a.x, b.x), name(a.y, b.y)}; }                              \
  MSCCLPP_HOST_DEVICE_INLINE pair operator sign(const pair& a, const pair& b) { return name##2(a, b); }                             \
  MSCCLPP_HOST_DEVICE_INLINE pair& pair::operator sign##=(const pair& b) { return *this = name##2(*this, b); }

#define MSCCLPP_HALF_COMPARISON(type, sign, name)                                                                            \
  MSCCLPP_HOST_DEVICE_INLINE bool name(type a, type b) { return static_cast<float>(a) sign static_cast<float>(b); }          \
  MSCCLPP_HOST_DEVICE_INLINE bool operator sign(const type& a, const type& b) { return name(a, b); }

// Those of simulated devices are templates.
#if defined(MSCCLPP_DEVICE_CUDA)
#define MSCCLPP_HALF_SHUFFLES(type, bits)                                      \
  MSCCLPP_HALF_SHUFFLE(type, bits, __shfl_sync, int)                           \
  MSCCLPP_HALF_SHUFFLE(type, bits, __shfl_xor_sync, int)                       \
  MSCCLPP_HALF_SHUFFLE(type, bits, __shfl_down_sync, unsigned)                 \
  MSCCLPP_HALF_SHUFFLE(type, bits, __shfl_up_sync, unsigned)
#define MSCCLPP_HALF_SHUFFLE(type, bits, name, of)                                                  \
  DEV type name(unsigned mask, type value, of lanes, int width = 32) {                              \
    const unsigned found = name(mask, static_cast<unsigned>(::mscclpp::native::same_bits_as<bits>(value)), lanes, width); \
    return ::mscclpp::native::same_bits_as<type>(static_cast<bits>(found));                         \
  }
#else
#define MSCCLPP_HALF_SHUFFLES(type, bits)
#endif
