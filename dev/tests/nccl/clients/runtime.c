// The mock of CUDA's runtime without PyTorch: order of streams, kinds of memory, captures, errors. Physical memory is that of the driver.
#include <pthread.h>

#include "client.h"

static void* runtime;
static int failures;

#define RUNTIME(name, types, ...) ((int(*) types)find(runtime, #name))(__VA_ARGS__)
#define CODE(expected, name, types, ...) expect(expected, RUNTIME(name, types, __VA_ARGS__), #name, __LINE__)
#define RUN(name, types, ...) CODE(0, name, types, __VA_ARGS__)
#define TRUE(condition) expect(1, condition, #condition, __LINE__)

enum { kToDevice = 1, kToHost = 2, kOnDevice = 3, kByAddress = 4 };
enum { kBytes = 1 << 16 };

typedef struct { unsigned x, y, z; } size3;
typedef struct { int kind, device; void *on_device, *on_host; long reserved[8]; } attributes;

static void expect(int expected, int found, const char* what, int line) {
  if (expected == found) return;
  fprintf(stderr, "line %d: %s: expected %d, found %d\n", line, what, expected, found);
  ++failures;
}

static void* memory(void) {
  void* at = 0;
  RUN(cudaMalloc, (void**, size_t), &at, kBytes);
  return at;
}

static void* stream(unsigned flags) {
  void* made = 0;
  RUN(cudaStreamCreateWithFlags, (void**, unsigned), &made, flags);
  return made;
}

static void* event(void) {
  void* made = 0;
  RUN(cudaEventCreateWithFlags, (void**, unsigned), &made, 2);
  return made;
}

static void copy(void* to, const void* from, int kind, void* on) {
  RUN(cudaMemcpyAsync, (void*, const void*, size_t, int, void*), to, from, kBytes, kind, on);
}

/// Returns whether all bytes of device memory have a value.
static int holds(const void* at, int value) {
  unsigned char* bytes = malloc(kBytes);
  RUN(cudaMemcpy, (void*, const void*, size_t, int), bytes, at, kBytes, kToHost);
  int same = 1;
  for (int i = 0; i < kBytes; ++i) same &= bytes[i] == value;
  free(bytes);
  return same;
}

static void set(void* at, int value) { RUN(cudaMemset, (void*, int, size_t), at, value, kBytes); }

static attributes attributes_of(void* at) {
  attributes found;
  RUN(cudaPointerGetAttributes, (attributes*, const void*), &found, at);
  return found;
}

/// Work of the default stream and of a stream that synchronizes with it is in the order of the calls, without events.
static void default_stream_is_ordered(void) {
  void *first = memory(), *second = memory(), *blocking = stream(0);
  unsigned char* host = malloc(kBytes);
  for (int round = 1; round < 6; ++round) {
    memset(host, round, kBytes);
    copy(first, host, kToDevice, blocking);
    copy(second, first, kOnDevice, 0);
    TRUE(holds(second, round));
    memset(host, 100 + round, kBytes);
    copy(first, host, kToDevice, 0);
    copy(second, first, kOnDevice, blocking);
    TRUE(holds(second, 100 + round));
  }
  // The default stream of the thread synchronizes with that of the device.
  memset(host, 77, kBytes);
  copy(first, host, kToDevice, (void*)2);
  copy(second, first, kOnDevice, 0);
  TRUE(holds(second, 77));
  free(host);
  CODE(400, cudaStreamDestroy, (void*), (void*)0xdead00);
  RUN(cudaStreamDestroy, (void*), blocking);
  RUN(cudaFree, (void*), first);
  RUN(cudaFree, (void*), second);
}

