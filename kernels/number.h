// Elements and how two of them are combined. The results are bitwise equal to those of the CPU executor: integers wrap,
// minimum and maximum of floats are NaN if one operand is, narrow floats are computed in f32 and rounded to nearest, ties to
// even; fp8 saturates at its largest finite value (that of bias 15 rounds ties away).
#pragma once
#include "abi.h"

using mscclpp::Reduction;

/// The same bits as another type.
template <typename To, typename From>
DEV To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits cannot be lost");
  union {
    From from;
    To to;
  } u = {from};
  return u.to;
}

DEV float float_of_bits(uint32_t bits) { return same_bits<float>(bits); }
DEV uint32_t bits_of_float(float value) { return same_bits<uint32_t>(value); }
DEV double double_of_bits(uint64_t bits) { return same_bits<double>(bits); }
DEV uint64_t bits_of_double(double value) { return same_bits<uint64_t>(value); }

/// The f32 next to a value towards zero, with its last bit set if it is not the value itself: rounding it once more to at
/// most 22 bits gives what rounding the value itself gives.
DEV float round_to_odd(double value) {
  float nearest = static_cast<float>(value);
  double back = nearest;
  double magnitude_back = back < 0 ? -back : back, magnitude = value < 0 ? -value : value;
  uint32_t bits = bits_of_float(nearest) - (magnitude_back > magnitude ? 1 : 0);
  return float_of_bits(bits | (back != value ? 1 : 0));
}

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
struct E4M3 {
  uint8_t bits;
};
struct E5M2 {
  uint8_t bits;
};
/// Of bias 15, like half: see `E4m3B15` in mscclpp-exec/src/dtype/fp8.rs.
struct E4M3B15 {
  uint8_t bits;
};

/// An 8-bit float's value, exact. `kMax`: bits of the largest finite value.
template <int kExponent, int kMantissa, uint32_t kMax>
DEV float decode_fp8(uint32_t bits) {
  uint32_t sign = (bits >> 7) << 31, magnitude = bits & 0x7f;
  constexpr uint32_t kBias = (1u << (kExponent - 1)) - 1;
  if (magnitude > kMax) return float_of_bits(sign | (kExponent == 5 && magnitude == kMax + 1 ? 0x7f800000u : 0x7fc00000u));
  uint32_t exponent = magnitude >> kMantissa, mantissa = magnitude & ((1u << kMantissa) - 1);
  if (exponent == 0) {
    float scale = float_of_bits((127 + 1 - kBias - kMantissa) << 23);
    float value = static_cast<float>(mantissa) * scale;
    return sign ? -value : value;
  }
  return float_of_bits(sign | ((exponent + 127 - kBias) << 23) | (mantissa << (23 - kMantissa)));
}

/// The nearest 8-bit float, ties to even, at most the largest finite one; NaN stays NaN.
template <int kExponent, int kMantissa, uint32_t kMax>
DEV uint8_t encode_fp8(double value) {
  uint64_t bits = bits_of_double(value);
  uint32_t sign = static_cast<uint32_t>(bits >> 56) & 0x80;
  uint64_t magnitude = bits & 0x7fffffffffffffffull;
  if (magnitude > 0x7ff0000000000000ull) return static_cast<uint8_t>(sign | 0x7f);
  constexpr int64_t kBias = (1 << (kExponent - 1)) - 1;
  int64_t exponent = static_cast<int64_t>(magnitude >> 52) - 1023;
  if (exponent < 1 - kBias) exponent = 1 - kBias;
  if (exponent > kBias + 2) return static_cast<uint8_t>(sign | kMax);
  // In units of the step between values the result is a small integer; adding 2^52 rounds to it, ties to even.
  double scale = double_of_bits(static_cast<uint64_t>(1023 - (exponent - kMantissa)) << 52);
  const double two52 = 4503599627370496.0;
  uint64_t units = bits_of_double(double_of_bits(magnitude) * scale + two52) - bits_of_double(two52);
  uint64_t encoded = (static_cast<uint64_t>(exponent - 1 + kBias) << kMantissa) + units;
  return static_cast<uint8_t>(sign | (encoded < kMax ? encoded : kMax));
}

