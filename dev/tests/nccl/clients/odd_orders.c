// Calls in orders and forms that NCCL allows and that programs seldom use: deep groups, groups that fail, ends of communicators within
// groups, odd addresses, no elements, several streams, communicators that do not block.
#include <pthread.h>

#include "job.h"

static ncclComm_t comm;
static stream_t stream;

static int32_t sum_of(size_t i) {
  int32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, i);
  return sum;
}

static int async_error(ncclComm_t of) {
  int code = 0;
  OK(ncclCommGetAsyncError, (ncclComm_t, int*), of, &code);
  return code;
}

static void expect_code(int expected, int found, int line) {
  if (expected != found) FAIL("line %d: expected code %d, found %d", line, expected, found);
}
#define CODE(expected, call) expect_code(expected, call, __LINE__)

static int start(void) { return NCCL(ncclGroupStart, (void), ); }
static int end(void) { return NCCL(ncclGroupEnd, (void), ); }
static int all_reduce(const void* send, void* recv, size_t count, ncclComm_t of, stream_t on) {
  return NCCL(ncclAllReduce, REDUCTION, send, recv, count, kInt32, kSum, of, on);
}

/// Only the outermost end makes the calls.
static void deep_groups(void) {
  enum { kCount = 501 };
  int32_t *send = device_memory(4 * kCount), *recv = device_memory(4 * kCount);
  fill(send, rank, kCount, stream);
  fill(recv, 7, kCount, stream);
  for (int i = 0; i < 5; ++i) CODE(0, start());
  CODE(0, all_reduce(send, recv, kCount, comm, stream));
  for (int i = 0; i < 4; ++i) CODE(0, end());
  EXPECT(recv, kCount, stream, i, input(7, i));
  CODE(0, end());
  EXPECT(recv, kCount, stream, i, sum_of(i));
  // Groups without calls, and an end too many.
  CODE(0, start());
  CODE(0, end());
  CODE(5, end());
}

/// A call with an invalid argument fails the group, none of whose calls is made, and nothing after it.
static void failed_groups(void) {
  enum { kCount = 64 };
  int32_t *send = device_memory(4 * kCount), *recv = device_memory(4 * kCount);
  fill(send, rank, kCount, stream);
  fill(recv, 7, kCount, stream);
  CODE(0, start());
  CODE(0, all_reduce(send, recv, kCount, comm, stream));
  CODE(4, NCCL(ncclAllReduce, REDUCTION, send, recv, kCount, 99, kSum, comm, stream));
  CODE(4, end());
  EXPECT(recv, kCount, stream, i, input(7, i));
  CODE(0, async_error(comm));
  CODE(0, all_reduce(send, recv, kCount, comm, stream));
  EXPECT(recv, kCount, stream, i, sum_of(i));
}

/// In place and out of place, at addresses that are aligned for the type alone.
static void odd_addresses(void) {
  enum { kCount = 333 };
  int32_t *base = device_memory(4 * (kCount * 8 + 64)), *other = device_memory(4 * (kCount * 8 + 64));
  for (int at = 0; at < 4; ++at) {
    int32_t *all = base + at, *own = all + rank * kCount;
    fill(own, rank, kCount, stream);
    OK(ncclAllGather, COLLECTIVE, own, all, kCount, kInt32, comm, stream);
    for (int r = 0; r < ranks; ++r) EXPECT(all + r * kCount, kCount, stream, i, input(r, i));
    // The next rank's place is no place of this rank's: out of place.
    fill(all, rank, kCount, stream);
    OK(ncclAllGather, COLLECTIVE, all, other + 3 - at, kCount, kInt32, comm, stream);
    for (int r = 0; r < ranks; ++r) EXPECT(other + 3 - at + r * kCount, kCount, stream, i, input(r, i));
    for (int r = 0; r < ranks; ++r) fill(all + r * kCount, rank, kCount, stream);
    OK(ncclReduceScatter, REDUCTION, all, own, kCount, kInt32, kSum, comm, stream);
    EXPECT(own, kCount, stream, i, sum_of(i));
    for (int r = 0; r < ranks; ++r)
      if (r != rank) EXPECT(all + r * kCount, kCount, stream, i, input(rank, i));
    fill(all, rank, kCount, stream);
    CODE(0, all_reduce(all, all, kCount, comm, stream));
    EXPECT(all, kCount, stream, i, sum_of(i));
  }
  // Bytes at every offset.
  unsigned char values[64], *bytes = device_memory(256);
  for (int at = 0; at < 16; ++at) {
    memset(values, 1 + rank, 37);
    write_device(bytes + at, values, 37, stream);
    OK(ncclAllReduce, REDUCTION, bytes + at, bytes + at, 37, 1, kSum, comm, stream);
    read_device(values, bytes + at, 37, stream);
    for (int i = 0; i < 37; ++i)
      if (values[i] != ranks * (ranks + 1) / 2) FAIL("byte %d at %d: found %d", i, at, values[i]);
  }
}

