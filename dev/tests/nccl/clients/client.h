// What the C clients of the tests need of CUDA's driver and of NCCL, loaded as programs load them.
#pragma once
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char internal[128]; } ncclUniqueId;
typedef void* ncclComm_t;
typedef void* stream_t;

enum { kInt32 = 2, kFloat32 = 7, kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

static void* nccl_library;
static void* cuda_library;

#define FAIL(...) (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

static void* find(void* library, const char* name) {
  void* at = dlsym(library, name);
  if (!at) FAIL("%s: not found", name);
  return at;
}

/// Calls a function of NCCL that returns a code.
#define NCCL(name, types, ...) ((int(*) types)find(nccl_library, #name))(__VA_ARGS__)
/// Calls one that must succeed.
#define OK(name, types, ...)                                                                                    \
  do {                                                                                                          \
    int code_ = NCCL(name, types, __VA_ARGS__);                                                                 \
    if (code_)                                                                                                  \
      FAIL(#name ": %d: %s", code_, ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(0));  \
  } while (0)
/// Calls a function of the driver that must succeed.
#define CU(name, types, ...)                                            \
  do {                                                                  \
    int code_ = ((int(*) types)find(cuda_library, #name))(__VA_ARGS__); \
    if (code_) FAIL(#name ": %d", code_);                               \
  } while (0)

#define COLLECTIVE (const void*, void*, size_t, int, ncclComm_t, stream_t)
#define REDUCTION (const void*, void*, size_t, int, int, ncclComm_t, stream_t)
#define ROOTED (const void*, void*, size_t, int, int, ncclComm_t, stream_t)
#define ROOTED_REDUCTION (const void*, void*, size_t, int, int, int, ncclComm_t, stream_t)
#define SEND (const void*, size_t, int, int, ncclComm_t, stream_t)
#define RECV (void*, size_t, int, int, ncclComm_t, stream_t)

static inline void load(void) {
  cuda_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!cuda_library) FAIL("%s", dlerror());
  nccl_library = dlopen("libnccl.so.2", RTLD_NOW);
  if (!nccl_library) FAIL("%s", dlerror());
  CU(cuInit, (unsigned), 0);
}

static inline void use_device(int device) {
  void* context;
  CU(cuDevicePrimaryCtxRetain, (void**, int), &context, device);
  CU(cuCtxSetCurrent, (void*), context);
}

static inline void* device_memory(size_t bytes) {
  unsigned long long address;
  CU(cuMemAlloc_v2, (unsigned long long*, size_t), &address, bytes);
  return (void*)address;
}

static inline stream_t new_stream(void) {
  stream_t stream;
  CU(cuStreamCreate, (stream_t*, unsigned), &stream, 1);
  return stream;
}

static inline void synchronize(stream_t stream) { CU(cuStreamSynchronize, (stream_t), stream); }

static inline void write_device(void* at, const void* from, size_t bytes, stream_t stream) {
  CU(cuMemcpyHtoDAsync_v2, (unsigned long long, const void*, size_t, stream_t), (unsigned long long)at, from, bytes, stream);
  synchronize(stream);
}

static inline void read_device(void* to, const void* at, size_t bytes, stream_t stream) {
  // While such a copy waits, a driver lets nothing be allocated, which first transfers may need.
  synchronize(stream);
  CU(cuMemcpyDtoHAsync_v2, (void*, unsigned long long, size_t, stream_t), to, (unsigned long long)at, bytes, stream);
  synchronize(stream);
}

/// Fills device memory with `count` integers that depend on rank and place.
static inline void fill(int32_t* at, int rank, size_t count, stream_t stream) {
  int32_t* values = malloc(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) values[i] = 1000 * (rank + 1) + (int32_t)(i % 97);
  write_device(at, values, count * sizeof *values, stream);
  free(values);
}

static inline int32_t input(int rank, size_t i) { return 1000 * (rank + 1) + (int32_t)(i % 97); }

/// Compares device memory with `expected(i)`.
#define EXPECT(at, count, stream, i, expected)                                                                         \
  do {                                                                                                                 \
    int32_t* found_ = malloc((count) * sizeof *found_);                                                                \
    read_device(found_, at, (count) * sizeof *found_, stream);                                                         \
    for (size_t i = 0; i < (count); ++i) {                                                                             \
      if (found_[i] != (expected)) FAIL("element %zu of %zu: expected %d, found %d", i, (size_t)(count), expected, found_[i]); \
    }                                                                                                                  \
    free(found_);                                                                                                      \
  } while (0)
