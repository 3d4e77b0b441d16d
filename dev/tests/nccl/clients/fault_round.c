// A round of calls in which one rank has a fault. Arguments: fault, rank with the fault, operation, calls before it, elements, microseconds
// after which a fault strikes a call that was made. Each rank prints the code and the text of its failure, and ends.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "job.h"

static const char *fault, *operation;
static int victim, before, other_call;
static size_t count;
static unsigned pause_us;
static ncclComm_t comm;
static stream_t stream;
static int32_t *send, *recv;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static int is_fault(const char* name) { return !strcmp(fault, name); }
static int is_operation(const char* name) { return !strcmp(operation, name); }

static const char* last_error(ncclComm_t of) { return ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(of); }

static int async_error(void) {
  int code = 0;
  OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
  return code;
}

/// Waits for the communicator's failure.
static int failure(void) {
  for (double begin = now(); now() - begin < 60; usleep(1000)) {
    int code = async_error();
    if (code) return code;
  }
  FAIL("rank %d: no failure after 60 s", rank);
}

static void report(int code, ncclComm_t of) { printf("rank %d: code %d: %s\n", rank, code, last_error(of)); }

/// Makes the call of the round, or one that differs from it.
static int make(ncclComm_t of, int differs) {
  size_t n = differs && other_call == 0 ? count + 1 : count;
  int type = differs && other_call == 1 ? kFloat32 : kInt32, root = differs && other_call == 2 ? 1 : 0;
  if (differs && other_call == 3) return NCCL(ncclAllGather, COLLECTIVE, send, recv, n, kInt32, of, stream);
  if (is_operation("all_reduce")) return NCCL(ncclAllReduce, REDUCTION, send, recv, n, type, kSum, of, stream);
  if (is_operation("reduce_scatter")) return NCCL(ncclReduceScatter, REDUCTION, send, recv, n, type, kSum, of, stream);
  if (is_operation("broadcast")) return NCCL(ncclBroadcast, ROOTED, send, recv, n, type, root, of, stream);
  if (is_operation("reduce")) return NCCL(ncclReduce, ROOTED_REDUCTION, send, recv, n, type, kSum, root, of, stream);
  if (is_operation("all_to_all")) return NCCL(ncclAlltoAll, COLLECTIVE, send, recv, n, type, of, stream);
  if (is_operation("group")) {
    OK(ncclGroupStart, (void), );
    int code = NCCL(ncclAllReduce, REDUCTION, send, recv, n, type, kMax, of, stream);
    if (!code) code = NCCL(ncclBroadcast, ROOTED, send, recv, n, type, root, of, stream);
    int end = NCCL(ncclGroupEnd, (void), );
    return code ? code : end;
  }
  if (is_operation("ring")) {
    OK(ncclGroupStart, (void), );
    int code = NCCL(ncclSend, SEND, send, n, type, (rank + 1) % ranks, of, stream);
    if (!code) code = NCCL(ncclRecv, RECV, recv, n, type, (rank + ranks - 1) % ranks, of, stream);
    int end = NCCL(ncclGroupEnd, (void), );
    return code ? code : end;
  }
  FAIL("no operation %s", operation);
}

static void* strike_later(void* signal) {
  usleep(pause_us);
  kill(getpid(), (int)(intptr_t)signal);
  return 0;
}

/// Lets another process continue this one.
static void continue_after(int seconds) {
  char command[99];
  snprintf(command, sizeof command, "(sleep %d; kill -CONT %d) >/dev/null 2>&1 &", seconds, getpid());
  if (system(command)) FAIL("cannot start a process");
}

