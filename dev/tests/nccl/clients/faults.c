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

/// Waits for the communicator's failure.
static int failure(ncclComm_t comm) {
  int code = 0;
  for (double begin = now(); !code; usleep(1000)) {
    OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    if (now() - begin > 60) FAIL("rank %d: no failure after 60 s", rank);
  }
  return code;
}

/// Waits for the communicator's failure and prints it.
static int report(ncclComm_t comm) {
  int code = failure(comm);
  printf("rank %d: code %d: %s\n", rank, code, last_error(comm));
  return code;
}

static ncclComm_t part_of(ncclComm_t comm, int is_member) {
  ncclComm_t part;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, is_member ? 0 : -1, rank, &part, 0);
  return part;
}

/// Exchanges data with another rank of a communicator of two ranks, as part of a group.
static void exchange(ncclComm_t comm, int other, const int32_t* from, int32_t* to, size_t n, stream_t stream) {
  OK(ncclSend, SEND, from, n, kInt32, other, comm, stream);
  OK(ncclRecv, RECV, to, n, kInt32, other, comm, stream);
}

/// Groups of calls of two communicators, one of which has lost a rank: the calls of the other one are made, and it has no failure.
static int groups(ncclComm_t comm, stream_t stream) {
  enum { kCount = 3000 };
  int32_t* memory = device_memory(4 * 8 * kCount);
  ncclComm_t kept = part_of(comm, rank < 2), lost = part_of(comm, rank != 1);
  for (int round = 0; round < 2; ++round) {
    if (round == 1 && rank == 2) raise(SIGKILL);
    fill(memory, rank, kCount, stream);
    OK(ncclGroupStart, (void), );
    if (rank != 1) {
      exchange(lost, rank == 0, memory, memory + kCount, kCount, stream);
      OK(ncclAllReduce, REDUCTION, memory, memory + 2 * kCount, kCount, kInt32, kSum, lost, stream);
    }
    if (rank < 2) {
      exchange(kept, 1 - rank, memory, memory + 3 * kCount, kCount, stream);
      OK(ncclAllReduce, REDUCTION, memory, memory + 4 * kCount, kCount, kInt32, kMax, kept, stream);
    }
    int code = NCCL(ncclGroupEnd, (void), );
    synchronize(stream);
    if (rank < 2) {
      EXPECT(memory + 3 * kCount, kCount, stream, i, input(1 - rank, i));
      EXPECT(memory + 4 * kCount, kCount, stream, i, input(1, i));
      int of_kept = 0;
      OK(ncclCommGetAsyncError, (ncclComm_t, int*), kept, &of_kept);
      if (of_kept) FAIL("rank %d: the communicator that has lost no rank: %d: %s", rank, of_kept, last_error(kept));
    }
    if (round == 0 ? code : (code != 0 && (rank != 0 || code != 6))) FAIL("rank %d: group %d returned %d", rank, round, code);
  }
  if (rank == 0) report(lost);
  OK(ncclCommDestroy, (ncclComm_t), kept);
  if (rank == 0) OK(ncclCommAbort, (ncclComm_t), lost);
  OK(ncclCommAbort, (ncclComm_t), comm);
  return 0;
}

/// Rank 0 aborts a communicator before the others join it: their creation fails.
static int abandon(ncclComm_t comm, int32_t* buffer, size_t n, stream_t stream) {
  ncclUniqueId id;
  char path[4096];
  snprintf(path, sizeof path, "%s.second", getenv("ID_FILE"));
  ncclComm_t second;
  if (rank == 0) {
    config_t config = configuration(kConfigSize);
    config.blocking = 0;
    OK(ncclGetUniqueId, (ncclUniqueId*), &id);
    int code = NCCL(ncclCommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, config_t*), &second, ranks, id, rank, &config);
    if (code != 7) FAIL("creation: code %d", code);
    code = NCCL(ncclCommFinalize, (ncclComm_t), second);
    if (code != 4) FAIL("end of a communicator that is being created: code %d", code);
    OK(ncclCommAbort, (ncclComm_t), second);
    write_id(path, &id);
  } else {
    id = read_id(path);
    int code = NCCL(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int), &second, ranks, id, rank);
    if (second) FAIL("a communicator");
    printf("rank %d: code %d: %s\n", rank, code, last_error(0));
  }
  // No rank ends before the others know.
  OK(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
  synchronize(stream);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  return 0;
}

