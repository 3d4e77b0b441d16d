// A header beside a source: code of the host and of devices.
#pragma once
#include <mscclpp/memory_channel.hpp>

namespace shapes {

struct Rectangle {
  int width, height;
  __host__ __device__ int area() const { return width * height; }
};

template <typename T>
struct Accumulator {
  T sum;
  __device__ void add(T value) { sum += value; }
};

}  // namespace shapes

using Channel = mscclpp::DeviceHandle<mscclpp::MemoryChannel>;
