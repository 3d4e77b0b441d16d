// Ranks state different maximum numbers of thread blocks: the smallest counts for all. Arguments: the maximum of each rank, 0 for none.
#include "job.h"

int main(int argc, char** argv) {
  enum { kCount = 1 << 18 };
  rank = atoi(getenv("RANK"));
  ranks = atoi(getenv("WORLD_SIZE"));
  load();
  use_device(own_device());
  if (argc <= rank + 1) return 1;
  int most = atoi(argv[rank + 1]);
  config_t config = configuration(kConfigSize);
  if (most) config.max = most;
  ncclComm_t comm = 0;
  OK(ncclCommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, void*), &comm, ranks, job_id(), rank, &config);
  stream_t stream = new_stream();
  int32_t *send = device_memory(4 * kCount), *recv = device_memory(4 * kCount);
  fill(send, rank, kCount, stream);
  OK(ncclAllReduce, REDUCTION, send, recv, kCount, kInt32, kSum, comm, stream);
  EXPECT(recv, kCount, stream, i, input(0, i) + input(1, i));
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
