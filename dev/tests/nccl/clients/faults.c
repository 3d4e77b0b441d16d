// A rank fails, and the others learn it: each prints the code and the text of its failure. `argv[1]` is the fault.
#include <signal.h>
#include <time.h>

#include "job.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static const char* last_error(ncclComm_t comm) {
  return ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(comm);
}

/// Waits for the communicator's failure and prints it.
static int report(ncclComm_t comm) {
  int code = 0;
  for (double begin = now(); !code; usleep(1000)) {
    OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    if (now() - begin > 60) FAIL("rank %d: no failure after 60 s", rank);
  }
  printf("rank %d: code %d: %s\n", rank, code, last_error(comm));
  return code;
}

int main(int argc, char** argv) {
  const char* fault = argc > 1 ? argv[1] : "";
  ncclComm_t comm = join();
  stream_t stream = new_stream();
  size_t n = 3000;
  int32_t* buffer = device_memory(4 * n);
  fill(buffer, rank, n, stream);
  OK(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
  synchronize(stream);

  if (!strcmp(fault, "kill") && rank == 1) raise(SIGKILL);
  if (!strcmp(fault, "stop") && rank == 1) raise(SIGSTOP);
  if (!strcmp(fault, "late") && rank == 1) sleep(20);
  if (!strcmp(fault, "exit") && rank == 1) return 0;
  if (!strcmp(fault, "shrink")) {
    // Rank 1 makes no further call; the others end theirs and continue.
    if (rank == 1) {
      report(comm);
      OK(ncclCommAbort, (ncclComm_t), comm);
      return 0;
    }
    int code = NCCL(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
    if (code && (rank == 0 || code != 5)) FAIL("call before the revocation: %d", code);
    if (rank == 0) OK(ncclCommRevoke, (ncclComm_t, int), comm, 0);
    report(comm);
    int excluded = 1;
    ncclComm_t fewer;
    OK(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, void*, int), comm, &excluded, 1, &fewer, 0, 0);
    OK(ncclCommDestroy, (ncclComm_t), comm);
    fill(buffer, rank, n, stream);
    OK(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, fewer, stream);
    int32_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += r == 1 ? 0 : input(r, 0);
    EXPECT(buffer, n, stream, i, sum + (ranks - 1) * (int32_t)(i % 97));
    OK(ncclCommDestroy, (ncclComm_t), fewer);
    return 0;
  }
  if (!strcmp(fault, "abort")) {
    if (rank == 0) {
      // Its launch is pending, because rank 1 makes none.
      OK(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
      usleep(100000);
      OK(ncclCommAbort, (ncclComm_t), comm);
      synchronize(stream);
      printf("rank 0: aborted\n");
      return 0;
    }
    if (rank > 1) OK(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
    report(comm);
    synchronize(stream);
    OK(ncclCommAbort, (ncclComm_t), comm);
    return 0;
  }
  size_t count = !strcmp(fault, "mismatch") && rank == 1 ? n - 1 : n;
  // The call reports the failure, or the communicator does later; the stream's work ends in any case.
  int code = NCCL(ncclAllReduce, REDUCTION, buffer, buffer, count, kInt32, kSum, comm, stream);
  if (code && code != report(comm)) FAIL("the call returned %d", code);
  if (!code) {
    synchronize(stream);
    report(comm);
  }
  code = NCCL(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
  if (!code) FAIL("rank %d: a call after the failure returned success", rank);
  OK(ncclCommAbort, (ncclComm_t), comm);
  return 0;
}
