// Hashes of several values.
#pragma once
#include "mscclpp/core.hpp"

#if !defined(MSCCLPP_DEVICE_COMPILE)

namespace mscclpp {
namespace detail {

/// Changes a hash by that of a value.
template <typename T>
void hashCombine(std::size_t& hash, const T& value) {
  hash = (hash ^ std::hash<T>{}(value)) * 0x9e3779b97f4a7c15u;
  hash ^= hash >> 29;
}

}  // namespace detail
}  // namespace mscclpp

#endif
