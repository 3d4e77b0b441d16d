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

}  // namespace mscclpp