static void kinds_of_memory(void) {
  void *device = memory(), *locked = 0, *pooled = 0, *on = stream(1);
  RUN(cudaHostAlloc, (void**, size_t, unsigned), &locked, kBytes, 0);
  unsigned char* plain = malloc(kBytes);
  TRUE(attributes_of((char*)device + 9).kind == 2 && attributes_of(device).device == 1);
  TRUE(attributes_of(locked).kind == 1 && attributes_of(plain).kind == 0);
  RUN(cudaHostRegister, (void*, size_t, unsigned), plain, kBytes, 0);
  CODE(712, cudaHostRegister, (void*, size_t, unsigned), plain + 5, 10, 0);
  TRUE(attributes_of(plain + 5).kind == 1);
  RUN(cudaHostUnregister, (void*), plain);
  CODE(713, cudaHostUnregister, (void*), plain);
  TRUE(attributes_of(plain).kind == 0);
  size_t before, after, total;
  RUN(cudaMemGetInfo, (size_t*, size_t*), &before, &total);
  RUN(cudaMallocAsync, (void**, size_t, void*), &pooled, kBytes, on);
  RUN(cudaMemsetAsync, (void*, int, size_t, void*), pooled, 7, kBytes, on);
  copy(device, pooled, kByAddress, on);
  RUN(cudaFreeAsync, (void*, void*), pooled, on);
  CODE(1, cudaFreeAsync, (void*, void*), (char*)device + 1, on);
  RUN(cudaStreamSynchronize, (void*), on);
  TRUE(holds(device, 7));
  RUN(cudaMemGetInfo, (size_t*, size_t*), &after, &total);
  TRUE(before == after && before < total);
  memset(plain, 3, kBytes);
  copy(locked, plain, kByAddress, on);
  copy(device, locked, kByAddress, on);
  RUN(cudaStreamSynchronize, (void*), on);
  TRUE(holds(device, 3));
  free(plain);
  RUN(cudaFreeHost, (void*), locked);
  RUN(cudaFree, (void*), device);
  CODE(1, cudaFree, (void*), device);
  RUN(cudaStreamDestroy, (void*), on);
}

/// A stream that waits for an event of a capture joins it; nothing runs before the graph does.
static void captures_include_joined_streams(void) {
  void *from = memory(), *to = memory(), *first = stream(1), *second = stream(1), *forked = event(), *joined = event();
  set(from, 1), set(to, 2);
  int status;
  unsigned long long id = 0;
  void *graph = 0, *early = 0, *made = 0, *again = 0;
  RUN(cudaStreamBeginCapture, (void*, int), first, 1);
  RUN(cudaEventRecord, (void*, void*), forked, first);
  RUN(cudaStreamWaitEvent, (void*, void*, unsigned), second, forked, 0);
  RUN(cudaStreamIsCapturing, (void*, int*), second, &status);
  TRUE(status == 1);
  RUN(cudaStreamGetCaptureInfo, (void*, int*, unsigned long long*, void**, void*, void*, void*), second, &status, &id, &early, 0, 0, 0);
  TRUE(status == 1 && id > 0 && early);
  copy(to, from, kOnDevice, second);
  CODE(801, cudaMemcpyAsync, (void*, const void*, size_t, int, void*), to, &status, sizeof status, kToDevice, second);
  RUN(cudaEventRecord, (void*, void*), joined, second);
  RUN(cudaStreamWaitEvent, (void*, void*, unsigned), first, joined, 0);
  CODE(907, cudaEventQuery, (void*), joined);
  RUN(cudaStreamEndCapture, (void*, void**), first, &graph);
  TRUE(graph == early && holds(to, 2));
  RUN(cudaStreamIsCapturing, (void*, int*), second, &status);
  TRUE(status == 0);
  CODE(905, cudaStreamWaitEvent, (void*, void*, unsigned), second, forked, 0);
  size_t nodes = 0;
  RUN(cudaGraphGetNodes, (void*, void*, size_t*), graph, 0, &nodes);
  TRUE(nodes == 1);
  RUN(cudaGraphInstantiate, (void**, void*, unsigned long long), &made, graph, 0);
  CODE(801, cudaGraphInstantiate, (void**, void*, unsigned long long), &again, graph, 0);
  RUN(cudaGraphDestroy, (void*), graph);
  CODE(1, cudaGraphDestroy, (void*), graph);
  for (int value = 3; value < 6; ++value) {
    set(from, value);
    RUN(cudaGraphLaunch, (void*, void*), made, first);
    RUN(cudaEventRecord, (void*, void*), joined, first);
    RUN(cudaEventSynchronize, (void*), joined);
    TRUE(holds(to, value));
  }
  RUN(cudaGraphExecDestroy, (void*), made);
}

static void streams_have_priorities(void) {
  int least = 9, greatest = 9, found = 9;
  void *high = 0, *low = stream(1);
  RUN(cudaDeviceGetStreamPriorityRange, (int*, int*), &least, &greatest);
  TRUE(least == 0 && greatest < 0);
  RUN(cudaStreamCreateWithPriority, (void**, unsigned, int), &high, 1, greatest);
  RUN(cudaStreamGetPriority, (void*, int*), high, &found);
  TRUE(found == greatest);
  RUN(cudaStreamGetPriority, (void*, int*), low, &found);
  TRUE(found == 0);
}

