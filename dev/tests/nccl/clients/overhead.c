// Host time of NCCL's calls of a kind, without the launches, which are skipped so that no kernels run on the cores. Prints its name, the
// nanoseconds per call, those of them that other functions of the driver take, and the launches per call in hundredths; medians. The driver
// is `timed.c`. With a library that does nothing, times are those of the loop.
#include <time.h>

#include "job.h"

enum { kRanks = 2, kCount = 256, kWarmUp = 4, kRounds = 61, kCalls = 480, kGroup = 8 };

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static int (*all_reduce) REDUCTION, (*sends) SEND, (*receives) RECV, (*group_start)(void), (*group_end)(void);
static void (*driver_counts)(uint64_t*, uint64_t*), (*skip_launches)(int, int);
static ncclComm_t comm, comms[kRanks];
static stream_t stream, streams[kRanks];
static int32_t *first, *second;

static void check(int code) {
  if (code) FAIL("%d: %s", code, ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(0));
}

static void reduce(void) { check(all_reduce(first, second, kCount, kInt32, kSum, comm, stream)); }

static void group_of_reductions(void) {
  check(group_start());
  for (int i = 0; i < kGroup; ++i) reduce();
  check(group_end());
}

static void reduce_on_all_ranks(void) {
  check(group_start());
  for (int of = 0; of < kRanks; ++of) check(all_reduce(first, second, kCount, kInt32, kSum, comms[of], streams[of]));
  check(group_end());
}

static void exchange(void) {
  int other = 1 - rank;
  check(group_start());
  check(sends(first, kCount, kInt32, other, comm, stream));
  check(receives(second, kCount, kInt32, other, comm, stream));
  check(group_end());
}

static int ascending(const void* a, const void* b) {
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static uint64_t median(uint64_t* values) {
  qsort(values, kRounds, sizeof *values, ascending);
  return values[kRounds / 2];
}

/// Measures rounds of work, of which each piece has this number of calls.
static void measure(const char* name, void (*work)(void), int calls) {
  for (int i = 0; i < kWarmUp; ++i) work();
  synchronize(stream);
  uint64_t totals[kRounds], drivers[kRounds], before, after, launches, of_round = 0;
  int pieces = kCalls / calls;
  for (int round = 0; round < kRounds; ++round) {
    skip_launches(1, 0);
    driver_counts(&before, &launches);
    uint64_t begin = now();
    for (int i = 0; i < pieces; ++i) work();
    totals[round] = (now() - begin) / kCalls;
    driver_counts(&after, &of_round);
    of_round -= launches;
    // Clocks take time, so that the driver's is measured apart.
    skip_launches(1, 1);
    driver_counts(&before, &launches);
    for (int i = 0; i < pieces; ++i) work();
    driver_counts(&after, &launches);
    drivers[round] = (after - before) / kCalls;
  }
  skip_launches(0, 0);
  printf("%s %llu %llu %llu\n", name, (unsigned long long)median(totals), (unsigned long long)median(drivers),
         (unsigned long long)(of_round * 100 / kCalls));
}

int main(int argc, char** argv) {
  const char* kind = argc > 1 ? argv[1] : "";
  comm = join();
  *(void**)&all_reduce = find(nccl_library, "ncclAllReduce");
  *(void**)&sends = find(nccl_library, "ncclSend");
  *(void**)&receives = find(nccl_library, "ncclRecv");
  *(void**)&group_start = find(nccl_library, "ncclGroupStart");
  *(void**)&group_end = find(nccl_library, "ncclGroupEnd");
  *(void**)&driver_counts = find(cuda_library, "driver_counts");
  *(void**)&skip_launches = find(cuda_library, "skip_launches");
  stream = new_stream();
  first = device_memory(4 * kCount);
  second = device_memory(4 * kCount);
  fill(first, rank, kCount, stream);
  if (!strcmp(kind, "all_reduce")) measure(kind, reduce, 1);
  else if (!strcmp(kind, "all_reduce_in_group_of_8")) measure(kind, group_of_reductions, kGroup);
  else if (!strcmp(kind, "send_and_recv")) measure(kind, exchange, 2);
  else if (!strcmp(kind, "all_reduce_of_2_ranks_in_a_thread")) {
    for (int of = 0; of < kRanks; ++of) streams[of] = new_stream();
    OK(ncclCommInitAll, (ncclComm_t*, int, const int*), comms, kRanks, (int[kRanks]){0});
    measure(kind, reduce_on_all_ranks, kRanks);
    for (int of = 0; of < kRanks; ++of) OK(ncclCommDestroy, (ncclComm_t), comms[of]);
  } else FAIL("%s: no kind of call", kind);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  return 0;
}
