// Graphs and calls of one communicator on streams that do not wait for each other: they follow one another in the order of the program.
#include "job.h"

enum { kCount = 3000, kRounds = 5, kCalls = 3 };

static ncclComm_t comm;
static stream_t streams[3];

/// What a graph or a call has: a sum, a sum of multiples, or a transfer around the ring.
typedef enum { kPlainSum, kMultipleSum, kTransfer, kKinds } mixed_t;

static int next(void) { return (rank + 1) % ranks; }
static int previous(void) { return (rank + ranks - 1) % ranks; }

static int twice(void) {
  static int operator, is_made;
  int32_t factor = 2;
  if (!is_made++) OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &operator, &factor, kInt32, 1, comm);
  return operator;
}

static void call(mixed_t kind, const int32_t* from, int32_t* to, stream_t stream) {
  if (kind == kTransfer) {
    OK(ncclGroupStart, (void), );
    OK(ncclSend, SEND, from, kCount, kInt32, next(), comm, stream);
    OK(ncclRecv, RECV, to, kCount, kInt32, previous(), comm, stream);
    OK(ncclGroupEnd, (void), );
  } else {
    OK(ncclAllReduce, REDUCTION, from, to, kCount, kInt32, kind == kMultipleSum ? twice() : kSum, comm, stream);
  }
}

static void* captured(mixed_t kind, const int32_t* from, int32_t* to, stream_t stream) {
  void *graph, *executable;
  twice();
  CU(cuStreamBeginCapture_v2, (stream_t, int), stream, 0);
  for (int k = 0; k < kCalls; ++k) call(kind, from, to, stream);
  CU(cuStreamEndCapture, (stream_t, void**), stream, &graph);
  CU(cuGraphInstantiateWithFlags, (void**, void*, unsigned long long), &executable, graph, 0);
  return executable;
}

/// Returns an element of the result, of ranks whose input is that of `first` and the following ranks.
static int32_t result(mixed_t kind, int first, size_t i) {
  if (kind == kTransfer) return input(first + previous(), i);
  int32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(first + r, i);
  return kind == kMultipleSum ? 2 * sum : sum;
}

/// A graph, and beside it another one or a call, both captured on streams of their own or on one.
static void mix(mixed_t kind, int is_call, int is_one_stream) {
  int32_t *from[2], *to[2];
  for (int k = 0; k < 2; ++k) {
    from[k] = device_memory(4 * kCount), to[k] = device_memory(4 * kCount);
    fill(from[k], 10 * k + rank, kCount, streams[0]);
  }
  // Before the first capture, on a stream that is not captured.
  call(kind, from[1], to[1], streams[2]);
  void* first = captured(kind, from[0], to[0], streams[0]);
  void* second = is_call ? 0 : captured(kind, from[1], to[1], streams[!is_one_stream]);
  for (int round = 0; round < kRounds; ++round) {
    for (int k = 0; k < 2; ++k) fill(to[k], 50, kCount, streams[k]);
    for (int k = 0; k < 2; ++k) synchronize(streams[k]);
    for (int k = 0; k < kCalls; ++k) {
      CU(cuGraphLaunch, (void*, stream_t), first, streams[1]);
      if (is_call) call(kind, from[1], to[1], streams[is_one_stream ? 0 : 2]);
      else CU(cuGraphLaunch, (void*, stream_t), second, streams[2]);
    }
    for (int k = 0; k < 3; ++k) synchronize(streams[k]);
    EXPECT(to[0], kCount, streams[0], i, result(kind, 0, i));
    EXPECT(to[1], kCount, streams[0], i, result(kind, 10, i));
  }
}

/// Calls on two streams of one capture, of which the second does not wait for the first call.
static void fork_in_capture(mixed_t kind) {
  int32_t *from[2], *to[2];
  for (int k = 0; k < 2; ++k) {
    from[k] = device_memory(4 * kCount), to[k] = device_memory(4 * kCount);
    fill(from[k], 10 * k + rank, kCount, streams[0]);
  }
  void *graph, *executable, *forked, *joined;
  CU(cuEventCreate, (void**, unsigned), &forked, 2);
  CU(cuEventCreate, (void**, unsigned), &joined, 2);
  CU(cuStreamBeginCapture_v2, (stream_t, int), streams[0], 0);
  CU(cuEventRecord, (void*, stream_t), forked, streams[0]);
  CU(cuStreamWaitEvent, (stream_t, void*, unsigned), streams[1], forked, 0);
  for (int k = 0; k < kCalls; ++k)
    for (int at = 0; at < 2; ++at) call(kind, from[at], to[at], streams[at]);
  CU(cuEventRecord, (void*, stream_t), joined, streams[1]);
  CU(cuStreamWaitEvent, (stream_t, void*, unsigned), streams[0], joined, 0);
  CU(cuStreamEndCapture, (stream_t, void**), streams[0], &graph);
  CU(cuGraphInstantiateWithFlags, (void**, void*, unsigned long long), &executable, graph, 0);
  for (int round = 0; round < kRounds; ++round) {
    for (int k = 0; k < 2; ++k) fill(to[k], 50, kCount, streams[2]);
    synchronize(streams[2]);
    CU(cuGraphLaunch, (void*, stream_t), executable, streams[2]);
    synchronize(streams[2]);
    for (int k = 0; k < 2; ++k) EXPECT(to[k], kCount, streams[0], i, result(kind, 10 * k, i));
  }
}

int main(void) {
  comm = join();
  for (int k = 0; k < 3; ++k) streams[k] = new_stream();
  for (mixed_t kind = 0; kind < kKinds; ++kind)
    for (int form = 0; form < 4; ++form) mix(kind, form & 1, form >> 1);
  for (mixed_t kind = 0; kind < kKinds; ++kind) fork_in_capture(kind);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