int main(int argc, char** argv) {
  const char* fault = argc > 1 ? argv[1] : "";
  ncclComm_t comm = join();
  stream_t stream = new_stream();
  size_t n = 3000;
  int32_t* buffer = device_memory(4 * n);
  fill(buffer, rank, n, stream);
  if (!strcmp(fault, "abandon")) return abandon(comm, buffer, n, stream);
  if (!strcmp(fault, "first") && rank == 1) failure(comm);
  int code = NCCL(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
  if (!strcmp(fault, "first")) {
    synchronize(stream);
    if (code != report(comm)) FAIL("the first call returned %d", code);
    OK(ncclCommAbort, (ncclComm_t), comm);
    return 0;
  }
  if (code) FAIL("rank %d: the first call returned %d: %s", rank, code, last_error(comm));
  synchronize(stream);

  if (!strcmp(fault, "groups")) return groups(comm, stream);
  if (!strcmp(fault, "kill") && rank == 1) raise(SIGKILL);
  if (!strcmp(fault, "stop") && rank == 1) raise(SIGSTOP);
  if (!strcmp(fault, "late") && rank == 1) failure(comm);
  if (!strcmp(fault, "exit") && rank == 1) return 0;
  if (!strncmp(fault, "destroy", 7)) {
    if (rank == 1) {
      // Most often the others wait in their calls.
      usleep(500000);
      OK(ncclCommDestroy, (ncclComm_t), comm);
      return 0;
    }
    // A second call waits for the other ranks on the device, the first one of its kind on the host.
    if (!strcmp(fault, "destroy")) {
      code = NCCL(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
    } else {
      code = NCCL(ncclAllGather, COLLECTIVE, buffer, buffer, n / ranks, kInt32, comm, stream);
    }
    if (!code) synchronize(stream);
    int reported = report(comm);
    if (code && code != reported) FAIL("rank %d: the call returned %d, the communicator %d", rank, code, reported);
    OK(ncclCommDestroy, (ncclComm_t), comm);
    return 0;
  }
  if (!strcmp(fault, "part")) {
    ncclComm_t part = part_of(comm, rank > 0);
    if (rank == 0) return 0;
    report(part);
    OK(ncclCommAbort, (ncclComm_t), part);
    OK(ncclCommAbort, (ncclComm_t), comm);
    return 0;
  }
  if (!strcmp(fault, "shrink")) {
    // Rank 1 makes no further call; the others end theirs and continue.
    if (rank == 1) {
      report(comm);
      OK(ncclCommAbort, (ncclComm_t), comm);
      return 0;
    }
    code = NCCL(ncclAllReduce, REDUCTION, buffer, buffer, n, kInt32, kSum, comm, stream);
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
  int root = rank == 1;
  // The call reports the failure, or the communicator does later; the stream's work ends in any case.
  if (!strcmp(fault, "gather")) {
    code = NCCL(ncclGather, ROOTED, buffer, buffer + 100, 100, kInt32, root, comm, stream);
  } else if (!strcmp(fault, "shorter")) {
    code = NCCL(ncclGather, ROOTED, buffer, buffer + 100, 100 - root, kInt32, 0, comm, stream);
  } else if (!strcmp(fault, "scatter")) {
    code = NCCL(ncclScatter, ROOTED, buffer + 100, buffer, 100, kInt32, root, comm, stream);
  } else {
    code = NCCL(ncclAllReduce, REDUCTION, buffer, buffer, count, kInt32, kSum, comm, stream);
  }
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
