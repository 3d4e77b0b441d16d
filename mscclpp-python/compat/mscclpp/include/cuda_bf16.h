// `__nv_bfloat16` and `__nv_bfloat162`.
#pragma once
#include "mscclpp/native/half.hpp"

MSCCLPP_HALF_TYPE(__nv_bfloat16, __nv_bfloat162, Bfloat16Bits)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat16 __double2bfloat16(double value) {
  return __nv_bfloat16(::mscclpp::native::round_to_odd_float(value));
}
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat16 __int2bfloat16_rn(int value) { return __double2bfloat16(value); }
MSCCLPP_HOST_DEVICE_INLINE float __bfloat162float(__nv_bfloat16 value) { return value; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }
MSCCLPP_HOST_DEVICE_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.__x; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 value) { return {value.x, value.y}; }
MSCCLPP_HOST_DEVICE_INLINE float2 __bfloat1622float2(__nv_bfloat162 value) { return {value.x, value.y}; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 value) { return value.x; }
MSCCLPP_HOST_DEVICE_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 value) { return value.y; }
