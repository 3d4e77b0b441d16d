// The part of CUDA's runtime that host code of native algorithms uses, over CUDA's driver, which is loaded at the first call. No toolkit is
// needed. Device code gets the vector types from its compiler, or from mscclpp/native/simulated.hpp.
#pragma once

#if !defined(MSCCLPP_DEVICE_COMPILE)

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __restrict__ __restrict

#define CUDART_VERSION 12000

#include "mscclpp/native/vectors.hpp"

struct CUstream_st;
struct CUevent_st;
/// Of the driver.
using CUdeviceptr = unsigned long long;
typedef CUstream_st* cudaStream_t;
typedef CUevent_st* cudaEvent_t;

/// Results of calls: the numbers are those of the driver, which are the runtime's too.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
  cudaErrorUnknown = 999,
};

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};

constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2;

namespace mscclpp {
namespace native {

/// CUDA's driver.
class Driver {
 public:
  /// Returns a function of the driver; null if there is no driver or no such function.
  template <typename... Arguments>
  static auto find(const char* name) -> int (*)(Arguments...) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr : reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  }

  /// Calls a function in a context of the driver: that of the thread, or else that of the first device.
  template <typename... Arguments>
  static cudaError_t call(const char* name, Arguments... arguments) {
    const int entered = enter();
    return keep(entered != 0 ? entered : direct(name, arguments...));
  }

  /// Calls a function that needs no context.
  template <typename... Arguments>
  static int direct(const char* name, Arguments... arguments) {
    const auto function = find<Arguments...>(name);
    return function == nullptr ? cudaErrorInsufficientDriver : function(arguments...);
  }

  /// Remembers a failure until cudaGetLastError returns it.
  static cudaError_t keep(int result) {
    if (result != 0) last() = static_cast<cudaError_t>(result);
    return static_cast<cudaError_t>(result);
  }

  static cudaError_t& last() {
    static thread_local cudaError_t error = cudaSuccess;
    return error;
  }

 private:
  static int enter() {
    void* context = nullptr;
    const int found = direct("cuCtxGetCurrent", &context);
    if (found != 0 && found != cudaErrorInitializationError) return found;
    if (context != nullptr) return 0;
    if (const int failed = direct("cuInit", 0u)) return failed;
    int device = 0;
    if (const int failed = direct("cuDeviceGet", &device, 0)) return failed;
    if (const int failed = direct("cuDevicePrimaryCtxRetain", &context, device)) return failed;
    return direct("cuCtxSetCurrent", context);
  }
};

inline unsigned long long address(const void* pointer) { return reinterpret_cast<unsigned long long>(pointer); }

}  // namespace native
}  // namespace mscclpp

// Static, so that they are none of those of a library of CUDA's runtime in the process.

static inline cudaError_t cudaGetLastError() {
  const cudaError_t error = mscclpp::native::Driver::last();
  mscclpp::native::Driver::last() = cudaSuccess;
  return error;
}
static inline cudaError_t cudaPeekAtLastError() { return mscclpp::native::Driver::last(); }
static inline const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  mscclpp::native::Driver::direct("cuGetErrorString", static_cast<int>(error), &text);
  return text == nullptr ? "unknown error" : text;
}
static inline const char* cudaGetErrorName(cudaError_t error) {
  const char* text = nullptr;
  mscclpp::native::Driver::direct("cuGetErrorName", static_cast<int>(error), &text);
  return text == nullptr ? "unknown error" : text;
}

static inline cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return mscclpp::native::Driver::call("cuMemAlloc_v2", reinterpret_cast<unsigned long long*>(pointer), bytes);
}
template <typename T>
static inline cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
/// Waits for the device first: kernels may use the memory.
static inline cudaError_t cudaFree(void* pointer) {
  using mscclpp::native::Driver;
  if (pointer == nullptr) return cudaSuccess;
  const cudaError_t waited = Driver::call("cuCtxSynchronize");
  const cudaError_t freed = Driver::call("cuMemFree_v2", mscclpp::native::address(pointer));
  return waited != cudaSuccess ? waited : freed;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return mscclpp::native::Driver::call("cuStreamSynchronize", stream);
}
static inline cudaError_t cudaDeviceSynchronize() { return mscclpp::native::Driver::call("cuCtxSynchronize"); }
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return mscclpp::native::Driver::call("cuStreamCreate", stream, flags);
}
static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return mscclpp::native::Driver::call("cuStreamDestroy_v2", stream);
}

static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return mscclpp::native::Driver::call("cuEventCreate", event, flags);
}
static inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr) {
  return mscclpp::native::Driver::call("cuEventRecord", event, stream);
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return mscclpp::native::Driver::call("cuEventSynchronize", event);
}
static inline cudaError_t cudaEventQuery(cudaEvent_t event) { return mscclpp::native::Driver::call("cuEventQuery", event); }
static inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return mscclpp::native::Driver::call("cuEventElapsedTime", milliseconds, begin, end);
}
static inline cudaError_t cudaStreamQuery(cudaStream_t stream) { return mscclpp::native::Driver::call("cuStreamQuery", stream); }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0) {
  return mscclpp::native::Driver::call("cuStreamWaitEvent", stream, event, flags);
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return mscclpp::native::Driver::call("cuEventDestroy_v2", event); }

static inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  using mscclpp::native::Driver;
  if (bytes == 0) return cudaSuccess;
  const unsigned long long device_to = mscclpp::native::address(to), device_from = mscclpp::native::address(from);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return Driver::call("cuMemcpyHtoDAsync_v2", device_to, from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return Driver::call("cuMemcpyDtoHAsync_v2", to, device_from, bytes, stream);
    default:
      return Driver::call("cuMemcpyAsync", device_to, device_from, bytes, stream);
  }
}
static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t copied = cudaMemcpyAsync(to, from, bytes, kind);
  return copied != cudaSuccess ? copied : cudaStreamSynchronize(nullptr);
}
static inline cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream = nullptr) {
  if (bytes == 0) return cudaSuccess;
  const auto byte = static_cast<unsigned char>(value);
  return mscclpp::native::Driver::call("cuMemsetD8Async", mscclpp::native::address(at), byte, bytes, stream);
}
static inline cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  const cudaError_t set = cudaMemsetAsync(at, value, bytes);
  return set != cudaSuccess ? set : cudaStreamSynchronize(nullptr);
}

static inline cudaError_t cudaGetDevice(int* device) { return mscclpp::native::Driver::call("cuCtxGetDevice", device); }
static inline cudaError_t cudaGetDeviceCount(int* count) { return mscclpp::native::Driver::call("cuDeviceGetCount", count); }
static inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return mscclpp::native::Driver::call("cuDeviceGetAttribute", value, static_cast<int>(attribute), device);
}
static inline cudaError_t cudaSetDevice(int device) {
  using mscclpp::native::Driver;
  int handle = 0;
  void* context = nullptr;
  cudaError_t result = Driver::call("cuDeviceGet", &handle, device);
  if (result == cudaSuccess) result = Driver::call("cuDevicePrimaryCtxRetain", &context, handle);
  return result != cudaSuccess ? result : Driver::call("cuCtxSetCurrent", context);
}

#endif
