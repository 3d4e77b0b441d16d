// Vectors of bytes, and plain loads and stores of them, which only a block sync and a signal order.
#pragma once
#include "dev.h"

/// Bytes as words of 4, which are moved by as few instructions as alignment allows.
struct alignas(16) Vec16 {
  uint32_t w[4];
};
struct alignas(8) Vec8 {
  uint32_t w[2];
};

#ifndef DEV_SIM

/// What `load_table` and relaxed loads of words return. In the simulator, which logs its conversion to a `T`, that is another type.
template <typename T>
using Loaded = T;

/// Loads an entry of a table that no kernel stores to.
template <typename T>
DEV Loaded<T> load_table(const T* at) {
  return *at;
}

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

/// Unsigned integers of 1, 2, 4 and 8 bytes, by one instruction each.
template <uint32_t kBytes>
struct Word;

#define MSCCLPP_WORD(bytes, type, reg_type, ptx, reg)                                                      \
  template <>                                                                                              \
  struct Word<bytes> {                                                                                     \
    using Type = type;                                                                                     \
    DEV static type load(const void* at) {                                                                 \
      reg_type value;                                                                                      \
      asm volatile("ld.global." ptx " %0, [%1];" : "=" reg(value) : "l"(at) : "memory");                   \
      return static_cast<type>(value);                                                                     \
    }                                                                                                      \
    DEV static void store(void* at, type value) {                                                          \
      asm volatile("st.global." ptx " [%0], %1;" ::"l"(at), reg(static_cast<reg_type>(value)) : "memory"); \
    }                                                                                                      \
  };

MSCCLPP_WORD(1, uint8_t, uint32_t, "u8", "r")
MSCCLPP_WORD(2, uint16_t, uint32_t, "u16", "r")
MSCCLPP_WORD(4, uint32_t, uint32_t, "u32", "r")
MSCCLPP_WORD(8, uint64_t, uint64_t, "u64", "l")
#undef MSCCLPP_WORD

/// An element of a type.
template <typename T>
DEV T load_plain(const void* at) {
  union {
    typename Word<sizeof(T)>::Type word;
    T value;
  } u;
  u.word = Word<sizeof(T)>::load(at);
  return u.value;
}

template <typename T>
DEV void store_plain(void* at, T value) {
  union {
    T value;
    typename Word<sizeof(T)>::Type word;
  } u;
  u.value = value;
  Word<sizeof(T)>::store(at, u.word);
}

#else

DEV Vec16 load16(const void* at) { return load_plain<Vec16>(at); }
DEV void store16(void* at, const Vec16& v) { store_plain<Vec16>(at, v); }

#endif

/// The largest power of two up to 16 that divides an address.
DEV uint32_t alignment_of(const void* at) {
  uint32_t low = static_cast<uint32_t>(reinterpret_cast<uint64_t>(at)) & 15;
  return low == 0 ? 16 : low & (0u - low);
}

template <typename W, typename Vec>
DEV Vec load_words(const char* at) {
  union {
    Vec vec;
    W words[sizeof(Vec) / sizeof(W)];
  } u;
#pragma unroll
  for (uint32_t i = 0; i < sizeof(Vec) / sizeof(W); ++i) u.words[i] = load_plain<W>(at + i * sizeof(W));
  return u.vec;
}

template <typename W, typename Vec>
DEV void store_words(char* at, const Vec& vec) {
  union {
    Vec vec;
    W words[sizeof(Vec) / sizeof(W)];
  } u;
  u.vec = vec;
#pragma unroll
  for (uint32_t i = 0; i < sizeof(Vec) / sizeof(W); ++i) store_plain<W>(at + i * sizeof(W), u.words[i]);
}

/// Loads a vector from any address, in words of `alignment` bytes, which divide the address.
template <typename Vec>
DEV_CALL Vec load_unaligned(const char* at, uint32_t alignment) {
  switch (alignment) {
    case 4: return load_words<uint32_t, Vec>(at);
    case 2: return load_words<uint16_t, Vec>(at);
    case 1: return load_words<uint8_t, Vec>(at);
    default: return load_words<uint64_t, Vec>(at);
  }
}

template <typename Vec>
DEV_CALL void store_unaligned(char* at, uint32_t alignment, Vec vec) {
  switch (alignment) {
    case 4: return store_words<uint32_t>(at, vec);
    case 2: return store_words<uint16_t>(at, vec);
    case 1: return store_words<uint8_t>(at, vec);
    default: return store_words<uint64_t>(at, vec);
  }
}

/// Loads a vector from an address that `alignment` divides.
template <typename Vec>
DEV Vec load_any(const char* at, uint32_t alignment) {
  if (alignment < sizeof(Vec)) return load_unaligned<Vec>(at, alignment);
  if constexpr (sizeof(Vec) == 16) return load16(at);
  else return load_words<uint64_t, Vec>(at);
}

/// Stores a vector at an address that `alignment` divides.
template <typename Vec>
DEV void store_any(char* at, uint32_t alignment, const Vec& vec) {
  if (alignment < sizeof(Vec)) return store_unaligned<Vec>(at, alignment, vec);
  if constexpr (sizeof(Vec) == 16) store16(at, vec);
  else store_words<uint64_t>(at, vec);
}

/// The first `bytes` of a vector, fewer than all; the others are zero. All of its loads are in flight at once.
template <typename Vec>
DEV_CALL Vec load_part(const char* at, uint32_t bytes) {
  constexpr uint32_t kWords = sizeof(Vec) / 4;
  Vec vec = {};
  if (alignment_of(at) >= 4 && bytes % 4 == 0) {
#pragma unroll
    for (uint32_t i = 0; i < kWords; ++i) {
      if (4 * i < bytes) vec.w[i] = load_plain<uint32_t>(at + 4 * i);
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < sizeof(Vec); ++i) {
      if (i < bytes) vec.w[i / 4] |= static_cast<uint32_t>(load_plain<uint8_t>(at + i)) << 8 * (i % 4);
    }
  }
  return vec;
}

/// Stores the first `bytes` of a vector.
template <typename Vec>
DEV_CALL void store_part(char* at, uint32_t bytes, Vec vec) {
  constexpr uint32_t kWords = sizeof(Vec) / 4;
  if (alignment_of(at) >= 4 && bytes % 4 == 0) {
#pragma unroll
    for (uint32_t i = 0; i < kWords; ++i) {
      if (4 * i < bytes) store_plain<uint32_t>(at + 4 * i, vec.w[i]);
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < sizeof(Vec); ++i) {
      if (i < bytes) store_plain<uint8_t>(at + i, static_cast<uint8_t>(vec.w[i / 4] >> 8 * (i % 4)));
    }
  }
}
