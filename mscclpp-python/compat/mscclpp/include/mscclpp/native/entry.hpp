// How kernels begin: with one argument, a pack or bytes.
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

/// The bytes of a kernel's arguments, each at a multiple of its alignment, as CUDA's driver takes them in a buffer.
template <unsigned kBytes>
struct alignas(16) Bytes {
  unsigned char values[kBytes == 0 ? 1 : kBytes];
};

/// Where an argument begins after those that end at a byte.
template <typename T>
constexpr unsigned begin_of(unsigned end) {
  return (end + alignof(T) - 1) / alignof(T) * alignof(T);
}

/// Where the arguments of types end after those that end at a byte.
template <unsigned kEnd, typename... Types>
struct EndOf {
  static constexpr unsigned kValue = kEnd;
};
template <unsigned kEnd, typename First, typename... Rest>
struct EndOf<kEnd, First, Rest...> : EndOf<begin_of<First>(kEnd) + sizeof(First), Rest...> {};

/// The arguments of a kernel, by the type of a pointer to it, and calls with them.
template <typename Kernel>
struct BytesOf;

template <typename... Types>
struct BytesOf<void (*)(Types...)> {
  using Type = Bytes<EndOf<0, Types...>::kValue>;

  template <typename Kernel>
  DEV static void enter(Kernel kernel, const Type& bytes) {
    Next<0, Types...>::enter(kernel, bytes.values);
  }

 private:
  template <unsigned kEnd, typename... Left>
  struct Next {
    template <typename Kernel, typename... Before>
    DEV static void enter(Kernel kernel, const unsigned char*, const Before&... before) {
      kernel(before...);
    }
  };
  template <unsigned kEnd, typename First, typename... Rest>
  struct Next<kEnd, First, Rest...> {
    template <typename Kernel, typename... Before>
    DEV static void enter(Kernel kernel, const unsigned char* bytes, const Before&... before) {
      constexpr unsigned kBegin = begin_of<First>(kEnd);
      Next<kBegin + sizeof(First), Rest...>::enter(kernel, bytes, before..., *reinterpret_cast<const First*>(bytes + kBegin));
    }
  };
};

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

/// As above for a kernel whose arguments are bytes, which `launch_kernel` gets.
#define MSCCLPP_KERNEL_OF_BYTES(name, ...)                                                              \
  using name##_bytes = ::mscclpp::native::BytesOf<decltype(&__VA_ARGS__)>;                              \
  using name##_call = ::mscclpp::native::Call<name##_bytes::Type>;                                      \
  KERNEL(1024) name(KERNEL_PARAM name##_call call) {                                                    \
    MSCCLPP_BEGIN(call)                                                                                 \
    name##_bytes::enter([](auto... arguments) { __VA_ARGS__(arguments...); }, call.arguments);          \
  }                                                                                                     \
  MSCCLPP_ANNOUNCE(name, name##_call)
