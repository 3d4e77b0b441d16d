// Suspends a communicator and resumes it: statistics say what became of its memory, and an algorithm that calls name serves those
// after the suspension too.
#include "job.h"

static ncclComm_t comm;
static stream_t stream;

static uint64_t statistic(int number) {
  uint64_t value;
  OK(ncclCommMemStats, (ncclComm_t, int, uint64_t*), comm, number, &value);
  return value;
}

/// Makes an all-reduce with an algorithm that is not the default one.
static void all_reduce(int32_t* memory, size_t count) {
  // `ncclCollConfig_t`: its size, magic number and version, a name, and that no other algorithm may serve the call.
  uint64_t config[9] = {72, 0xcafebeef | (uint64_t)23203 << 32};
  config[2] = config[3] = config[4] = 0x8000000080000000ull;
  config[5] = (uint64_t) "allreduce_ring";
  config[6] = 1;
  fill(memory, rank, count, stream);
  OK(ncclAllReduceConfig, (const void*, void*, size_t, int, int, ncclComm_t, stream_t, void*), memory, memory, count, kInt32, kMax, comm,
     stream, config);
  EXPECT(memory, count, stream, i, input(ranks - 1, i));
}

int main(void) {
  comm = join();
  stream = new_stream();
  int32_t* memory = device_memory(4 * 9000);
  all_reduce(memory, 1000);
  uint64_t released = statistic(0), kept = statistic(2);
  if (statistic(1) || released + kept == 0 || statistic(3) != released + kept) FAIL("active: %lu and %lu bytes", released, kept);
  OK(ncclCommSuspend, (ncclComm_t, int), comm, 1);
  if (statistic(1) != 1 || statistic(3) != kept) FAIL("suspended: %lu of %lu and %lu bytes", statistic(3), released, kept);
  OK(ncclCommResume, (ncclComm_t), comm);
  if (statistic(1)) FAIL("resumed, and suspended");
  all_reduce(memory, 9000);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
