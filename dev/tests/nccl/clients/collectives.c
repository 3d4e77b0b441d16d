// Makes all calls among the ranks of a launcher and compares every element.
#include "job.h"

static void sizes(ncclComm_t comm, stream_t stream, size_t n) {
  int32_t *send = device_memory(4 * n * ranks), *recv = device_memory(4 * n * ranks);
  int sum = 0, largest = input(ranks - 1, 0);
  for (int r = 0; r < ranks; ++r) sum += input(r, 0);

  fill(send, rank, n, stream);
  OK(ncclAllReduce, REDUCTION, send, recv, n, kInt32, kSum, comm, stream);
  EXPECT(recv, n, stream, i, sum + ranks * (int32_t)(i % 97));
  OK(ncclAllReduce, REDUCTION, send, send, n, kInt32, kMax, comm, stream);
  EXPECT(send, n, stream, i, largest + (int32_t)(i % 97));

  fill(send, rank, n, stream);
  OK(ncclReduce, ROOTED_REDUCTION, send, rank == 1 ? recv : 0, n, kInt32, kSum, 1, comm, stream);
  if (rank == 1) EXPECT(recv, n, stream, i, sum + ranks * (int32_t)(i % 97));
  EXPECT(send, n, stream, i, input(rank, i));

  OK(ncclBroadcast, ROOTED, rank == 0 ? send : 0, recv, n, kInt32, 0, comm, stream);
  EXPECT(recv, n, stream, i, input(0, i));
  fill(recv, rank, n, stream);
  OK(ncclBcast, (void*, size_t, int, int, ncclComm_t, stream_t), recv, n, kInt32, 1, comm, stream);
  EXPECT(recv, n, stream, i, input(1, i));

  OK(ncclAllGather, COLLECTIVE, send, recv, n, kInt32, comm, stream);
  EXPECT(recv, n * ranks, stream, i, input(i / n, i % n));
  fill(recv + rank * n, rank, n, stream);
  OK(ncclAllGather, COLLECTIVE, recv + rank * n, recv, n, kInt32, comm, stream);
  EXPECT(recv, n * ranks, stream, i, input(i / n, i % n));

  fill(send, rank, n * ranks, stream);
  OK(ncclReduceScatter, REDUCTION, send, recv, n, kInt32, kSum, comm, stream);
  EXPECT(recv, n, stream, i, sum + ranks * (int32_t)((rank * n + i) % 97));
  // In place: the other parts stay as they are.
  OK(ncclReduceScatter, REDUCTION, send, send + rank * n, n, kInt32, kSum, comm, stream);
  EXPECT(send, n * ranks, stream, i, i / n == (size_t)rank ? sum + ranks * (int32_t)(i % 97) : input(rank, i));

  fill(send, rank, n * ranks, stream);
  OK(ncclAlltoAll, COLLECTIVE, send, recv, n, kInt32, comm, stream);
  EXPECT(recv, n * ranks, stream, i, input(i / n, rank * n + i % n));
  OK(ncclAlltoAll, COLLECTIVE, send, send, n, kInt32, comm, stream);
  EXPECT(send, n * ranks, stream, i, input(i / n, rank * n + i % n));

  fill(send, rank, n * ranks, stream);
  OK(ncclGather, ROOTED, send, rank == 0 ? recv : 0, n, kInt32, 0, comm, stream);
  if (rank == 0) EXPECT(recv, n * ranks, stream, i, input(i / n, i % n));
  OK(ncclScatter, ROOTED, rank == 1 ? send : 0, recv, n, kInt32, 1, comm, stream);
  EXPECT(recv, n, stream, i, input(1, rank * n + i));

  // Every rank sends to the next one and receives from the one before.
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  OK(ncclGroupStart, (void), );
  OK(ncclSend, SEND, send, n, kInt32, next, comm, stream);
  OK(ncclRecv, RECV, recv, n, kInt32, before, comm, stream);
  OK(ncclGroupEnd, (void), );
  EXPECT(recv, n, stream, i, input(before, i));
  // All to all of transfers, with this rank itself.
  OK(ncclGroupStart, (void), );
  for (int r = 0; r < ranks; ++r) {
    OK(ncclSend, SEND, send + r * n, n, kInt32, r, comm, stream);
    OK(ncclRecv, RECV, recv + r * n, n, kInt32, r, comm, stream);
  }
  OK(ncclGroupEnd, (void), );
  EXPECT(recv, n * ranks, stream, i, input(i / n, rank * n + i % n));

  // A sum of multiples: rank r's elements by r + 1.
  int32_t factor = rank + 1, scaled = 0, squares = 0;
  for (int r = 0; r < ranks; ++r) scaled += (r + 1) * input(r, 0), squares += r + 1;
  int op;
  OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &op, &factor, kInt32, 1, comm);
  OK(ncclAllReduce, REDUCTION, send, recv, n, kInt32, op, comm, stream);
  EXPECT(recv, n, stream, i, scaled + squares * (int32_t)(i % 97));
  OK(ncclReduceScatter, REDUCTION, send, recv, n, kInt32, op, comm, stream);
  EXPECT(recv, n, stream, i, scaled + squares * (int32_t)((rank * n + i) % 97));
  OK(ncclReduce, ROOTED_REDUCTION, send, recv, n, kInt32, op, 0, comm, stream);
  if (rank == 0) EXPECT(recv, n, stream, i, scaled + squares * (int32_t)(i % 97));
  OK(ncclRedOpDestroy, (int, ncclComm_t), op, comm);

  // Freeing memory does not wait for the stream here.
  synchronize(stream);
  CU(cuMemFree_v2, (unsigned long long), (unsigned long long)send);
  CU(cuMemFree_v2, (unsigned long long), (unsigned long long)recv);
}

