// Copies to and from variables of devices: a kernel makes them, as only device code knows where such a variable is.
#pragma once
#include "mscclpp/device.hpp"

namespace mscclpp {
namespace native {

#if defined(MSCCLPP_DEVICE_COMPILE)

/// Copies between a variable, from a byte on, and memory. Called by: all threads of one block.
template <auto& Symbol>
DEV void copy_symbol(char* memory, unsigned long long bytes, unsigned long long offset, bool to_symbol) {
  char* symbol = reinterpret_cast<char*>(const_cast<void*>(static_cast<const volatile void*>(&Symbol))) + offset;
  for (unsigned long long at = threadIdx.x; at < bytes; at += blockDim.x) {
    if (to_symbol) {
      symbol[at] = memory[at];
    } else {
      memory[at] = symbol[at];
    }
  }
}

#else

template <auto& Symbol>
void copy_symbol(char*, unsigned long long, unsigned long long, bool) {}

/// Copies between a variable and memory of the host or the device, and waits for it.
template <auto& Symbol>
cudaError_t copy_by_kernel(void* memory, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind, bool to_symbol, cudaStream_t stream) {
  if (bytes > sizeof(Symbol) || offset > sizeof(Symbol) - bytes) return Driver::keep(cudaErrorInvalidValue);
  if (bytes == 0) return cudaSuccess;
  char* staged = nullptr;
  cudaError_t result = cudaMalloc(&staged, bytes);
  if (result != cudaSuccess) return result;
  if (to_symbol) result = cudaMemcpyAsync(staged, memory, bytes, kind, stream);
  if (result == cudaSuccess) {
    try {
      launch<(&copy_symbol<Symbol>)>(1, 256, 0, stream)(staged, bytes, offset, to_symbol);
    } catch (...) {
      static_cast<void>(cudaFree(staged));
      throw;
    }
    if (!to_symbol) result = cudaMemcpyAsync(memory, staged, bytes, kind, stream);
  }
  const cudaError_t waited = cudaStreamSynchronize(stream), freed = cudaFree(staged);
  return result != cudaSuccess ? result : waited != cudaSuccess ? waited : freed;
}

template <auto& Symbol>
cudaError_t copy_to_symbol(const void* from, std::size_t bytes, std::size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                           cudaStream_t stream = nullptr) {
  return copy_by_kernel<Symbol>(const_cast<void*>(from), bytes, offset, kind, true, stream);
}

template <auto& Symbol>
cudaError_t copy_from_symbol(void* to, std::size_t bytes, std::size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                             cudaStream_t stream = nullptr) {
  return copy_by_kernel<Symbol>(to, bytes, offset, kind, false, stream);
}

#define cudaMemcpyToSymbol(symbol, ...) ::mscclpp::native::copy_to_symbol<symbol>(__VA_ARGS__)
#define cudaMemcpyToSymbolAsync(symbol, ...) ::mscclpp::native::copy_to_symbol<symbol>(__VA_ARGS__)
#define cudaMemcpyFromSymbol(to, symbol, ...) ::mscclpp::native::copy_from_symbol<symbol>(to, __VA_ARGS__)
#define cudaMemcpyFromSymbolAsync(to, symbol, ...) ::mscclpp::native::copy_from_symbol<symbol>(to, __VA_ARGS__)

#endif

}  // namespace native
}  // namespace mscclpp