/// Does what the rank with the fault does at its call. Returns whether it makes the call all the same.
static int strike(void) {
  pthread_t thread;
  if (is_fault("kill")) raise(SIGKILL);
  if (is_fault("kill_in_flight")) pthread_create(&thread, 0, strike_later, (void*)SIGKILL);
  if (is_fault("exit")) _exit(0);
  // The test continues this process when the others have ended.
  if (is_fault("stop")) raise(SIGSTOP);
  if (is_fault("stop_in_flight")) pthread_create(&thread, 0, strike_later, (void*)SIGSTOP);
  if (is_fault("short_stop")) continue_after(1), raise(SIGSTOP);
  if (is_operation("ring") && (is_fault("late") || is_fault("timeout"))) {
    // The transfers of the others may not be known to this rank: then it learns of their end by its own call.
    for (double begin = now(); now() - begin < 15 && !async_error();) usleep(1000);
    return 1;
  }
  if (is_fault("late")) failure();
  if (is_fault("timeout") || is_fault("shrink")) {
    report(failure(), comm);
    OK(ncclCommAbort, (ncclComm_t), comm);
    return 0;
  }
  if (is_fault("abort")) {
    OK(ncclCommAbort, (ncclComm_t), comm);
    // The call that it aborts is the one that it made before.
    synchronize(stream);
    printf("rank %d: aborted\n", rank);
    return 0;
  }
  return 1;
}

/// Excludes the rank that makes no call, and checks the results of the others.
static void shrink(void) {
  ncclComm_t fewer;
  OK(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, void*, int), comm, &victim, 1, &fewer, 0, 0);
  OK(ncclCommAbort, (ncclComm_t), comm);
  fill(send, rank, count, stream);
  OK(ncclAllReduce, REDUCTION, send, recv, count, kInt32, kSum, fewer, stream);
  int32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += r == victim ? 0 : input(r, 0);
  EXPECT(recv, count, stream, i, sum + (ranks - 1) * (int32_t)(i % 97));
  OK(ncclCommDestroy, (ncclComm_t), fewer);
  printf("rank %d: shrunk\n", rank);
}

int main(int argc, char** argv) {
  if (argc != 8) FAIL("expected 7 arguments");
  // What a rank printed is kept when it is killed.
  setvbuf(stdout, 0, _IOLBF, 0);
  fault = argv[1], victim = atoi(argv[2]), operation = argv[3], before = atoi(argv[4]), count = atoi(argv[5]);
  pause_us = atoi(argv[6]), other_call = atoi(argv[7]);
  comm = join();
  stream = new_stream();
  send = device_memory(4 * (count + 1) * ranks);
  recv = device_memory(4 * (count + 1) * ranks);
  fill(send, rank, count * ranks, stream);
  int is_victim = rank == victim, is_silent = is_fault("abort") && rank == (victim + 1) % ranks;
  int code = 0, rounds = is_fault("short_stop") ? before + 5 : INT_MAX;
  for (int number = 0; number < rounds && !code; ++number) {
    int strikes = is_victim && number == before;
    if (is_silent && number == before) {
      code = failure();
      break;
    }
    if (strikes && is_fault("abort")) {
      // Another rank does not make the call, so that it is pending.
      if (make(comm, 0)) FAIL("rank %d: %s", rank, last_error(comm));
      usleep(pause_us);
    }
    if (strikes && !strike()) return 0;
    if (number == before && is_fault("shrink") && rank == (victim + 1) % ranks) {
      usleep(pause_us);
      OK(ncclCommRevoke, (ncclComm_t, int), comm, 0);
    }
    code = make(comm, strikes && is_fault("mismatch"));
    if (!code) {
      synchronize(stream);
      code = async_error();
    }
    if (!code && is_operation("all_reduce") && !is_fault("mismatch")) {
      int32_t sum = 0;
      for (int r = 0; r < ranks; ++r) sum += input(r, 0);
      EXPECT(recv, count, stream, i, sum + ranks * (int32_t)(i % 97));
    }
  }
  if (is_fault("short_stop")) {
    if (code) FAIL("rank %d: code %d: %s", rank, code, last_error(comm));
    OK(ncclCommDestroy, (ncclComm_t), comm);
    printf("rank %d: right\n", rank);
    return 0;
  }
  report(code, comm);
  // The failure stays, and the stream's work has ended.
  synchronize(stream);
  int again = make(comm, 0);
  if (again != async_error() || !again) FAIL("rank %d: a call after failure %d returned %d", rank, code, again);
  if (is_fault("shrink")) {
    shrink();
    return 0;
  }
  OK(ncclCommAbort, (ncclComm_t), comm);
  return 0;
}