/// Some ranks call in place and others do not: `places` has a bit for each rank.
static void in_place_on_some_ranks(ncclComm_t comm, stream_t stream, size_t n, unsigned places) {
  int32_t *send = device_memory(4 * n * ranks), *recv = device_memory(4 * n * ranks);
  int32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, 0);
  int in_place = places >> rank & 1;

  fill(in_place ? recv : send, rank, n, stream);
  OK(ncclAllReduce, REDUCTION, in_place ? recv : send, recv, n, kInt32, kSum, comm, stream);
  EXPECT(recv, n, stream, i, sum + ranks * (int32_t)(i % 97));
  if (!in_place) EXPECT(send, n, stream, i, input(rank, i));

  fill(in_place ? recv + rank * n : send, rank, n, stream);
  OK(ncclAllGather, COLLECTIVE, in_place ? recv + rank * n : send, recv, n, kInt32, comm, stream);
  EXPECT(recv, n * ranks, stream, i, input(i / n, i % n));

  fill(in_place ? recv : send, rank, n * ranks, stream);
  OK(ncclAlltoAll, COLLECTIVE, in_place ? recv : send, recv, n, kInt32, comm, stream);
  EXPECT(recv, n * ranks, stream, i, input(i / n, rank * n + i % n));
  if (!in_place) EXPECT(send, n * ranks, stream, i, input(rank, i));

  // A sum of multiples in the form that the ranks use for sums of this size.
  int32_t two = 2;
  int op;
  OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &op, &two, kInt32, 1, comm);
  fill(in_place ? recv : send, rank, n, stream);
  OK(ncclAllReduce, REDUCTION, in_place ? recv : send, recv, n, kInt32, op, comm, stream);
  EXPECT(recv, n, stream, i, 2 * (sum + ranks * (int32_t)(i % 97)));
  OK(ncclRedOpDestroy, (int, ncclComm_t), op, comm);
  synchronize(stream);
  CU(cuMemFree_v2, (unsigned long long), (unsigned long long)send);
  CU(cuMemFree_v2, (unsigned long long), (unsigned long long)recv);
}

