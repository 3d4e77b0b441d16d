// Launches of kernels, which `compile_native` has made of `kernel<<<grid, block, shared, stream>>>(arguments)`.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <string_view>
#include <utility>

#include "mscclpp/errors.hpp"
#include "mscclpp/native/pack.hpp"
#include "mscclpp/native/python.hpp"

/// Returns the name of a function, as a compiler prints it: `allreduce<float>`. GCC leaves out the namespaces of the function that prints.
template <auto Kernel>
std::string_view mscclpp_kernel_name() {
  const std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t begin = text.find("Kernel = ") + 9;
  std::string_view name = text.substr(begin, text.find_last_of("];") - begin);
  // GCC continues with the type of the result.
  const std::size_t end = name.find("; std::string_view");
  if (end != std::string_view::npos) name = name.substr(0, end);
  if (name.substr(0, 1) == "&") name.remove_prefix(1);
  return name;
}

namespace mscclpp {
namespace native {

/// A kernel that the source launches.
struct KernelEntry {
  std::string name;
  /// Its function in Python, once the device code is compiled, and the driver's handle.
  PyObject* kernel = nullptr;
  void* handle = nullptr;
  KernelEntry* next;

  explicit KernelEntry(std::string_view kernel_name) : name(kernel_name), next(first()) { first() = this; }
  /// The kernels of the module, as a list.
  static KernelEntry*& first() {
    static KernelEntry* entry = nullptr;
    return entry;
  }
};

/// The entry of a kernel. It is made when the module is loaded, for every kernel with a launch in the source.
template <auto Kernel>
struct EntryOf {
  static inline KernelEntry entry{::mscclpp_kernel_name<Kernel>()};
};

template <typename Kernel>
struct Parameters;

template <>
struct Parameters<void (*)()> {
  static Pack<> pack() { return {0}; }
};
template <typename Only>
struct Parameters<void (*)(Only)> {
  template <typename Argument>
  static Pack<Only> pack(Argument&& argument) {
    return {static_cast<Only>(std::forward<Argument>(argument))};
  }
};
template <typename First, typename Second, typename... Rest>
struct Parameters<void (*)(First, Second, Rest...)> {
  template <typename Argument, typename... Arguments>
  static Pack<First, Second, Rest...> pack(Argument&& argument, Arguments&&... rest) {
    static_assert(sizeof...(Arguments) == 1 + sizeof...(Rest), "expected as many arguments of a kernel as it has parameters");
    return {static_cast<First>(std::forward<Argument>(argument)),
            Parameters<void (*)(Second, Rest...)>::pack(std::forward<Arguments>(rest)...)};
  }
};

/// A launch, before it has arguments.
template <auto Kernel>
struct Launch {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;

  template <typename... Arguments>
  void operator()(Arguments&&... arguments) const {
    const auto pack = Parameters<decltype(Kernel)>::pack(std::forward<Arguments>(arguments)...);
    Call<std::remove_const_t<decltype(pack)>> call{
        {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<unsigned>(shared), pack};
    const KernelEntry& entry = EntryOf<Kernel>::entry;
    const std::string what =
        "launch of " + entry.name + " in " + text(grid) + " blocks of " + text(block) + " threads with " + std::to_string(shared) + " bytes";
    if (entry.handle == nullptr) throw std::logic_error(what + ": expected a launch after compile_native has returned");
    const auto threads = std::uint64_t{block.x} * block.y * block.z;
    if (threads < 1 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0) {
      throw std::invalid_argument(what + ": expected at least 1 block, and 1 to 1024 threads in each");
    }
    // Kernels must ask for more than 48 KiB. A failure is that of the launch.
    constexpr int kMaxDynamicShared = 8;
    if (shared > (48 << 10)) Driver::direct("cuFuncSetAttribute", entry.handle, kMaxDynamicShared, static_cast<int>(shared));
    void* parameters[] = {&call};
    const cudaError_t launched = Driver::call("cuLaunchKernel", entry.handle, grid.x, grid.y, grid.z, block.x, block.y, block.z, call.shared,
                                              stream, static_cast<void**>(parameters), static_cast<void**>(nullptr));
    if (launched == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    throw CudaError(what + " failed", launched);
  }

  static std::string text(const dim3& v) { return std::to_string(v.x) + "x" + std::to_string(v.y) + "x" + std::to_string(v.z); }
};

/// The result of a function that `compile_native` declares for a template of kernels: the kernel that a call of it selects.
template <auto Kernel>
struct KernelConstant {
  static constexpr auto kKernel = Kernel;
};

/// The four numbers between `<<<` and `>>>`.
template <auto Kernel>
Launch<Kernel> launch(dim3 grid, dim3 block, std::size_t shared = 0, cudaStream_t stream = nullptr) {
  return {grid, block, shared, stream};
}

}  // namespace native
}  // namespace mscclpp

#include "mscclpp/native/symbol.hpp"