static void errors_are_codes_with_texts(void) {
  int last = RUNTIME(cudaGetLastError, (void), );
  CODE(1, cudaMalloc, (void**, size_t), 0, 5);
  CODE(101, cudaSetDevice, (int), 99);
  last = RUNTIME(cudaPeekAtLastError, (void), );
  TRUE(last == 101 && RUNTIME(cudaGetLastError, (void), ) == 101 && RUNTIME(cudaGetLastError, (void), ) == 0);
  CODE(801, cudaProfilerStart, (void), );
  TRUE(RUNTIME(cudaGetLastError, (void), ) == 801);
  const char* text = ((const char* (*)(int))find(runtime, "cudaGetErrorString"))(801);
  TRUE(strstr(text, "simulated") != 0);
  // Kernels of the program.
  size3 one = {1, 1, 1};
  CODE(98, cudaLaunchKernel, (const void*, size3, size3, void**, size_t, void*), &failures, one, one, 0, 0, 0);
  RUNTIME(__cudaRegisterFunction, (void*, const void*, char*, const char*, int, void*, void*, void*, void*, int*), 0, &failures, 0,
          "kernel_of_the_program", -1, 0, 0, 0, 0, 0);
  CODE(801, cudaLaunchKernel, (const void*, size3, size3, void**, size_t, void*), &failures, one, one, 0, 0, 0);
  void* found = 0;
  RUN(cudaGetDriverEntryPointByVersion, (const char*, void**, unsigned, unsigned long long, int*), "cuMemAlloc", &found, 13000, 0, &last);
  TRUE(found == find(cuda_library, "cuMemAlloc_v2") && last == 0);
  RUN(cudaGetDriverEntryPointByVersion, (const char*, void**, unsigned, unsigned long long, int*), "cuNothing", &found, 13000, 0, &last);
  TRUE(found == 0 && last == 1);
}

static pthread_barrier_t created;

/// Maps physical memory when other threads have created theirs, and frees it.
static void* map_memory(void* none) {
  typedef unsigned long long address;
  struct { int kind, handle_types, place, device; void* description; char flags[8]; } pinned = {1, 1, 1, 1, 0, {0}};
  struct { int place, device, access; } both = {1, 1, 3};
  address memory = 0, at = 0;
  size_t bytes = 0;
  RUN(cudaSetDevice, (int), 1);
  CU(cuMemGetAllocationGranularity, (size_t*, const void*, int), &bytes, &pinned, 0);
  for (int i = 0; i < 10; ++i) {
    CU(cuMemCreate, (address*, size_t, const void*, address), &memory, bytes, &pinned, 0);
    pthread_barrier_wait(&created);
    CU(cuMemAddressReserve, (address*, size_t, size_t, address, address), &at, bytes, bytes, 0, 0);
    CU(cuMemMap, (address, size_t, size_t, address, address), at, bytes, 0, memory, 0);
    CU(cuMemSetAccess, (address, size_t, const void*, size_t), at, bytes, &both, 1);
    CU(cuMemRelease, (address), memory);
    CU(cuMemUnmap, (address, size_t), at, bytes);
    CU(cuMemAddressFree, (address, size_t), at, bytes);
  }
  return none;
}

static void threads_map_memory_of_one_size_at_once(void) {
  pthread_t threads[4];
  pthread_barrier_init(&created, 0, 4);
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], 0, map_memory, 0);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], 0);
}

/// The identifier of a device has no alignment.
static void identifiers_are_bytes(void) {
  char odd[17] __attribute__((aligned(16))) = {0}, even[16] __attribute__((aligned(16))) = {0};
  CU(cuDeviceGetUuid_v2, (char*, int), odd + 1, 1);
  CU(cuDeviceGetUuid_v2, (char*, int), even, 1);
  TRUE(memcmp(odd + 1, even, 16) == 0);
}

int main(void) {
  runtime = dlopen("libcudart.so.13", RTLD_NOW);
  if (!runtime) FAIL("%s", dlerror());
  cuda_library = dlopen("libcuda.so.1", RTLD_NOW);
  int count = 0, device = -1;
  RUN(cudaGetDeviceCount, (int*), &count);
  TRUE(count == 8);
  RUN(cudaSetDevice, (int), 1);
  RUN(cudaGetDevice, (int*), &device);
  TRUE(device == 1);
  default_stream_is_ordered();
  kinds_of_memory();
  streams_have_priorities();
  captures_include_joined_streams();
  errors_are_codes_with_texts();
  threads_map_memory_of_one_size_at_once();
  identifiers_are_bytes();
  return failures != 0;
}
