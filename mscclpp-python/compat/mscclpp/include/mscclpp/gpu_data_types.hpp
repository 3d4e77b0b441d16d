// Types of elements.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "mscclpp/device.hpp"

using __bfloat16 = __nv_bfloat16;
using __bfloat162 = __nv_bfloat162;

namespace mscclpp {

/// The numbers are those of `mscclpp.DataType` in Python.
enum class DataType {
  INT32,
  UINT32,
  FLOAT16,
  FLOAT32,
  BFLOAT16,
  FLOAT8_E4M3FN,
  FLOAT8_E4M3FNUZ,
  FLOAT8_E5M2,
  FLOAT8_E5M2FNUZ,
  UINT8,
  FLOAT8_E4M3B15,
  /// That of the elements.
  AUTO = 255,
};

enum ReduceOp { SUM = 0, MIN = 3, NOP = 255 };

/// N elements of 4 to 16 bytes in all, which one access loads or stores.
template <typename T, int N>
struct alignas(sizeof(T) * N) VectorType {
  using Element = T;
  static constexpr int Size = N, kWords = N * static_cast<int>(sizeof(T)) / 4;
  union {
    T data[N];
    uint32_t words[kWords];
  };
  VectorType() = default;
  MSCCLPP_HOST_DEVICE_INLINE T& operator[](int index) { return data[index]; }
  MSCCLPP_HOST_DEVICE_INLINE const T& operator[](int index) const { return data[index]; }
};

using i32x1 = VectorType<int32_t, 1>;
using i32x2 = VectorType<int32_t, 2>;
using i32x4 = VectorType<int32_t, 4>;
using u32x1 = VectorType<uint32_t, 1>;
using u32x2 = VectorType<uint32_t, 2>;
using u32x4 = VectorType<uint32_t, 4>;
using f32x1 = VectorType<float, 1>;
using f32x2 = VectorType<float, 2>;
using f32x4 = VectorType<float, 4>;
using f16x2 = VectorType<__half, 2>;
using f16x4 = VectorType<__half, 4>;
using f16x8 = VectorType<__half, 8>;
using bf16x2 = VectorType<__nv_bfloat16, 2>;
using bf16x4 = VectorType<__nv_bfloat16, 4>;
using bf16x8 = VectorType<__nv_bfloat16, 8>;

}  // namespace mscclpp
