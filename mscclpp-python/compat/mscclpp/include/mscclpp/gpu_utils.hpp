// Memory of devices, and CUDA's failures as exceptions.
#pragma once
#include "mscclpp/device.hpp"

#if !defined(MSCCLPP_DEVICE_COMPILE)

#include <memory>

#include "mscclpp/errors.hpp"
#include "mscclpp/native/python.hpp"

/// Throws `mscclpp::CudaError` unless a call of CUDA's runtime succeeds.
#define MSCCLPP_CUDATHROW(call) ::mscclpp::native::check_cuda((call), #call, __FILE__, __LINE__)

namespace mscclpp {

namespace native {

inline void check_cuda(cudaError_t result, const char* call, const char* file, int line) {
  if (result == cudaSuccess) return;
  // The failure is reported here, not by the next cudaGetLastError.
  static_cast<void>(cudaGetLastError());
  throw CudaError(std::string(call) + " failed at " + file + ":" + std::to_string(line), result);
}

}  // namespace native

namespace detail {

template <class T = void>
struct GpuDeleter {
  // A destructor cannot report a failure.
  void operator()(void* pointer) const { static_cast<void>(cudaFree(pointer)); }
};

template <class T>
using UniqueGpuPtr = std::unique_ptr<T, GpuDeleter<T>>;

inline void* gpuCalloc(std::size_t bytes) {
  void* pointer = nullptr;
  MSCCLPP_CUDATHROW(cudaMalloc(&pointer, bytes));
  const cudaError_t cleared = cudaMemset(pointer, 0, bytes);
  if (cleared != cudaSuccess) static_cast<void>(cudaFree(pointer));
  MSCCLPP_CUDATHROW(cleared);
  return pointer;
}

/// Allocates elements, which are zero.
template <class T>
std::shared_ptr<T> gpuCallocShared(std::size_t count = 1) {
  return std::shared_ptr<T>(static_cast<T*>(gpuCalloc(count * sizeof(T))), GpuDeleter<T>());
}
template <class T>
UniqueGpuPtr<T> gpuCallocUnique(std::size_t count = 1) {
  return UniqueGpuPtr<T>(static_cast<T*>(gpuCalloc(count * sizeof(T))));
}

}  // namespace detail

template <class T = char>
void gpuMemcpyAsync(T* to, const T* from, std::size_t count, cudaStream_t stream, cudaMemcpyKind kind = cudaMemcpyDefault) {
  MSCCLPP_CUDATHROW(cudaMemcpyAsync(to, from, count * sizeof(T), kind, stream));
}
template <class T = char>
void gpuMemcpy(T* to, const T* from, std::size_t count, cudaMemcpyKind kind = cudaMemcpyDefault) {
  MSCCLPP_CUDATHROW(cudaMemcpy(to, from, count * sizeof(T), kind));
}
inline void gpuMemset(void* at, int value, std::size_t bytes) { MSCCLPP_CUDATHROW(cudaMemset(at, value, bytes)); }

/// Returns whether the current device has multicast objects, which switch channels need.
inline bool isNvlsSupported() {
  constexpr int kMulticastSupported = 132;
  int device = 0, value = 0;
  MSCCLPP_CUDATHROW(cudaGetDevice(&device));
  return native::Driver::direct("cuDeviceGetAttribute", &value, kMulticastSupported, device) == 0 && value != 0;
}

/// Elements in memory of the device, zero at first. Switch channels can bind it.
template <class T = char>
class GpuBuffer {
 public:
  explicit GpuBuffer(std::size_t count) : count_(count) {
    MSCCLPP_CUDATHROW(cudaGetDevice(&device_));
    if (count == 0) return;
    if (!isNvlsSupported()) {
      memory_ = detail::gpuCallocShared<T>(count);
      return;
    }
    native::Lock lock;
    const native::Object module = native::checked(PyImport_ImportModule("mscclpp_rs._native"));
    const native::Object memory = native::call(module, "Allocation", "K", static_cast<unsigned long long>(bytes()));
    const std::uint64_t address = native::number(native::checked(PyObject_GetAttrString(memory.get(), "address")));
    memory_ = std::shared_ptr<T>(reinterpret_cast<T*>(address), [memory](T*) {});
  }
  std::size_t nelems() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::shared_ptr<T> memory() { return memory_; }
  T* data() { return memory_.get(); }
  int deviceId() const { return device_; }

 private:
  std::size_t count_;
  int device_ = 0;
  std::shared_ptr<T> memory_;
};

}  // namespace mscclpp

#endif
