// A communicator that is shrunk without a failure serves all its ranks as before, also those that are excluded, which do not call.
#include "job.h"

static stream_t stream;
static int32_t *send, *recv;
static int calls;

enum { kMaxCount = 4000 };

static const char* last_error(void) { return ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(0); }

/// A reduction of all ranks of a communicator, of a new size each time, so that they meet; `members`: bits of the job's ranks.
static void reduce(ncclComm_t of, unsigned members) {
  size_t count = 100 + 37 * calls++ % kMaxCount;
  fill(send, rank, count, stream);
  for (int again = 0; again < 2; ++again) {
    OK(ncclAllReduce, REDUCTION, send, recv, count, kInt32, kSum, of, stream);
    int32_t sum = 0, number = 0;
    for (int r = 0; r < ranks; ++r)
      if (members >> r & 1) sum += input(r, 0), ++number;
    EXPECT(recv, count, stream, i, sum + number * (int32_t)(i % 97));
  }
}

/// Passes numbers around all ranks.
static void pass(ncclComm_t of) {
  fill(send, rank, 50, stream);
  OK(ncclSend, SEND, send, 50, kInt32, (rank + 1) % ranks, of, stream);
  OK(ncclRecv, RECV, recv, 50, kInt32, (rank + ranks - 1) % ranks, of, stream);
  EXPECT(recv, 50, stream, i, input((rank + ranks - 1) % ranks, i));
}

/// Returns a communicator without some ranks, on the others.
static ncclComm_t shrink(ncclComm_t of, unsigned members) {
  int excluded[32], count = 0;
  for (int r = 0; r < ranks; ++r)
    if (!(members >> r & 1)) excluded[count++] = r;
  ncclComm_t fewer = 0;
  if (members >> rank & 1) OK(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, void*, int), of, excluded, count, &fewer, 0, 0);
  return fewer;
}

static void expect_healthy(ncclComm_t of) {
  int code;
  OK(ncclCommGetAsyncError, (ncclComm_t, int*), of, &code);
  if (code) FAIL("rank %d: %d: %s", rank, code, last_error());
}

int main(void) {
  ncclComm_t comm = join(), fewer[32];
  unsigned all = (1u << ranks) - 1;
  stream = new_stream();
  send = device_memory(4 * kMaxCount), recv = device_memory(4 * kMaxCount);
  reduce(comm, all);
  // Every set of ranks once, the ones without rank 0 too; what was excluded before takes part again.
  for (unsigned members = 1; members < all; ++members) {
    fewer[members] = shrink(comm, members);
    if (fewer[members]) reduce(fewer[members], members);
    calls += !fewer[members];
    reduce(comm, all);
    pass(comm);
    expect_healthy(comm);
  }
  ncclComm_t copy;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, rank, &copy, 0);
  reduce(copy, all);
  // They do not end with it.
  OK(ncclCommDestroy, (ncclComm_t), comm);
  for (unsigned members = 1; members < all; ++members) {
    if (fewer[members]) reduce(fewer[members], members), expect_healthy(fewer[members]);
    else ++calls;
  }
  reduce(copy, all);
  for (unsigned members = 1; members < all; ++members)
    if (fewer[members]) OK(ncclCommDestroy, (ncclComm_t), fewer[members]);
  reduce(copy, all);
  OK(ncclCommDestroy, (ncclComm_t), copy);
  printf("ok rank %d\n", rank);
  return 0;
}
