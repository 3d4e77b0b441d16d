// The last step of an average: divides every rank's result by the number of ranks.
#pragma once
#include "abi.h"
#include "number.h"
#include "vector.h"

namespace mscclpp {

/// Integers truncate towards zero; narrow floats divide in f32.
template <typename T>
DEV T divide(T value, uint32_t by) {
  using W = typename Native<T>::Type;
  if constexpr (Native<T>::kRounds) {
    return Via<T, W>::narrow(Via<T, W>::widen(value) / static_cast<W>(by));
  } else if constexpr (static_cast<T>(1) / static_cast<T>(2) != static_cast<T>(0)) {
    return value / static_cast<T>(by);
  } else if constexpr (sizeof(T) < 8) {
    return static_cast<T>(static_cast<int64_t>(value) / static_cast<int64_t>(by));
  } else {
    return value / static_cast<T>(by);
  }
}

/// Block b divides the result of rank b / blocks-per-rank, in the output of the launch.
template <typename T>
DEV void divide_launch(const LaunchParams& launch) {
  const uint32_t each = dev_blocks() / launch.num_ranks, rank = dev_block() / each;
  if (rank >= launch.num_ranks) return;
  const uint64_t* bases = launch.table ? reinterpret_cast<const uint64_t*>(launch.table) : launch.bases;
  char* output = reinterpret_cast<char*>(bases[2 * rank + static_cast<uint32_t>(Space::kOutput)]);
  if (output == nullptr) return;
  const uint64_t stride = sizeof(T) * static_cast<uint64_t>(dev_threads()) * each;
  DEV_NO_UNROLL
  for (uint64_t at = sizeof(T) * (dev_thread() + static_cast<uint64_t>(dev_threads()) * (dev_block() % each));
       at < launch.output.len; at += stride) {
    store_plain<T>(output + at, divide<T>(load_plain<T>(output + at), launch.divisor));
  }
}

}  // namespace mscclpp
