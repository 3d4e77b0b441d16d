// Vectors of bytes, and plain loads and stores of them. They order nothing: what orders them is a block sync and a signal.
#pragma once
#include "dev.h"

/// `N` bytes as words of 4, to be moved by as few instructions as alignment allows.
struct alignas(16) Vec16 {
  uint32_t w[4];
};
struct alignas(8) Vec8 {
  uint32_t w[2];
};

#ifndef DEV_SIM

DEV Vec16 load16(const void* at) {
  Vec16 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(at)
               : "memory");
  return v;
}

DEV void store16(void* at, const Vec16& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
               : "memory");
}

template <typename T>
DEV T load_plain(const void* at) {
  return *static_cast<const volatile T*>(at);
}

template <typename T>
DEV void store_plain(void* at, T value) {
  *static_cast<volatile T*>(at) = value;
}

#endif

/// The largest power of two up to 16 that divides an address.
DEV uint32_t alignment_of(const void* at) {
  uint32_t low = static_cast<uint32_t>(reinterpret_cast<uint64_t>(at)) & 15;
  return low == 0 ? 16 : low & (0u - low);
}

template <typename Word, typename Vec>
DEV Vec load_pieces(const char* at) {
  union {
    Vec vec;
    Word words[sizeof(Vec) / sizeof(Word)];
  } u;
#pragma unroll
  for (uint32_t i = 0; i < sizeof(Vec) / sizeof(Word); ++i) u.words[i] = load_plain<Word>(at + i * sizeof(Word));
  return u.vec;
}

template <typename Word, typename Vec>
DEV void store_pieces(char* at, const Vec& vec) {
  union {
    Vec vec;
    Word words[sizeof(Vec) / sizeof(Word)];
  } u;
  u.vec = vec;
#pragma unroll
  for (uint32_t i = 0; i < sizeof(Vec) / sizeof(Word); ++i) store_plain<Word>(at + i * sizeof(Word), u.words[i]);
}

/// Loads a vector from any address, in pieces of `alignment` bytes, which divide the address.
template <typename Vec>
DEV Vec load_any(const char* at, uint32_t alignment) {
  switch (alignment) {
    case 8: return load_pieces<uint64_t, Vec>(at);
    case 4: return load_pieces<uint32_t, Vec>(at);
    case 2: return load_pieces<uint16_t, Vec>(at);
    case 1: return load_pieces<uint8_t, Vec>(at);
    default:
      if constexpr (sizeof(Vec) == 16) return load16(at);
      else return load_pieces<uint64_t, Vec>(at);
  }
}

/// Stores a vector at any address, in pieces of `alignment` bytes, which divide the address.
template <typename Vec>
DEV void store_any(char* at, uint32_t alignment, const Vec& vec) {
  switch (alignment) {
    case 8: return store_pieces<uint64_t>(at, vec);
    case 4: return store_pieces<uint32_t>(at, vec);
    case 2: return store_pieces<uint16_t>(at, vec);
    case 1: return store_pieces<uint8_t>(at, vec);
    default:
      if constexpr (sizeof(Vec) == 16) store16(at, vec);
      else store_pieces<uint64_t>(at, vec);
  }
}
