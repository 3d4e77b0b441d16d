// `__half` and `__half2`.
#pragma once
#include "mscclpp/native/half.hpp"

MSCCLPP_HALF_TYPE(__half, __half2, HalfBits)
typedef __half half;
typedef __half2 half2;

MSCCLPP_HOST_DEVICE_INLINE __half __float2half(float value) { return __half(value); }
MSCCLPP_HOST_DEVICE_INLINE __half __float2half_rn(float value) { return __half(value); }
MSCCLPP_HOST_DEVICE_INLINE __half __double2half(double value) { return __half(::mscclpp::native::round_to_odd_float(value)); }
MSCCLPP_HOST_DEVICE_INLINE __half __int2half_rn(int value) { return __double2half(value); }
MSCCLPP_HOST_DEVICE_INLINE float __half2float(__half value) { return value; }
MSCCLPP_HOST_DEVICE_INLINE __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
MSCCLPP_HOST_DEVICE_INLINE unsigned short __half_as_ushort(__half value) { return value.__x; }
MSCCLPP_HOST_DEVICE_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
MSCCLPP_HOST_DEVICE_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
MSCCLPP_HOST_DEVICE_INLINE __half2 __half2half2(__half x) { return {x, x}; }
MSCCLPP_HOST_DEVICE_INLINE __half2 __float2half2_rn(float x) { return {x, x}; }
MSCCLPP_HOST_DEVICE_INLINE __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
MSCCLPP_HOST_DEVICE_INLINE __half2 __float22half2_rn(float2 value) { return {value.x, value.y}; }
MSCCLPP_HOST_DEVICE_INLINE float2 __half22float2(__half2 value) { return {value.x, value.y}; }
MSCCLPP_HOST_DEVICE_INLINE __half __low2half(__half2 value) { return value.x; }
MSCCLPP_HOST_DEVICE_INLINE __half __high2half(__half2 value) { return value.y; }
