// Atomic accesses of kernels to words of 4 or 8 bytes.
#pragma once
#include "mscclpp/device.hpp"

#if defined(MSCCLPP_DEVICE_COMPILE)

namespace mscclpp {

enum MemoryOrder { memoryOrderRelaxed, memoryOrderAcquire, memoryOrderRelease, memoryOrderAcqRel, memoryOrderSeqCst };
enum AtomicScope { scopeSystem, scopeDevice };

/// Every order is at least that which is asked for, by fences.
template <typename T, AtomicScope Scope = scopeSystem>
DEV T atomicLoad(T* at, MemoryOrder order) {
  const T value = *static_cast<volatile T*>(at);
  if (order != memoryOrderRelaxed) __threadfence_system();
  return value;
}
template <typename T, AtomicScope Scope = scopeSystem>
DEV void atomicStore(T* at, T value, MemoryOrder order) {
  if (order != memoryOrderRelaxed) __threadfence_system();
  *static_cast<volatile T*>(at) = value;
}

namespace native {

// CUDA's functions take other types of these sizes.
template <int Bytes>
struct Word {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = unsigned long long;
};

}  // namespace native

template <typename T, AtomicScope Scope = scopeSystem>
DEV T atomicFetchAdd(T* at, T value, MemoryOrder order) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "expected a word of 4 or 8 bytes");
  using Word = typename native::Word<sizeof(T)>::Type;
  if (order != memoryOrderRelaxed) __threadfence_system();
  const T before = static_cast<T>(atomicAdd(reinterpret_cast<Word*>(at), static_cast<Word>(value)));
  if (order != memoryOrderRelaxed) __threadfence_system();
  return before;
}

}  // namespace mscclpp

#endif
