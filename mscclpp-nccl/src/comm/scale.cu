// Multiplies elements of type MSCCLPP_T by a scalar; narrow floats are computed in f32 and rounded once.
#include "number.h"

using Wide = Native<MSCCLPP_T>::Type;
using Of = Via<MSCCLPP_T, Wide>;

/// Bits of a scalar, in the order of memory.
union Immediate {
  uint64_t bits;
  MSCCLPP_T value;
};

struct Scale {
  const MSCCLPP_T* in;
  MSCCLPP_T* out;
  /// The scalar in device memory; null for an immediate one.
  const MSCCLPP_T* scalar;
  Immediate immediate;
  uint64_t count;
};

KERNEL(512) mscclpp_scale(KERNEL_PARAM Scale scale) {
  const Wide scalar = Of::widen(scale.scalar ? *scale.scalar : scale.immediate.value);
  const uint64_t threads = static_cast<uint64_t>(dev_blocks()) * dev_threads();
  for (uint64_t i = static_cast<uint64_t>(dev_block()) * dev_threads() + dev_thread(); i < scale.count; i += threads) {
    scale.out[i] = Of::narrow(combine_wrapping<Reduction::kProd, Wide>(Of::widen(scale.in[i]), scalar));
  }
}
SIM_KERNEL(mscclpp_scale, Scale)
