// Ranks write to windows of one another, and signal it. `argv[1]`: what is done.
#include <signal.h>

#include "job.h"

#define PUT (const void*, size_t, int, int, void*, size_t, int, int, unsigned, ncclComm_t, stream_t)
#define SIGNAL (int, int, int, unsigned, ncclComm_t, stream_t)
#define WAIT (int, void*, ncclComm_t, stream_t)
#define POINTER (void*, size_t, int, void**)

static ncclComm_t comm;
enum { kEach = 3000 };

static const char* text(void) { return ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(comm); }

/// Waits for `count` signals of every rank, this one included.
static void wait_for_all(int count, stream_t stream) {
  int waits[8][4];
  for (int r = 0; r < ranks; ++r) memcpy(waits[r], (int[]){count, r, 0, 0}, sizeof *waits);
  OK(ncclWaitSignal, WAIT, ranks, waits, comm, stream);
}

static void barrier(stream_t stream) {
  OK(ncclGroupStart, (void), );
  // In a group signals precede waits.
  wait_for_all(1, stream);
  for (int r = 0; r < ranks; ++r) OK(ncclSignal, SIGNAL, r, 0, 0, 0, comm, stream);
  OK(ncclGroupEnd, (void), );
}

static int32_t value(int from, int to, int round, size_t i) { return ((from * 8 + to) * 100 + round) * 10000 + (int32_t)i; }

/// Every rank writes its part to the window of every other one, in alternating groups and on alternating streams.
static void all_to_all(int32_t* memory, void* window) {
  stream_t streams[2] = {new_stream(), new_stream()};
  int32_t *sent = device_memory(4 * kEach * ranks), *values = malloc(4 * kEach * ranks);
  for (int round = 0; round < 6; ++round) {
    stream_t stream = streams[round % 2];
    for (int to = 0; to < ranks; ++to)
      for (size_t i = 0; i < kEach; ++i) values[to * kEach + i] = value(rank, to, round, i);
    write_device(sent, values, 4 * kEach * ranks, stream);
    barrier(stream);
    if (round % 3 == 0) OK(ncclGroupStart, (void), );
    for (int to = 0; to < ranks; ++to) {
      // In two pieces, of which the second is on another stream: what one rank writes to another one keeps its order.
      size_t half = kEach / 2, at = 4 * (size_t)rank * kEach;
      OK(ncclPutSignal, PUT, sent + to * kEach, half, kInt32, to, window, at, 0, 0, 0, comm, stream);
      stream_t other = round % 3 == 2 ? streams[(round + 1) % 2] : stream;
      OK(ncclPutSignal, PUT, sent + to * kEach + half, kEach - half, kInt32, to, window, at + 4 * half, 0, 0, 0, comm, other);
    }
    if (round % 3 == 0) OK(ncclGroupEnd, (void), );
    wait_for_all(2, stream);
    EXPECT(memory, (size_t)kEach * ranks, stream, i, value((int)(i / kEach), rank, round, i % kEach));
    synchronize(streams[0]), synchronize(streams[1]);
  }
}

/// The addresses of a window are those of the memory of the other ranks.
static void pointers(int32_t* memory, void* window) {
  stream_t stream = new_stream();
  fill(memory, rank, kEach, stream);
  barrier(stream);
  synchronize(stream);
  int32_t* copy = device_memory(4 * kEach);
  for (int r = 0; r < ranks; ++r) {
    void *at, *same;
    OK(ncclGetPeerDevicePointer, POINTER, window, 40, r, &at);
    OK(ncclGetLsaDevicePointer, POINTER, window, 40, r, &same);
    if (!at || at != same || (r == rank) != (at == memory + 10)) FAIL("rank %d at %p and %p", r, at, same);
    CU(cuMemcpyAsync, (unsigned long long, unsigned long long, size_t, stream_t), (unsigned long long)copy,
       (unsigned long long)at, 4 * (kEach - 10), stream);
    EXPECT(copy, (size_t)kEach - 10, stream, i, input(r, i + 10));
  }
  void* at = &at;
  OK(ncclGetLsaMultimemDevicePointer, (void*, size_t, void**), window, 0, &at);
  if ((at != 0) != (getenv("MSCCLPP_MOCK_MULTICAST") != 0)) FAIL("multicast address %p", at);
  barrier(stream);
  synchronize(stream);
}