static void windows(ncclComm_t comm, stream_t stream) {
  size_t n = 5000;
  void *memory, *window, *found;
  OK(ncclMemAlloc, (void**, size_t), &memory, 8 * n);
  OK(ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm, memory, 8 * n, &window, 1);
  OK(ncclWinGetUserPtr, (ncclComm_t, void*, void**), comm, window, &found);
  if (found != memory) FAIL("another address");
  int32_t *send = memory, *recv = send + n;
  fill(send, rank, n, stream);
  OK(ncclAllReduce, REDUCTION, send, recv, n, kInt32, kMin, comm, stream);
  EXPECT(recv, n, stream, i, input(0, i));
  OK(ncclCommWindowDeregister, (ncclComm_t, void*), comm, window);
  OK(ncclAllReduce, REDUCTION, send, recv, n, kInt32, kMin, comm, stream);
  EXPECT(recv, n, stream, i, input(0, i));
  void* handle;
  OK(ncclCommRegister, (ncclComm_t, void*, size_t, void**), comm, memory, 8 * n, &handle);
  OK(ncclCommDeregister, (ncclComm_t, void*), comm, handle);
  OK(ncclMemFree, (void*), memory);
  OK(ncclMemFree, (void*), 0);
  if (NCCL(ncclMemFree, (void*), memory) != 5) FAIL("freed twice");
}

int main(void) {
  ncclComm_t comm = join();
  int version;
  OK(ncclGetVersion, (int*), &version);
  if (version != 23007) FAIL("version %d", version);
  int found;
  OK(ncclCommCount, (ncclComm_t, int*), comm, &found);
  if (found != ranks) FAIL("count %d", found);
  OK(ncclCommUserRank, (ncclComm_t, int*), comm, &found);
  if (found != rank) FAIL("rank %d", found);
  OK(ncclCommCuDevice, (ncclComm_t, int*), comm, &found);
  if (found != own_device()) FAIL("device %d", found);

  stream_t stream = new_stream();
  size_t counts[] = {1, 33, 5000};
  for (size_t at = 0; at < sizeof counts / sizeof *counts; ++at) sizes(comm, stream, counts[at]);
  // The first call of a size decides about its form.
  unsigned places[] = {0, 1, 15, 10, 15, 1, 10, 0, 5};
  size_t sizes_of_places[] = {7, 1111, 40000};
  size_t all = sizeof places / sizeof *places;
  for (size_t n = 0; n < 3; ++n)
    // Long calls take most of the time: the first places only, unless ALL_PLACES is set.
    for (size_t at = 0; at < (n < 2 || getenv("ALL_PLACES") ? all : 3); ++at)
      in_place_on_some_ranks(comm, stream, sizes_of_places[n], places[(at + 2 * n) % all]);
  OK(ncclAllReduce, REDUCTION, 0, 0, 0, kInt32, kSum, comm, stream);
  windows(comm, stream);

  // Halves, in another order of ranks.
  ncclComm_t half;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, rank % 2, -rank, &half, 0);
  OK(ncclCommCount, (ncclComm_t, int*), half, &found);
  if (found != (ranks + 1 - rank % 2) / 2) FAIL("count of the half: %d", found);
  int32_t* one = device_memory(4);
  fill(one, rank, 1, stream);
  OK(ncclAllReduce, REDUCTION, one, one, 1, kInt32, kSum, half, stream);
  int32_t sum = 0;
  for (int r = rank % 2; r < ranks; r += 2) sum += input(r, 0);
  EXPECT(one, 1, stream, i, sum);
  OK(ncclCommDestroy, (ncclComm_t), half);
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, rank == 0 ? -1 : 0, 0, &half, 0);
  if ((half == 0) != (rank == 0)) FAIL("a communicator without color");
  if (half) OK(ncclCommDestroy, (ncclComm_t), half);

  int code;
  OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
  if (code) FAIL("asynchronous error %d", code);
  OK(ncclCommFinalize, (ncclComm_t), comm);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  if (NCCL(ncclCommDestroy, (ncclComm_t), comm) != 4) FAIL("destroyed twice");
  printf("ok rank %d\n", rank);
  return 0;
}
