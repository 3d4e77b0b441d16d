// Host time of NCCL's calls. Prints a line for each kind: its name, the nanoseconds per call, those of them that the driver's launches take, and
// the launches per call, all of the median round. The driver is `timed.c`. With a library that does nothing, times are those of the loop.
#include <time.h>

#include "job.h"

enum { kCount = 256, kWarmUp = 4, kRounds = 60, kCalls = 16, kGroup = 8 };

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static int (*all_reduce) REDUCTION, (*sends) SEND, (*receives) RECV, (*group_start)(void), (*group_end)(void);
static void (*launches)(uint64_t*, uint64_t*);
static ncclComm_t comm;
static stream_t stream;
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

static void exchange(void) {
  int other = 1 - rank;
  check(group_start());
  check(sends(first, kCount, kInt32, other, comm, stream));
  check(receives(second, kCount, kInt32, other, comm, stream));
  check(group_end());
}

typedef struct { uint64_t total, driver, launches; } round_t;

static int by_rest(const void* a, const void* b) {
  const round_t *x = a, *y = b;
  uint64_t of_x = x->total - x->driver, of_y = y->total - y->driver;
  return (of_x > of_y) - (of_x < of_y);
}

/// Measures rounds of enqueued work; the device completes it between rounds. `calls` are counted in each piece of work.
static void measure(const char* name, void (*work)(void), int calls) {
  round_t rounds[kRounds];
  for (int round = -kWarmUp; round < kRounds; ++round) {
    int repetitions = kCalls / calls ? kCalls / calls : 1;
    uint64_t driver, count, driver_after, count_after;
    launches(&driver, &count);
    uint64_t begin = now();
    for (int i = 0; i < repetitions; ++i) work();
    uint64_t end = now();
    launches(&driver_after, &count_after);
    synchronize(stream);
    int made = repetitions * calls;
    if (round >= 0) rounds[round] = (round_t){(end - begin) / made, (driver_after - driver) / made, (count_after - count) * 100 / made};
  }
  qsort(rounds, kRounds, sizeof *rounds, by_rest);
  round_t median = rounds[kRounds / 2];
  printf("%s %llu %llu %llu\n", name, (unsigned long long)median.total, (unsigned long long)median.driver, (unsigned long long)median.launches);
}

int main(void) {
  comm = join();
  *(void**)&all_reduce = find(nccl_library, "ncclAllReduce");
  *(void**)&sends = find(nccl_library, "ncclSend");
  *(void**)&receives = find(nccl_library, "ncclRecv");
  *(void**)&group_start = find(nccl_library, "ncclGroupStart");
  *(void**)&group_end = find(nccl_library, "ncclGroupEnd");
  *(void**)&launches = find(cuda_library, "launches");
  stream = new_stream();
  first = device_memory(4 * kCount);
  second = device_memory(4 * kCount);
  fill(first, rank, kCount, stream);
  measure("all_reduce", reduce, 1);
  measure("all_reduce_in_group_of_8", group_of_reductions, kGroup);
  measure("send_and_recv", exchange, 2);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  return 0;
}