/// Calls without elements change nothing, and null pointers will do; all ranks make them. What differs is in `empty.c`.
static void no_elements(void) {
  int32_t* memory = device_memory(64);
  fill(memory, rank, 16, stream);
  CODE(0, all_reduce(memory, memory, 0, comm, stream));
  CODE(0, all_reduce(0, 0, 0, comm, stream));
  CODE(0, NCCL(ncclAllGather, COLLECTIVE, 0, 0, 0, kInt32, comm, stream));
  CODE(0, start());
  CODE(0, NCCL(ncclSend, SEND, 0, 0, kInt32, (rank + 1) % ranks, comm, stream));
  CODE(0, NCCL(ncclRecv, RECV, 0, 0, kInt32, (rank + ranks - 1) % ranks, comm, stream));
  CODE(0, end());
  CODE(0, start());
  CODE(0, NCCL(ncclReduceScatter, REDUCTION, 0, 0, 0, kInt32, kSum, comm, stream));
  CODE(0, NCCL(ncclBroadcast, ROOTED, 0, 0, 0, kInt32, 0, comm, stream));
  CODE(0, end());
  EXPECT(memory, 16, stream, i, input(rank, i));
  CODE(0, async_error(comm));
}

/// Calls of one group on several streams, and then of several communicators; ranks add those of the communicators in different orders.
static void several_streams_and_communicators(void) {
  enum { kCount = 2000, kStreams = 4 };
  stream_t streams[kStreams];
  int32_t *send[kStreams], *recv[kStreams];
  ncclComm_t comms[kStreams];
  CODE(0, start());
  for (int k = 0; k < kStreams; ++k) {
    OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, k % 2 ? -rank : rank, &comms[k], 0);
  }
  CODE(0, end());
  for (int k = 0; k < kStreams; ++k) {
    streams[k] = new_stream();
    send[k] = device_memory(4 * kCount), recv[k] = device_memory(4 * kCount);
    fill(send[k], rank, kCount - k, streams[k]);
  }
  for (int round = 0; round < 3; ++round) {
    CODE(0, start());
    for (int k = 0; k < kStreams; ++k) CODE(0, all_reduce(send[k], recv[k], kCount - k, comm, streams[k]));
    CODE(0, end());
    for (int k = 0; k < kStreams; ++k) EXPECT(recv[k], (size_t)(kCount - k), streams[k], i, sum_of(i));
    CODE(0, start());
    for (int n = 0; n < kStreams; ++n) {
      int k = rank % 2 ? kStreams - 1 - n : n;
      CODE(0, start());
      CODE(0, all_reduce(send[k], recv[k], kCount - k, comms[k], streams[(k + round) % kStreams]));
      CODE(0, end());
    }
    CODE(0, end());
    for (int k = 0; k < kStreams; ++k) EXPECT(recv[k], (size_t)(kCount - k), streams[(k + round) % kStreams], i, sum_of(i));
  }
  // They end within a group, in any order.
  CODE(0, start());
  for (int n = 0; n < kStreams; ++n) OK(ncclCommDestroy, (ncclComm_t), comms[rank % 2 ? n : kStreams - 1 - n]);
  CODE(0, end());
  for (int k = 0; k < kStreams; ++k) CODE(4, NCCL(ncclCommDestroy, (ncclComm_t), comms[k]));
}

