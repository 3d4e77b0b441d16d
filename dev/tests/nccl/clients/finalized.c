// The end of a communicator whose caller does not wait: in progress until its calls are complete.
#include "job.h"

enum { kInProgress = 7 };

static int state(ncclComm_t comm) {
  int code;
  OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
  return code;
}

static void settle(ncclComm_t comm) {
  int code;
  while ((code = state(comm)) == kInProgress) usleep(100);
  if (code) FAIL("code %d", code);
}

int main(void) {
  ncclComm_t whole = join(), comm;
  config_t config = configuration(kConfigSize);
  config.blocking = 0;
  stream_t stream = new_stream();
  int32_t* memory = device_memory(4000);
  int code = NCCL(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, config_t*), whole, 0, rank, &comm, &config);
  if (code && code != kInProgress) FAIL("split: code %d", code);
  settle(comm);
  for (int round = 0; round < 2; ++round) {
    // Rank 1 makes the last call when rank 0 has begun to finalize, which waits for that call.
    char path[4096];
    ncclUniqueId none = {0};
    snprintf(path, sizeof path, "%s.begun", getenv("ID_FILE"));
    if (round && rank) read_id(path);
    fill(memory, rank, 1000, stream);
    OK(ncclAllReduce, REDUCTION, memory, memory, 1000, kInt32, kSum, comm, stream);
    if (!round) synchronize(stream);
    if (!round) continue;
    code = NCCL(ncclCommFinalize, (ncclComm_t), comm);
    if (code != kInProgress) FAIL("finalize: code %d", code);
    if (!rank && state(comm) != kInProgress) FAIL("complete without rank 1");
    if (!rank) write_id(path, &none);
    code = NCCL(ncclAllReduce, REDUCTION, memory, memory, 1000, kInt32, kSum, comm, stream);
    if (code != 5) FAIL("call of a finalized communicator: code %d", code);
    settle(comm);
  }
  EXPECT(memory, 1000, stream, i, input(0, i) + input(1, i));
  OK(ncclCommDestroy, (ncclComm_t), comm);
  OK(ncclCommDestroy, (ncclComm_t), whole);
  printf("ok rank %d\n", rank);
  return 0;
}
