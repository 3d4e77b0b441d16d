// Calls that a profiler plugin records. `argv[1]` is the part; the lines of its output are what the test expects of the records.
#include <pthread.h>

#include "job.h"

enum { kCount = 3000, kFloat16 = 6 };

typedef struct {
  size_t size;
  unsigned magic, version;
  void* ext;
  int min, max, nvls, cga;
  const char* selection;
  int force, policy;
  uint64_t tag;
  void* event;
} call_config_t;

static void calls(ncclComm_t comm, stream_t stream) {
  size_t n = kCount;
  int32_t *send = device_memory(4 * n * ranks), *recv = device_memory(4 * n * ranks);
  fill(send, rank, n, stream);
  OK(ncclAllReduce, REDUCTION, send, recv, n, kInt32, kSum, comm, stream);
  OK(ncclAllReduce, REDUCTION, send, recv, n, kFloat16, kMax, comm, stream);
  call_config_t config = {sizeof config, 0xcafebeef, 23203, 0, INT_MIN, INT_MIN, INT_MIN, INT_MIN, 0, 1, INT_MIN, 0x7a65, 0};
  OK(ncclAllReduceConfig, (const void*, void*, size_t, int, int, ncclComm_t, stream_t, void*), send, recv, n, kInt32, kSum, comm, stream, &config);
  OK(ncclBroadcast, ROOTED, send, recv, n, kInt32, 1, comm, stream);
  OK(ncclAllGather, COLLECTIVE, send, recv, n, kInt32, comm, stream);
  OK(ncclGather, ROOTED, send, recv, n, kInt32, 0, comm, stream);
  // No elements: no event.
  OK(ncclAllReduce, REDUCTION, send, recv, 0, kInt32, kSum, comm, stream);
  synchronize(stream);
  int other = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  OK(ncclGroupStart, (void), );
  OK(ncclSend, SEND, send, n, kInt32, other, comm, stream);
  OK(ncclGroupStart, (void), );
  OK(ncclRecv, RECV, recv, n, kInt32, before, comm, stream);
  OK(ncclGroupEnd, (void), );
  OK(ncclAllReduce, REDUCTION, send, send, n, kInt32, kMax, comm, stream);
  OK(ncclGroupEnd, (void), );
  synchronize(stream);
  // A group with an invalid call is not made.
  OK(ncclGroupStart, (void), );
  OK(ncclAllReduce, REDUCTION, send, recv, n, kInt32, kSum, comm, stream);
  if (NCCL(ncclAllReduce, REDUCTION, send, recv, n, 99, kSum, comm, stream) != 4) FAIL("an invalid type");
  if (NCCL(ncclGroupEnd, (void), ) != 4) FAIL("a group with an invalid type");
  // Neither is one whose time is asked for.
  OK(ncclGroupStart, (void), );
  OK(ncclAllReduce, REDUCTION, send, recv, n, kInt32, kSum, comm, stream);
  OK(ncclGroupSimulateEnd, (void*), 0);
  printf("send %p recv %p stream %p\n", (void*)send, (void*)recv, stream);
}

static void captured(ncclComm_t comm, stream_t stream) {
  int32_t* buffer = device_memory(4 * kCount);
  fill(buffer, rank, kCount, stream);
  OK(ncclAllReduce, REDUCTION, buffer, buffer, kCount, kInt32, kMax, comm, stream);
  synchronize(stream);
  CU(cuStreamBeginCapture_v2, (stream_t, int), stream, 1);
  OK(ncclAllReduce, REDUCTION, buffer, buffer, kCount, kInt32, kMax, comm, stream);
  void *graph, *instance;
  CU(cuStreamEndCapture, (stream_t, void**), stream, &graph);
  CU(cuGraphInstantiateWithFlags, (void**, void*, unsigned long long), &instance, graph, 0);
  CU(cuGraphLaunch, (void*, stream_t), instance, stream);
  synchronize(stream);
}

// All ranks in one process: `kRanks` threads with two communicators each, and then one thread with all ranks.
enum { kRanks = 4, kRounds = 20 };
static ncclComm_t comms[2][kRanks];

static void* thread(void* argument) {
  int r = (int)(intptr_t)argument;
  use_device(r);
  stream_t stream = new_stream();
  int32_t* buffer = device_memory(4 * kCount);
  fill(buffer, r, kCount, stream);
  for (int round = 0; round < kRounds; ++round) {
    if (round % 2) OK(ncclGroupStart, (void), );
    for (int of = 0; of < 2; ++of) OK(ncclAllReduce, REDUCTION, buffer, buffer, kCount, kInt32, kMax, comms[of][r], stream);
    if (round % 2) OK(ncclGroupEnd, (void), );
    synchronize(stream);
  }
  return 0;
}

static int threads(void) {
  load();
  for (int of = 0; of < 2; ++of) OK(ncclCommInitAll, (ncclComm_t*, int, const int*), comms[of], kRanks, 0);
  pthread_t all[kRanks];
  for (int r = 0; r < kRanks; ++r) pthread_create(&all[r], 0, thread, (void*)(intptr_t)r);
  for (int r = 0; r < kRanks; ++r) pthread_join(all[r], 0);
  stream_t streams[kRanks];
  int32_t* buffers[kRanks];
  for (int r = 0; r < kRanks; ++r) use_device(r), streams[r] = new_stream(), buffers[r] = device_memory(4 * kCount);
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < kRanks; ++r) OK(ncclAllReduce, REDUCTION, buffers[r], buffers[r], kCount, kInt32, kMax, comms[0][r], streams[r]);
  OK(ncclGroupEnd, (void), );
  for (int r = 0; r < kRanks; ++r) use_device(r), synchronize(streams[r]);
  for (int r = 0; r < kRanks; ++r) {
    OK(ncclCommDestroy, (ncclComm_t), comms[0][r]);
    OK(ncclCommAbort, (ncclComm_t), comms[1][r]);
  }
  return 0;
}

int main(int argc, char** argv) {
  const char* part = argc > 1 ? argv[1] : "";
  if (!strcmp(part, "threads")) return threads();
  rank = atoi(getenv("RANK"));
  ranks = atoi(getenv("WORLD_SIZE"));
  load();
  use_device(own_device());
  ncclComm_t comm, split;
  config_t config = configuration(kConfigSize);
  config.name = "training";
  OK(ncclCommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, void*), &comm, ranks, job_id(), rank, &config);
  stream_t stream = new_stream();
  if (!strcmp(part, "captured")) {
    captured(comm, stream);
  } else {
    calls(comm, stream);
    OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, -rank, &split, 0);
    OK(ncclCommDestroy, (ncclComm_t), split);
  }
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d pid %d\n", rank, getpid());
  return 0;
}