/// The communicator of a call ends before the group that makes it.
static void destroyed_within_its_group(void) {
  enum { kCount = 100 };
  ncclComm_t part;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, rank, &part, 0);
  int32_t* memory = device_memory(4 * kCount);
  fill(memory, rank, kCount, stream);
  CODE(0, start());
  CODE(0, all_reduce(memory, memory, kCount, part, stream));
  OK(ncclCommDestroy, (ncclComm_t), part);
  CODE(0, end());
  EXPECT(memory, kCount, stream, i, sum_of(i));
}

/// Communicators that do not block: their state is polled after each call.
static int settled(ncclComm_t of) {
  int code;
  while ((code = async_error(of)) == 7) usleep(100);
  return code;
}

static void without_blocking(void) {
  enum { kCount = 100 };
  config_t config = configuration(kConfigSize);
  config.blocking = 0;
  ncclComm_t part = 0, inner = 0;
  int code = NCCL(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, rank, &part, &config);
  if (code && code != 7) FAIL("split: %d", code);
  CODE(0, settled(part));
  int32_t* memory = device_memory(4 * kCount);
  fill(memory, rank, kCount, stream);
  code = all_reduce(memory, memory, kCount, part, stream);
  if (code && code != 7) FAIL("all-reduce: %d", code);
  CODE(0, settled(part));
  EXPECT(memory, kCount, stream, i, sum_of(i));
  CODE(0, start());
  code = NCCL(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), part, 0, -rank, &inner, &config);
  if (code && code != 7) FAIL("split in a group: %d", code);
  code = end();
  if (code && code != 7) FAIL("end of a group: %d", code);
  CODE(0, settled(part));
  CODE(0, settled(inner));
  fill(memory, rank, kCount, stream);
  CODE(0, start());
  all_reduce(memory, memory, kCount, inner, stream);
  code = end();
  if (code && code != 7) FAIL("group: %d", code);
  CODE(0, settled(inner));
  EXPECT(memory, kCount, stream, i, sum_of(i));
  for (int k = 0; k < 2; ++k) {
    ncclComm_t of = k ? part : inner;
    code = NCCL(ncclCommFinalize, (ncclComm_t), of);
    if (code && code != 7) FAIL("finalize: %d", code);
    CODE(0, settled(of));
    OK(ncclCommDestroy, (ncclComm_t), of);
  }
}

static ncclComm_t split_without_blocking(ncclComm_t of, int color, int key) {
  config_t config = configuration(kConfigSize);
  config.blocking = 0;
  ncclComm_t part = 0;
  int code = NCCL(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), of, color, key, &part, &config);
  if (code && code != 7) FAIL("split: %d", code);
  return part;
}

static void expect_rank(ncclComm_t of, int expected) {
  int found;
  CODE(0, settled(of));
  OK(ncclCommUserRank, (ncclComm_t, int*), of, &found);
  if (found != expected) FAIL("expected rank %d, found %d", expected, found);
}

/// Programs poll the communicator that they divide: it is in progress, so that its divisions and calls have one order on all ranks.
static void divisions_without_blocking(void) {
  enum { kCount = 100, kParts = 4 };
  int32_t* memory = device_memory(4 * kCount);
  for (int round = 0; round < 5; ++round) {
    ncclComm_t whole = split_without_blocking(comm, 0, rank), parts[kParts];
    CODE(0, settled(comm));
    CODE(0, settled(whole));
    for (int k = 0; k < kParts; ++k) {
      parts[k] = split_without_blocking(whole, 0, k % 2 ? -rank : rank);
      // A rank that polls seldom must not be overtaken by its own call.
      if (rank % 2 == 0) CODE(0, settled(whole));
      if (k != 1) continue;
      fill(memory, rank, kCount, stream);
      CODE(0, all_reduce(memory, memory, kCount, whole, stream));
      EXPECT(memory, kCount, stream, i, sum_of(i));
    }
    for (int k = 0; k < kParts; ++k) {
      expect_rank(parts[k], k % 2 ? ranks - 1 - rank : rank);
      OK(ncclCommDestroy, (ncclComm_t), parts[k]);
    }
    OK(ncclCommDestroy, (ncclComm_t), whole);
  }
}

