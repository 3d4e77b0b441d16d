// Halves on a CPU: what CUDA has instructions for.
#pragma once

/// The f32 value of an IEEE half, exact.
DEV float widen_half(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  union {
    uint32_t bits;
    float value;
  } u;
  if (exponent == 31) {
    u.bits = sign | 0x7f800000 | mantissa << 13;
  } else if (exponent != 0) {
    u.bits = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {
    u.value = static_cast<float>(mantissa) * 0x1p-24f;
    u.bits |= sign;
  }
  return u.value;
}

/// The nearest half, ties to even.
DEV uint16_t narrow_half(float value) {
  union {
    float value;
    uint32_t bits;
  } u = {value};
  uint32_t sign = u.bits >> 16 & 0x8000, magnitude = u.bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(0x7fff);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    // Below the normal halves: units of 2^-24, rounded by adding a number whose last bit is worth as much.
    u.bits = magnitude;
    u.value += 0.5f;
    return static_cast<uint16_t>(sign | (u.bits - 0x3f000000));
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000) >> 13);
}
