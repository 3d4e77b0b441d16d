// A copy of a rank's process, made by fork, gets codes, and the rank itself goes on.
#include <sys/wait.h>

#include "job.h"

static int sum_of(size_t i) {
  int sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, i);
  return sum;
}

static void all_reduce(ncclComm_t comm, int32_t* memory, stream_t stream) {
  fill(memory, rank, 1000, stream);
  OK(ncclAllReduce, REDUCTION, memory, memory, 1000, kInt32, kSum, comm, stream);
  EXPECT(memory, 1000, stream, i, sum_of(i));
}

int main(void) {
  ncclComm_t comm = join();
  stream_t stream = new_stream();
  int32_t* memory = device_memory(4000);
  all_reduce(comm, memory, stream);
  for (int call = 0; call < 4; ++call) {
    pid_t copy = fork();
    if (!copy) {
      int async, code = call == 0   ? NCCL(ncclAllReduce, REDUCTION, memory, memory, 1000, kInt32, kSum, comm, stream)
                        : call == 1 ? NCCL(ncclCommDestroy, (ncclComm_t), comm)
                        : call == 2 ? NCCL(ncclCommAbort, (ncclComm_t), comm)
                                    : NCCL(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &async);
      _exit(code);
    }
    int status;
    if (waitpid(copy, &status, 0) != copy || !WIFEXITED(status) || WEXITSTATUS(status) != 5) FAIL("call %d: status %x", call, status);
    all_reduce(comm, memory, stream);
  }
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