/// A group whose communicators are in progress at its end has made its calls all the same; a part without color is none.
static void calls_and_divisions_of_one_group(void) {
  enum { kCount = 100 };
  int32_t* memory = device_memory(4 * kCount);
  fill(memory, rank, kCount, stream);
  CODE(0, start());
  CODE(0, all_reduce(memory, memory, kCount, comm, stream));
  ncclComm_t all = split_without_blocking(comm, 0, -rank), half = split_without_blocking(comm, rank % 2, rank);
  ncclComm_t others = split_without_blocking(comm, rank ? 0 : -1, rank);
  int code = end();
  if (code && code != 7) FAIL("end of a group: %d", code);
  CODE(0, settled(comm));
  EXPECT(memory, kCount, stream, i, sum_of(i));
  expect_rank(all, ranks - 1 - rank);
  expect_rank(half, rank / 2);
  if (rank) expect_rank(others, rank - 1);
  if (!rank && others) FAIL("a communicator without color");
  OK(ncclCommDestroy, (ncclComm_t), all);
  OK(ncclCommDestroy, (ncclComm_t), half);
  OK(ncclCommDestroy, (ncclComm_t), others);
}

/// Calls that a communicator makes for the first time while a stream is captured, in both modes that reject allocations.
static void captured_first_calls(int mode) {
  enum { kCount = 300 };
  ncclComm_t part;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, rank, &part, 0);
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, twice = 0;
  int32_t factor = 2, *send = device_memory(4 * kCount * 8), *recv = device_memory(4 * kCount), *scaled = device_memory(4 * kCount);
  void *graph, *instance;
  OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &twice, &factor, kInt32, 1, part);
  CU(cuStreamBeginCapture_v2, (stream_t, int), stream, mode);
  OK(ncclReduceScatter, REDUCTION, send, send + rank * kCount, kCount, kInt32, kSum, part, stream);
  OK(ncclAllReduce, REDUCTION, send + rank * kCount, scaled, kCount, kInt32, twice, part, stream);
  CODE(0, start());
  OK(ncclSend, SEND, scaled, kCount, kInt32, next, part, stream);
  OK(ncclRecv, RECV, recv, kCount, kInt32, before, part, stream);
  CODE(0, end());
  if (rank == 0) OK(ncclSend, SEND, send + rank * kCount, kCount, kInt32, 1, part, stream);
  if (rank == 1) OK(ncclRecv, RECV, recv, kCount, kInt32, 0, part, stream);
  CU(cuStreamEndCapture, (stream_t, void**), stream, &graph);
  CU(cuGraphInstantiateWithFlags, (void**, void*, unsigned long long), &instance, graph, 0);
  for (int round = 0; round < 3; ++round) {
    for (int r = 0; r < ranks; ++r) fill(send + r * kCount, rank, kCount, stream);
    CU(cuGraphLaunch, (void*, stream_t), instance, stream);
    EXPECT(send + rank * kCount, kCount, stream, i, sum_of(i));
    EXPECT(scaled, kCount, stream, i, 2 * ranks * sum_of(i));
    EXPECT(recv, kCount, stream, i, (rank == 1 ? 1 : 2 * ranks) * sum_of(i));
  }
  CU(cuGraphExecDestroy, (void*), instance);
  CU(cuGraphDestroy, (void*), graph);
  OK(ncclCommDestroy, (ncclComm_t), part);
}

static void captures(void) {
  captured_first_calls(0);
  captured_first_calls(1);
}

static ncclComm_t of_thread[2];