#define EXPECT_CODE(expected, name, types, ...)                                     \
  do {                                                                              \
    int code_ = NCCL(name, types, __VA_ARGS__);                                     \
    if (code_ != expected) FAIL(#name ": expected %d, found %d", expected, code_);  \
  } while (0)

static void invalid(int32_t* memory, void* window, void* plain) {
  stream_t stream = new_stream();
  int wait[4] = {1, 0, 0, 0};
  void* out;
  EXPECT_CODE(4, ncclPutSignal, PUT, memory, 1, kInt32, ranks, window, 0, 0, 0, 0, comm, stream);
  EXPECT_CODE(4, ncclPutSignal, PUT, memory, 1, kInt32, 0, window, 4 * (size_t)kEach * ranks, 0, 0, 0, comm, stream);
  EXPECT_CODE(4, ncclPutSignal, PUT, memory, ~0ull, kInt32, 0, window, 0, 0, 0, 0, comm, stream);
  EXPECT_CODE(4, ncclPutSignal, PUT, 0, 1, kInt32, 0, window, 0, 0, 0, 0, comm, stream);
  EXPECT_CODE(4, ncclPutSignal, PUT, memory, 1, 77, 0, window, 0, 0, 0, 0, comm, stream);
  EXPECT_CODE(4, ncclPutSignal, PUT, memory, 1, kInt32, 0, window, 0, 1, 0, 0, comm, stream);
  EXPECT_CODE(4, ncclPutSignal, PUT, memory, 1, kInt32, 0, window, 0, 0, 1, 0, comm, stream);
  EXPECT_CODE(4, ncclPutSignal, PUT, memory, 1, kInt32, 0, window, 0, 0, 0, 1, comm, stream);
  EXPECT_CODE(4, ncclPutSignal, PUT, memory, 1, kInt32, 0, memory, 0, 0, 0, 0, comm, stream);
  EXPECT_CODE(5, ncclPutSignal, PUT, memory, 1, kInt32, 1 - (rank > 0), plain, 0, 0, 0, 0, comm, stream);
  EXPECT_CODE(4, ncclSignal, SIGNAL, -1, 0, 0, 0, comm, stream);
  EXPECT_CODE(4, ncclWaitSignal, WAIT, 0, wait, comm, stream);
  EXPECT_CODE(4, ncclWaitSignal, WAIT, 1, 0, comm, stream);
  wait[0] = -1;
  EXPECT_CODE(4, ncclWaitSignal, WAIT, 1, wait, comm, stream);
  EXPECT_CODE(4, ncclGetPeerDevicePointer, POINTER, window, 0, ranks, &out);
  EXPECT_CODE(4, ncclGetPeerDevicePointer, POINTER, window, 0, 0, 0);
  EXPECT_CODE(4, ncclGetPeerDevicePointer, POINTER, memory, 0, 0, &out);
  EXPECT_CODE(4, ncclGetLsaDevicePointer, POINTER, window, 0, -1, &out);
  EXPECT_CODE(4, ncclGetPeerDevicePointer, POINTER, window, 1ull << 40, 0, &out);
  CU(cuStreamBeginCapture_v2, (stream_t, int), stream, 0);
  EXPECT_CODE(5, ncclSignal, SIGNAL, 0, 0, 0, 0, comm, stream);
  void* graph;
  CU(cuStreamEndCapture, (stream_t, void**), stream, &graph);
}

int main(int argc, char** argv) {
  comm = join();
  stream_t stream = new_stream();
  // Counters are memory that the ranks share.
  EXPECT_CODE(5, ncclSignal, SIGNAL, 0, 0, 0, 0, comm, stream);
  void *memory, *window, *other, *plain;
  size_t bytes = 4 * (size_t)kEach * ranks;
  OK(ncclMemAlloc, (void**, size_t), &memory, bytes);
  OK(ncclMemAlloc, (void**, size_t), &other, bytes);
  OK(ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm, memory, bytes, &window, 1);
  OK(ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm, other, bytes, &plain, 0);
  if (argc > 1 && !strcmp(argv[1], "lost")) {
    barrier(stream);
    synchronize(stream);
    if (rank == 1) raise(SIGKILL);
    wait_for_all(1, stream);
    synchronize(stream);
    int code = 0;
    for (; !code; usleep(1000)) OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    printf("rank %d: code %d: %s\n", rank, code, text());
    OK(ncclCommAbort, (ncclComm_t), comm);
    return 0;
  }
  all_to_all(memory, window);
  pointers(memory, window);
  invalid(memory, window, plain);
  OK(ncclCommWindowDeregister, (ncclComm_t, void*), comm, window);
  OK(ncclCommWindowDeregister, (ncclComm_t, void*), comm, plain);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  OK(ncclMemFree, (void*), memory);
  OK(ncclMemFree, (void*), other);
  printf("ok rank %d\n", rank);
  return 0;
}
