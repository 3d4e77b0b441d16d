// Calls among the ranks of a launcher, some of which a stand-in serves; `argv[1]` says which.
#include "job.h"

enum { kCount = 3000 };

static const char* last_error(ncclComm_t comm) {
  return ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(comm);
}

static int sum_of(size_t i) {
  int sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, i);
  return sum;
}

/// A call that returns a code prints it.
#define PRINT(comm, name, types, ...)                                                   \
  do {                                                                                  \
    int code_ = NCCL(name, types, __VA_ARGS__);                                         \
    printf("rank %d: " #name ": %d: %s\n", rank, code_, code_ ? last_error(comm) : ""); \
  } while (0)

/// Calls of every kind, each forwarded: the outputs hold this rank's input.
static void all(ncclComm_t comm, stream_t stream, int32_t* send, int32_t* recv) {
  OK(ncclAllReduce, REDUCTION, send, recv, kCount, kInt32, kSum, comm, stream);
  EXPECT(recv, kCount, stream, i, input(rank, i));
  OK(ncclReduce, ROOTED_REDUCTION, send, recv, kCount, kInt32, kMax, 1, comm, stream);
  OK(ncclReduceScatter, REDUCTION, send, recv, kCount / ranks, kInt32, kMin, comm, stream);
  OK(ncclBroadcast, ROOTED, send, recv, kCount, kInt32, 1, comm, stream);
  OK(ncclBcast, (void*, size_t, int, int, ncclComm_t, stream_t), recv, kCount, kInt32, 0, comm, stream);
  OK(ncclAllGather, COLLECTIVE, send, recv, kCount, kInt32, comm, stream);
  OK(ncclAlltoAll, COLLECTIVE, send, recv, kCount, kInt32, comm, stream);
  OK(ncclGather, ROOTED, send, recv, kCount, kInt32, 0, comm, stream);
  OK(ncclScatter, ROOTED, send, recv, kCount, kInt32, 0, comm, stream);
  OK(ncclGroupStart, (void), );
  OK(ncclSend, SEND, send, kCount, kInt32, (rank + 1) % ranks, comm, stream);
  OK(ncclRecv, RECV, recv, kCount, kInt32, (rank + ranks - 1) % ranks, comm, stream);
  OK(ncclGroupEnd, (void), );
  int op, factor = 3;
  OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &op, &factor, kInt32, 1, comm);
  OK(ncclAllReduce, REDUCTION, send, recv, kCount, kInt32, op, comm, stream);
  OK(ncclRedOpDestroy, (int, ncclComm_t), op, comm);
  OK(ncclAllReduce, REDUCTION, 0, 0, 0, kInt32, kSum, comm, stream);
}

/// Only broadcasts are forwarded: a group alternates between the two.
static void mixed(ncclComm_t comm, stream_t stream, int32_t* send, int32_t* recv) {
  int32_t *first = device_memory(4 * kCount), *second = device_memory(4 * kCount), *third = device_memory(4 * kCount);
  int before = (rank + ranks - 1) % ranks;
  OK(ncclGroupStart, (void), );
  OK(ncclSend, SEND, send, kCount, kInt32, (rank + 1) % ranks, comm, stream);
  OK(ncclAllReduce, REDUCTION, send, first, kCount, kInt32, kSum, comm, stream);
  OK(ncclBroadcast, ROOTED, first, second, kCount, kInt32, 0, comm, stream);
  OK(ncclBroadcast, ROOTED, first, second, kCount, kInt32, 1, comm, stream);
  OK(ncclAllReduce, REDUCTION, second, third, kCount, kInt32, kSum, comm, stream);
  OK(ncclBroadcast, ROOTED, third, first, kCount, kInt32, 0, comm, stream);
  OK(ncclRecv, RECV, recv, kCount, kInt32, before, comm, stream);
  OK(ncclGroupEnd, (void), );
  // A stand-in's broadcast copies. Each call has the result of the one before.
  EXPECT(second, kCount, stream, i, sum_of(i));
  EXPECT(first, kCount, stream, i, ranks * sum_of(i));
  EXPECT(recv, kCount, stream, i, input(before, i));
}

/// All-reduces of more than 8000 bytes are forwarded.
static void sizes(ncclComm_t comm, stream_t stream, int32_t* send, int32_t* recv) {
  OK(ncclAllReduce, REDUCTION, send, recv, 2000, kInt32, kSum, comm, stream);
  EXPECT(recv, 2000, stream, i, sum_of(i));
  OK(ncclAllReduce, REDUCTION, send, recv, 2001, kInt32, kSum, comm, stream);
  EXPECT(recv, 2001, stream, i, input(rank, i));
}

/// Communicators that are made of others.
static void communicators(ncclComm_t comm, stream_t stream, int32_t* send, int32_t* recv) {
  ncclComm_t half, fewer;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, rank == 0 ? -1 : 0, -rank, &half, 0);
  if (half) {
    OK(ncclAllReduce, REDUCTION, send, recv, kCount, kInt32, kSum, half, stream);
    OK(ncclCommAbort, (ncclComm_t), half);
  }
  int excluded = ranks - 1;
  if (rank == excluded) return;
  OK(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, void*, int), comm, &excluded, 1, &fewer, 0, 0);
  OK(ncclAllReduce, REDUCTION, send, recv, kCount, kInt32, kSum, fewer, stream);
  OK(ncclCommFinalize, (ncclComm_t), fewer);
  OK(ncclCommDestroy, (ncclComm_t), fewer);
}