/// Each thread has groups of its own.
static void* group_of_a_thread(void* number) {
  enum { kCount = 700 };
  int k = (int)(intptr_t)number;
  use_device(own_device());
  stream_t own = new_stream();
  int32_t* memory = device_memory(4 * kCount);
  for (int round = 0; round < 20; ++round) {
    fill(memory, rank, kCount, own);
    CODE(0, start());
    CODE(0, all_reduce(memory, memory, kCount, of_thread[k], own));
    if (k) usleep(500);
    CODE(0, end());
    EXPECT(memory, kCount, own, i, sum_of(i));
  }
  return 0;
}

static void groups_of_threads(void) {
  pthread_t threads[2];
  for (int k = 0; k < 2; ++k)
    OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, rank, &of_thread[k], 0);
  for (intptr_t k = 0; k < 2; ++k) pthread_create(&threads[k], 0, group_of_a_thread, (void*)k);
  for (int k = 0; k < 2; ++k) pthread_join(threads[k], 0);
  for (int k = 0; k < 2; ++k) OK(ncclCommDestroy, (ncclComm_t), of_thread[k]);
}

enum { kScaled = 800 };
static int twice;
static int32_t *scaled[2], *reduced[2];
static pthread_barrier_t is_called;

/// Calls on the default stream of each thread, whose handle is the same.
static void* scaled_by_a_thread(void* number) {
  int k = (int)(intptr_t)number;
  stream_t own = (stream_t)2;
  use_device(own_device());
  if (k) pthread_barrier_wait(&is_called);
  CODE(0, NCCL(ncclReduceScatter, REDUCTION, scaled[k], reduced[k], kScaled, kInt32, twice, comm, own));
  if (!k) pthread_barrier_wait(&is_called);
  synchronize(own);
  return 0;
}

/// The second call must not write the internal memory that the first one, which waits for another rank, has yet to read.
static void default_streams_of_threads(void) {
  int32_t factor = 2;
  pthread_t threads[2];
  pthread_barrier_init(&is_called, 0, 2);
  OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &twice, &factor, kInt32, 1, comm);
  for (int k = 0; k < 2; ++k) {
    scaled[k] = device_memory(4 * kScaled * ranks), reduced[k] = device_memory(4 * kScaled);
    fill(scaled[k], rank + 10 * k, kScaled * ranks, stream);
    CODE(0, NCCL(ncclReduceScatter, REDUCTION, scaled[k], reduced[k], kScaled, kInt32, twice, comm, stream));
    synchronize(stream);
    fill(reduced[k], 7, kScaled, stream);
  }
  if (rank == 1) usleep(200000);
  for (intptr_t k = 0; k < 2; ++k) pthread_create(&threads[k], 0, scaled_by_a_thread, (void*)k);
  for (int k = 0; k < 2; ++k) pthread_join(threads[k], 0);
  for (int k = 0; k < 2; ++k) {
    int32_t base = 0;
    for (int r = 0; r < ranks; ++r) base += 2 * 1000 * (r + 10 * k + 1);
    EXPECT(reduced[k], kScaled, stream, i, base + 2 * ranks * (int32_t)((rank * kScaled + i) % 97));
  }
}

int main(int argc, char** argv) {
  comm = join();
  stream = new_stream();
  struct { const char* name; void (*run)(void); } all[] = {
      {"deep_groups", deep_groups},
      {"failed_groups", failed_groups},
      {"odd_addresses", odd_addresses},
      {"no_elements", no_elements},
      {"several_streams_and_communicators", several_streams_and_communicators},
      {"destroyed_within_its_group", destroyed_within_its_group},
      {"without_blocking", without_blocking},
      {"divisions_without_blocking", divisions_without_blocking},
      {"calls_and_divisions_of_one_group", calls_and_divisions_of_one_group},
      {"groups_of_threads", groups_of_threads},
      {"captures", captures},
      {"default_streams_of_threads", default_streams_of_threads},
  };
  for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
    if (argc > 1 && strcmp(argv[1], all[k].name)) continue;
    fprintf(stderr, "rank %d: %s\n", rank, all[k].name);
    all[k].run();
  }
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
