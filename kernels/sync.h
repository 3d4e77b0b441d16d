// Loads, stores and additions that order memory. Order and scope are in the name, never a default.
// One wrapper per PTX instruction; dev/sim/ has the same functions for the simulator.
#pragma once
#include "dev.h"

#ifndef DEV_SIM

#define MSCCLPP_LOAD(name, ptx, type, reg)                                          \
  DEV type name(const type* at) {                                                   \
    type value;                                                                     \
    asm volatile(ptx " %0, [%1];" : "=" reg(value) : "l"(at) : "memory");           \
    return value;                                                                   \
  }
#define MSCCLPP_STORE(name, ptx, type, reg) \
  DEV void name(type* at, type value) { asm volatile(ptx " [%0], %1;" ::"l"(at), reg(value) : "memory"); }

MSCCLPP_LOAD(load_acquire_gpu, "ld.acquire.gpu.global.u64", uint64_t, "l")
MSCCLPP_LOAD(load_acquire_sys, "ld.acquire.sys.global.u64", uint64_t, "l")
MSCCLPP_LOAD(load_relaxed_sys, "ld.relaxed.sys.global.u64", uint64_t, "l")
MSCCLPP_LOAD(load_relaxed_sys, "ld.relaxed.sys.global.u32", uint32_t, "r")
MSCCLPP_LOAD(load_relaxed_gpu, "ld.relaxed.gpu.global.u64", uint64_t, "l")
MSCCLPP_STORE(store_relaxed_gpu, "st.relaxed.gpu.global.u64", uint64_t, "l")
MSCCLPP_STORE(store_relaxed_sys, "st.relaxed.sys.global.u64", uint64_t, "l")
MSCCLPP_STORE(store_relaxed_sys, "st.relaxed.sys.global.u32", uint32_t, "r")
MSCCLPP_STORE(store_release_sys, "st.release.sys.global.u64", uint64_t, "l")
MSCCLPP_STORE(add_release_gpu, "red.release.gpu.global.add.u64", uint64_t, "l")
MSCCLPP_STORE(add_release_sys, "red.release.sys.global.add.u64", uint64_t, "l")
MSCCLPP_STORE(add_relaxed_gpu, "red.relaxed.gpu.global.add.u64", uint64_t, "l")
MSCCLPP_STORE(add_relaxed_sys, "red.relaxed.sys.global.add.u64", uint64_t, "l")

#undef MSCCLPP_LOAD
#undef MSCCLPP_STORE

/// Adds and returns the previous value. Acquires and releases, within the GPU.
DEV uint64_t fetch_add_acq_rel_gpu(uint64_t* at, uint64_t value) {
  uint64_t old;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// Adds and returns the previous value; relaxed.
DEV uint64_t fetch_add_relaxed_gpu(uint64_t* at, uint64_t value) {
  uint64_t old;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// Stores `value` if the previous value is `expected`; returns the previous value. Acquires, within the GPU.
DEV uint64_t compare_swap_acquire_gpu(uint64_t* at, uint64_t expected, uint64_t value) {
  uint64_t old;
  asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(old)
               : "l"(at), "l"(expected), "l"(value)
               : "memory");
  return old;
}

/// Stores `value` if the previous value is `expected`; returns the previous value. Relaxed, for every device.
DEV uint64_t compare_swap_relaxed_sys(uint64_t* at, uint64_t expected, uint64_t value) {
  uint64_t old;
  asm volatile("atom.relaxed.sys.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(old)
               : "l"(at), "l"(expected), "l"(value)
               : "memory");
  return old;
}

/// `compare_swap_relaxed_sys` of 32 bits.
DEV uint32_t compare_swap_relaxed_sys(uint32_t* at, uint32_t expected, uint32_t value) {
  uint32_t old;
  asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(at), "r"(expected), "r"(value)
               : "memory");
  return old;
}

#endif
