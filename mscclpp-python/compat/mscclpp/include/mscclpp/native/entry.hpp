// How kernels begin: with one argument, a pack.
#pragma once
#include "mscclpp/device.hpp"
#include "mscclpp/native/pack.hpp"
#include "mscclpp/native/symbol.hpp"

namespace mscclpp {
namespace native {

template <typename Kernel, typename... Before>
DEV void enter(Kernel kernel, const Pack<>&, const Before&...) {
  kernel();
}
template <typename Kernel, typename Last, typename... Before>
DEV void enter(Kernel kernel, const Pack<Last>& pack, const Before&... before) {
  kernel(before..., pack.first);
}
template <typename Kernel, typename First, typename Second, typename... Rest, typename... Before>
DEV void enter(Kernel kernel, const Pack<First, Second, Rest...>& pack, const Before&... before) {
  enter(kernel, pack.rest, before..., pack.first);
}

}  // namespace native
}  // namespace mscclpp

#if defined(DEV_SIM)
#define MSCCLPP_ANNOUNCE(name, pack) SIM_KERNEL_WITH(name, pack, true)
#else
#define MSCCLPP_ANNOUNCE(name, pack)
#define MSCCLPP_BEGIN(call)
#endif

/// Defines the kernel `name` for the function that the other arguments name.
#define MSCCLPP_KERNEL(name, ...)                                                         \
  using name##_call = ::mscclpp::native::Call<::mscclpp::native::PackOf<decltype(&__VA_ARGS__)>::Type>; \
  KERNEL(1024) name(KERNEL_PARAM name##_call call) {                                                    \
    MSCCLPP_BEGIN(call)                                                                                 \
    ::mscclpp::native::enter([](auto... arguments) { __VA_ARGS__(arguments...); }, call.arguments);     \
  }                                                                                                     \
  MSCCLPP_ANNOUNCE(name, name##_call)
