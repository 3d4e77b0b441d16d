// Calls of which one or both ranks pass no elements, with null pointers: equal calls do nothing and stay in step, different ones are an
// invalid usage on both ranks.
#include "job.h"

enum { kLength = 5 };
static const char* const kCalls[] = {"all-reduce", "reduce",  "reduce-scatter", "broadcast",     "all-gather",
                                     "all-to-all", "gather",  "scatter",        "transfer",      "grouped transfer",
                                     "average",    "grouped", "scaled"};
enum { kNumCalls = sizeof kCalls / sizeof *kCalls };

/// Makes a call of `n` elements, of each part where there is one for each rank, and returns its code.
static int make(ncclComm_t comm, int call, int32_t* from, int32_t* to, size_t n, stream_t stream) {
  if (!n) from = to = 0;
  switch (call) {
    case 0: return NCCL(ncclAllReduce, REDUCTION, from, to, n, kInt32, kSum, comm, stream);
    case 1: return NCCL(ncclReduce, ROOTED_REDUCTION, from, to, n, kInt32, kSum, 1, comm, stream);
    case 2: return NCCL(ncclReduceScatter, REDUCTION, from, to, n, kInt32, kSum, comm, stream);
    case 3: return NCCL(ncclBroadcast, ROOTED, from, to, n, kInt32, 1, comm, stream);
    case 4: return NCCL(ncclAllGather, COLLECTIVE, from, to, n, kInt32, comm, stream);
    case 5: return NCCL(ncclAlltoAll, COLLECTIVE, from, to, n, kInt32, comm, stream);
    case 6: return NCCL(ncclGather, ROOTED, from, to, n, kInt32, 1, comm, stream);
    case 7: return NCCL(ncclScatter, ROOTED, from, to, n, kInt32, 1, comm, stream);
    case 10: return NCCL(ncclAllReduce, REDUCTION, from, to, n, kInt32, kAvg, comm, stream);
  }
  int is_grouped = call == 9 || call == 11, op;
  if (call == 12) {
    int32_t one = 1;
    OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &op, &one, kInt32, 1, comm);
    int code = NCCL(ncclAllReduce, REDUCTION, from, to, n, kInt32, op, comm, stream);
    OK(ncclRedOpDestroy, (int, ncclComm_t), op, comm);
    return code;
  }
  if (is_grouped) OK(ncclGroupStart, (void), );
  int code = call == 11 ? NCCL(ncclAllReduce, REDUCTION, from, to, n, kInt32, kSum, comm, stream)
             : rank     ? NCCL(ncclRecv, RECV, to, n, kInt32, 0, comm, stream)
                        : NCCL(ncclSend, SEND, from, n, kInt32, 1, comm, stream);
  int ended = is_grouped ? NCCL(ncclGroupEnd, (void), ) : 0;
  return code ? code : ended;
}

static ncclComm_t copy_of(ncclComm_t comm) {
  ncclComm_t copy;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, rank, &copy, 0);
  return copy;
}

/// Returns the communicator's failure; waits for it if `is_awaited`.
static int failure(ncclComm_t comm, int is_awaited) {
  int code = 0;
  for (int i = 0; i < 20000; ++i) {
    OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    if (code || !is_awaited) break;
    usleep(1000);
  }
  return code;
}

int main(void) {
  ncclComm_t comm = join();
  stream_t stream = new_stream();
  int32_t *from = device_memory(8 * kLength), *to = device_memory(8 * kLength);
  const size_t lengths[] = {0, 1, kLength};
  for (int call = 0; call < kNumCalls; ++call) {
    for (int pair = 0; pair < 9; ++pair) {
      const size_t of_ranks[] = {lengths[pair / 3], lengths[pair % 3]};
      int is_same = of_ranks[0] == of_ranks[1];
      // It does not fail where the calls are equal.
      ncclComm_t copy = is_same ? comm : copy_of(comm);
      int code = 0;
      for (int round = 0; round < 2 && !code; ++round) {
        fill(from, rank + 10 * round, 2 * kLength, stream);
        size_t length = round ? kLength : of_ranks[rank];
        code = make(copy, call, from, to, length, stream);
      }
      if (is_same) {
        if (code) FAIL("rank %d: %s of %zu: code %d", rank, kCalls[call], of_ranks[0], code);
        synchronize(stream);
        if (call == 0) EXPECT(to, kLength, stream, i, input(10, i) + input(11, i));
        if (call == 8 && rank == 1) EXPECT(to, kLength, stream, i, input(10, i));
        code = failure(copy, 0);
        if (code) FAIL("rank %d: %s of %zu: failure %d", rank, kCalls[call], of_ranks[0], code);
      } else {
        code = failure(copy, 1);
        if (code != 5) FAIL("rank %d: %s of %zu and %zu: failure %d", rank, kCalls[call], of_ranks[0], of_ranks[1], code);
        OK(ncclCommAbort, (ncclComm_t), copy);
      }
      synchronize(stream);
    }
  }
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
