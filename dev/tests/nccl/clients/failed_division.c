// A group in which a communicator cannot be divided makes the calls of its other communicators, for which other ranks wait.
#include "job.h"

int main(void) {
  ncclComm_t comm = join(), other, part = 0;
  stream_t stream = new_stream();
  int32_t* memory = device_memory(4000);
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, const config_t*), comm, 0, rank, &other, 0);
  fill(memory, rank, 1000, stream);
  if (rank == 0) {
    OK(ncclCommRevoke, (ncclComm_t, int), other, 0);
    OK(ncclGroupStart, (void), );
    // The failure may be that of this call or of the group.
    int code = NCCL(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, const config_t*), other, 0, 0, &part, 0);
    OK(ncclAllReduce, REDUCTION, memory, memory, 1000, kInt32, kSum, comm, stream);
    int end = NCCL(ncclGroupEnd, (void), );
    if (!code && !end) FAIL("a revoked communicator was divided");
  } else {
    OK(ncclAllReduce, REDUCTION, memory, memory, 1000, kInt32, kSum, comm, stream);
  }
  EXPECT(memory, 1000, stream, i, input(0, i) + input(1, i));
  OK(ncclCommAbort, (ncclComm_t), other);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
