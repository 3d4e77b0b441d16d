// What serves sums of floats on devices with multicast objects, by the order that a program demands. Arguments: the ranks whose environment
// forbids these objects (`all`, `0`, `none`), and the order that each rank sets for its communicator (`default` for none).
#include "../../../../mscclpp-nccl/include/mscclpp.h"
#include "job.h"

enum { kCount = 1 << 18 };

int main(int argc, char** argv) {
  rank = atoi(getenv("RANK"));
  ranks = atoi(getenv("WORLD_SIZE"));
  if (argc != ranks + 2) return 1;
  if (!strcmp(argv[1], "all") || (!strcmp(argv[1], "0") && rank == 0)) setenv("NCCL_NVLS_ENABLE", "0", 1);
  load();
  use_device(own_device());
  ncclComm_t comm = join();
  const char* order = argv[2 + rank];
  if (strcmp(order, "default")) OK(mscclppCommSetOrder, (ncclComm_t, const char*), comm, order);
  stream_t stream = new_stream();
  float* values = malloc(4 * kCount);
  for (int i = 0; i < kCount; ++i) values[i] = (float)(rank + i % 31);
  float* memory = device_memory(4 * kCount);
  write_device(memory, values, 4 * kCount, stream);
  int code = NCCL(ncclAllReduce, REDUCTION, memory, memory, kCount, kFloat32, kSum, comm, stream);
  if (code) {
    // 5: ncclInvalidUsage.
    if (code != 5) FAIL("code %d", code);
    printf("refused: %s\nok rank %d\n", ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(comm), rank);
    return 0;
  }
  read_device(values, memory, 4 * kCount, stream);
  for (int i = 0; i < kCount; ++i) {
    float expected = (float)(ranks * (i % 31) + ranks * (ranks - 1) / 2);
    if (values[i] != expected) FAIL("element %d: expected %f, found %f", i, expected, values[i]);
  }
  const char* name;
  OK(mscclppGetLastAlgorithm, (void*, const char**), comm, &name);
  printf("served by %s\n", name ? name : "none");
  OK(ncclCommDestroy, (ncclComm_t), comm);
  printf("ok rank %d\n", rank);
  return 0;
}