/// Memory that is registered, and functions that the stand-in alone serves.
static void windows(ncclComm_t comm, stream_t stream, int32_t* send) {
  void *memory, *window, *handle, *found;
  OK(ncclMemAlloc, (void**, size_t), &memory, 8192);
  OK(ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm, memory, 8192, &window, 1);
  OK(ncclWinGetUserPtr, (ncclComm_t, void*, void**), comm, window, &found);
  if (found != memory || window != (char*)memory + 1) FAIL("window %p at %p", window, found);
  OK(ncclCommRegister, (ncclComm_t, void*, size_t, void**), comm, memory, 4096, &handle);
  int signals[2][4] = {{1, 0, 0, 0}, {2, 1, 3, 4}};
  OK(ncclGroupStart, (void), );
  OK(ncclPutSignal, (const void*, size_t, int, int, void*, size_t, int, int, unsigned, ncclComm_t, stream_t), send, 5, kInt32, 1,
     window, 64, 2, 3, 0, comm, stream);
  OK(ncclWaitSignal, (int, void*, ncclComm_t, stream_t), 2, signals, comm, stream);
  // They were copied.
  memset(signals, 0, sizeof signals);
  OK(ncclGroupEnd, (void), );
  OK(ncclSignal, (int, int, int, unsigned, ncclComm_t, stream_t), 1, 0, 0, 0, comm, stream);
  OK(ncclSetEncryption, (const void*), signals);
  PRINT(comm, ncclWaitSignal, (int, void*, ncclComm_t, stream_t), 0, signals, comm, stream);
  OK(ncclCommDeregister, (ncclComm_t, void*), comm, handle);
  OK(ncclCommWindowDeregister, (ncclComm_t, void*), comm, window);
  OK(ncclMemFree, (void*), memory);
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  rank = atoi(getenv("RANK"));
  ranks = atoi(getenv("WORLD_SIZE"));
  // A rank with another environment than the others.
  const char* forced = getenv("FORCED_ON_RANK_1");
  if (forced && rank == 1) setenv("MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION", forced, 1);
  load();
  int version;
  PRINT(0, ncclGetVersion, (int*), &version);
  printf("version %d\n", version);
  if (!strcmp(which, "version")) return 0;
  use_device(own_device());
  ncclComm_t comm;
  int code = NCCL(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int), &comm, ranks, job_id(), rank);
  printf("rank %d: ncclCommInitRank: %d: %s\n", rank, code, code ? last_error(0) : "");
  if (code) return 0;
  stream_t stream = new_stream();
  int32_t *send = device_memory(4 * kCount * ranks), *recv = device_memory(4 * kCount * ranks);
  fill(send, rank, kCount, stream);
  if (!strcmp(which, "all")) all(comm, stream, send, recv);
  if (!strcmp(which, "mixed")) mixed(comm, stream, send, recv);
  if (!strcmp(which, "sizes")) sizes(comm, stream, send, recv);
  if (!strcmp(which, "communicators")) communicators(comm, stream, send, recv);
  if (!strcmp(which, "windows")) windows(comm, stream, send);
  if (!strcmp(which, "lacking")) {
    PRINT(comm, ncclAlltoAll, COLLECTIVE, send, recv, 1, kInt32, comm, stream);
    PRINT(comm, ncclSignal, (int, int, int, unsigned, ncclComm_t, stream_t), 0, 0, 0, 0, comm, stream);
    OK(ncclAllReduce, REDUCTION, send, recv, kCount, kInt32, kSum, comm, stream);
  }
  if (!strcmp(which, "failing")) {
    PRINT(comm, ncclAllReduce, REDUCTION, send, recv, kCount, kInt32, kSum, comm, stream);
    OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    printf("rank %d: asynchronous error %d\n", rank, code);
    PRINT(comm, ncclAllReduce, REDUCTION, send, recv, kCount, kInt32, kSum, comm, stream);
    OK(ncclCommAbort, (ncclComm_t), comm);
    return 0;
  }
  if (!strcmp(which, "plans")) {
    // Sums by a plan: the stand-in would copy.
    OK(ncclAllReduce, REDUCTION, send, recv, 2000, kInt32, kSum, comm, stream);
    EXPECT(recv, 2000, stream, i, sum_of(i));
    OK(ncclAllReduce, REDUCTION, send, recv, 2000, kInt32, kSum, comm, stream);
  }
  if (!strcmp(which, "named")) {
    // `ncclCollConfig_t`: its size, magic number and version, a name, and that no other algorithm may serve the call.
    uint64_t config[9] = {72, 0xcafebeef | (uint64_t)23203 << 32};
    config[2] = config[3] = config[4] = 0x8000000080000000ull;
    config[5] = (uint64_t)"allreduce_switch";
    config[6] = 1;
    PRINT(comm, ncclAllReduceConfig, (const void*, void*, size_t, int, int, ncclComm_t, stream_t, void*), send, recv, kCount, kInt32,
          kSum, comm, stream, config);
    EXPECT(recv, kCount, stream, i, input(rank, i));
  }
  synchronize(stream);
  OK(ncclCommFinalize, (ncclComm_t), comm);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
