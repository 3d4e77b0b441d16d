// CUDA's vector types, for the host's compiler and for simulated devices. NVRTC has its own.
#pragma once

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

#define MSCCLPP_VECTORS(type, name)                                                                \
  struct alignas(2 * sizeof(type)) name##2 {                                                       \
    type x, y;                                                                                     \
  };                                                                                               \
  struct alignas(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16) name##4 {                          \
    type x, y, z, w;                                                                               \
  };                                                                                               \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                          \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

MSCCLPP_VECTORS(signed char, char)
MSCCLPP_VECTORS(unsigned char, uchar)
MSCCLPP_VECTORS(short, short)
MSCCLPP_VECTORS(unsigned short, ushort)
MSCCLPP_VECTORS(int, int)
MSCCLPP_VECTORS(unsigned, uint)
MSCCLPP_VECTORS(long long, longlong)
MSCCLPP_VECTORS(unsigned long long, ulonglong)
MSCCLPP_VECTORS(float, float)
MSCCLPP_VECTORS(double, double)

#undef MSCCLPP_VECTORS
