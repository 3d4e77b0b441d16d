// Calls while other work of the device waits for what the program does after them. Timelines are recorded meanwhile.
#include "job.h"

enum { kRounds = 3 };

static void call(ncclComm_t comm, stream_t stream, size_t count) {
  int32_t *send = device_memory(4 * count), *recv = device_memory(4 * count);
  fill(send, rank, count, stream);
  for (int round = 0; round < kRounds; ++round) {
    OK(ncclAllReduce, REDUCTION, send, recv, count, kInt32, kSum, comm, stream);
    synchronize(stream);
  }
  int32_t first = 0;
  for (int r = 0; r < ranks; ++r) first += input(r, 0);
  EXPECT(recv, 1, stream, i, first);
}

int main(void) {
  ncclComm_t comm = join();
  stream_t stream = new_stream(), other = new_stream();
  uint64_t *released = device_memory(8), values[2] = {0, 1};
  write_device(released, &values[0], 8, stream);
  CU(cuStreamWaitValue64_v2, (stream_t, unsigned long long, uint64_t, unsigned), other, (unsigned long long)released, 1, 0);
  // The first call of each size prepares a plan and its kernel with stamps; later calls write what is recorded.
  for (size_t count = 64; count <= 1 << 16; count <<= 5) call(comm, stream, count);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  write_device(released, &values[1], 8, stream);
  synchronize(other);
  printf("ok rank %d\n", rank);
  return 0;
}