#ifndef DEV_SIM
DEV float widen_half(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
DEV uint16_t narrow_half(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#endif

/// How a type widens to the type in which it is combined, and narrows back.
template <typename T, typename A>
struct Via {
  DEV static A widen(T value) { return static_cast<A>(value); }
  DEV static T narrow(A value) { return static_cast<T>(value); }
};
template <>
struct Via<F16, float> {
  DEV static float widen(F16 value) { return widen_half(value.bits); }
  DEV static F16 narrow(float value) { return F16{narrow_half(value)}; }
};
template <>
struct Via<BF16, float> {
  DEV static float widen(BF16 value) { return float_of_bits(static_cast<uint32_t>(value.bits) << 16); }
  DEV static BF16 narrow(float value) {
    uint32_t bits = bits_of_float(value);
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return BF16{static_cast<uint16_t>(nan ? (bits >> 16 | 0x40) : rounded)};
  }
};
template <>
struct Via<E4M3, float> {
  DEV static float widen(E4M3 value) { return decode_fp8<4, 3, 0x7e>(value.bits); }
  DEV static E4M3 narrow(double value) { return E4M3{encode_fp8<4, 3, 0x7e>(value)}; }
};
template <>
struct Via<E5M2, float> {
  DEV static float widen(E5M2 value) { return decode_fp8<5, 2, 0x7b>(value.bits); }
  DEV static E5M2 narrow(double value) { return E5M2{encode_fp8<5, 2, 0x7b>(value)}; }
};
template <>
struct Via<E4M3B15, float> {
  DEV static float widen(E4M3B15 value) {
    uint32_t bits = value.bits;
    return widen_half(static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7f) << 7));
  }
  /// Through the nearest half, ties away from zero; at most 1.875.
  DEV static E4M3B15 narrow(float value) {
    uint32_t bits = narrow_half(value), magnitude = bits & 0x7fff;
    if (magnitude > 0x3f80) magnitude = 0x3f80;
    return E4M3B15{static_cast<uint8_t>((bits >> 8 & 0x80) | (2 * magnitude + 0x80) >> 8)};
  }
};
#define MSCCLPP_VIA_DOUBLE(T, rounded)                                               \
  template <>                                                                        \
  struct Via<T, double> {                                                            \
    DEV static double widen(T value) { return Via<T, float>::widen(value); }         \
    DEV static T narrow(double value) { return Via<T, float>::narrow(rounded); }     \
  };
MSCCLPP_VIA_DOUBLE(F16, round_to_odd(value))
MSCCLPP_VIA_DOUBLE(BF16, round_to_odd(value))
MSCCLPP_VIA_DOUBLE(E4M3, value)
MSCCLPP_VIA_DOUBLE(E5M2, value)
MSCCLPP_VIA_DOUBLE(E4M3B15, round_to_odd(value))
#undef MSCCLPP_VIA_DOUBLE

/// Returns whether the left one of two equal numbers is their minimum or maximum: floats that are equal and have different bits are zeros.
template <Reduction kOp, typename A>
DEV bool is_left_of_equal(A) {
  return false;
}
template <Reduction kOp>
DEV bool is_left_of_equal(float left) {
  return (bits_of_float(left) >> 31) == (kOp == Reduction::kMin);
}
template <Reduction kOp>
DEV bool is_left_of_equal(double left) {
  return (bits_of_double(left) >> 63) == (kOp == Reduction::kMin);
}

/// Combines two numbers. Integers narrower than `int` wrap when they are clipped.
template <Reduction kOp, typename A>
DEV A combine(A left, A right) {
  if constexpr (kOp == Reduction::kMin) return left < right || left != left || (left == right && is_left_of_equal<kOp>(left)) ? left : right;
  else if constexpr (kOp == Reduction::kMax) return left > right || left != left || (left == right && is_left_of_equal<kOp>(left)) ? left : right;
  else if constexpr (kOp == Reduction::kProd) return static_cast<A>(left * right);
  else return static_cast<A>(left + right);
}

/// Integers combine as unsigned ones where the sign makes no difference, so that wrapping is defined.
template <typename T>
struct Wrapping {
  using Type = T;
};
template <>
struct Wrapping<int32_t> {
  using Type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using Type = uint64_t;
};

template <Reduction kOp, typename A>
DEV A combine_wrapping(A left, A right) {
  if constexpr (kOp == Reduction::kMin || kOp == Reduction::kMax) {
    return combine<kOp, A>(left, right);
  } else {
    using W = typename Wrapping<A>::Type;
    return static_cast<A>(combine<kOp, W>(static_cast<W>(left), static_cast<W>(right)));
  }
}

/// The type in which elements combine natively, rounding after every step: a narrow float's goes through f32.
template <typename T>
struct Native {
  using Type = T;
  static constexpr bool kRounds = false;
};
template <>
struct Native<F16> {
  using Type = float;
  static constexpr bool kRounds = true;
};
template <>
struct Native<BF16> {
  using Type = float;
  static constexpr bool kRounds = true;
};
template <>
struct Native<E4M3> {
  using Type = float;
  static constexpr bool kRounds = true;
};
template <>
struct Native<E5M2> {
  using Type = float;
  static constexpr bool kRounds = true;
};
template <>
struct Native<E4M3B15> {
  using Type = float;
  static constexpr bool kRounds = true;
};
