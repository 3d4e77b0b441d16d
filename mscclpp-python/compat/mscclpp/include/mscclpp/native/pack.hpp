// The arguments of a kernel as one struct, of the same layout for the host's compiler and that of device code.
#pragma once

namespace mscclpp {
namespace native {

template <typename... Types>
struct Pack;

template <>
struct Pack<> {
  char none;
};

template <typename First>
struct Pack<First> {
  First first;
};

template <typename First, typename... Rest>
struct Pack<First, Rest...> {
  First first;
  Pack<Rest...> rest;
};

/// What a launch passes to a kernel: its blocks and threads, which a simulated device does not know, and the arguments.
template <typename Arguments>
struct Call {
  unsigned blocks[3], threads[3], shared;
  Arguments arguments;
};

/// The pack of a kernel's parameters, by the type of a pointer to it.
template <typename Kernel>
struct PackOf;

template <typename... Types>
struct PackOf<void (*)(Types...)> {
  using Type = Pack<Types...>;
};

}  // namespace native
}  // namespace mscclpp
