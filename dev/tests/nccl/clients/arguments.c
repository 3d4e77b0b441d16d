// Invalid arguments of all kinds: each is NCCL's code and a text, never a crash.
#include "job.h"

static int failures;

static void expect(int expected, int found, const char* what, int line) {
  const char* text = ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(0);
  if (expected != found) {
    fprintf(stderr, "line %d: %s: expected code %d, found %d: %s\n", line, what, expected, found, text);
    ++failures;
  } else if (found && found != 7 && !*text) {
    fprintf(stderr, "line %d: %s: no text\n", line, what);
    ++failures;
  }
}
#define EXPECT_CODE(code, name, types, ...) expect(code, NCCL(name, types, __VA_ARGS__), #name, __LINE__)

#define INIT (ncclComm_t*, int, ncclUniqueId, int)
#define INIT_CONFIG (ncclComm_t*, int, ncclUniqueId, int, void*)

/// Numbers of elements that no memory has.
static void counts(ncclComm_t comm, void* at, stream_t stream) {
  size_t all[] = {(size_t)1 << 56, (size_t)1 << 61, (size_t)1 << 62, SIZE_MAX / 4, SIZE_MAX};
  for (int i = 0; i < 5; ++i) {
    size_t n = all[i];
    EXPECT_CODE(4, ncclAllReduce, REDUCTION, at, at, n, kInt32, kSum, comm, stream);
    const char* text = ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(0);
    char number[32];
    snprintf(number, sizeof number, "count: %zu ", n);
    if (!strstr(text, number)) FAIL("expected %s in %s", number, text);
    EXPECT_CODE(4, ncclReduceScatter, REDUCTION, at, at, n, kInt32, kSum, comm, stream);
    EXPECT_CODE(4, ncclReduce, ROOTED_REDUCTION, at, at, n, kInt32, kSum, 0, comm, stream);
    EXPECT_CODE(4, ncclAllGather, COLLECTIVE, at, at, n, kInt32, comm, stream);
    EXPECT_CODE(4, ncclAlltoAll, COLLECTIVE, at, at, n, kInt32, comm, stream);
    EXPECT_CODE(4, ncclBroadcast, ROOTED, at, at, n, kInt32, 0, comm, stream);
    EXPECT_CODE(4, ncclBcast, (void*, size_t, int, int, ncclComm_t, stream_t), at, n, kInt32, 0, comm, stream);
    EXPECT_CODE(4, ncclGather, ROOTED, at, at, n, kInt32, 0, comm, stream);
    EXPECT_CODE(4, ncclScatter, ROOTED, at, at, n, kInt32, 0, comm, stream);
    EXPECT_CODE(4, ncclSend, SEND, at, n, kInt32, 0, comm, stream);
    EXPECT_CODE(4, ncclRecv, RECV, at, n, kInt32, 0, comm, stream);
  }
}

int main(void) {
  setenv("RANK", "0", 1), setenv("WORLD_SIZE", "1", 1);
  load();
  // Without a communicator.
  EXPECT_CODE(4, ncclGetVersion, (int*), 0);
  EXPECT_CODE(4, ncclGetUniqueId, (ncclUniqueId*), 0);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, 0, 0, 1, kInt32, kSum, 0, 0);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, 0, 0, 1, kInt32, kSum, (void*)0x1234, 0);
  EXPECT_CODE(0, ncclCommDestroy, (ncclComm_t), 0);
  EXPECT_CODE(0, ncclCommAbort, (ncclComm_t), 0);
  EXPECT_CODE(4, ncclCommDestroy, (ncclComm_t), (void*)0x7);
  EXPECT_CODE(4, ncclCommFinalize, (ncclComm_t), (void*)-1);
  EXPECT_CODE(5, ncclGroupEnd, (void), );
  EXPECT_CODE(0, ncclMemFree, (void*), 0);
  EXPECT_CODE(5, ncclMemFree, (void*), (void*)0x10);
  EXPECT_CODE(4, ncclMemAlloc, (void**, size_t), 0, 5);
  void* memory;
  OK(ncclMemAlloc, (void**, size_t), &memory, 0);
  if (memory) FAIL("memory of no bytes");
  int value;
  EXPECT_CODE(4, ncclCommCount, (ncclComm_t, int*), (void*)0x1000, &value);
  EXPECT_CODE(4, ncclCommInitAll, (ncclComm_t*, int, const int*), 0, 1, 0);
  ncclComm_t comm;
  EXPECT_CODE(4, ncclCommInitAll, (ncclComm_t*, int, const int*), &comm, 0, 0);
  int list[] = {99};
  EXPECT_CODE(4, ncclCommInitAll, (ncclComm_t*, int, const int*), &comm, 1, list);

  use_device(0);
  ncclUniqueId id, zero = {{0}};
  OK(ncclGetUniqueId, (ncclUniqueId*), &id);
  EXPECT_CODE(4, ncclCommInitRank, INIT, 0, 1, id, 0);
  EXPECT_CODE(4, ncclCommInitRank, INIT, &comm, 0, id, 0);
  EXPECT_CODE(4, ncclCommInitRank, INIT, &comm, 1, id, 1);
  EXPECT_CODE(4, ncclCommInitRank, INIT, &comm, 1, id, -1);
  EXPECT_CODE(4, ncclCommInitRank, INIT, &comm, 1, zero, 0);
  EXPECT_CODE(4, ncclCommInitRank, INIT, (ncclComm_t*)((char*)&comm + 1), 1, id, 0);
  memset(&zero, 0xff, sizeof zero);
  EXPECT_CODE(4, ncclCommInitRank, INIT, &comm, 1, zero, 0);

  // Configurations.
  config_t c = configuration(kConfigSize);
  c.magic = 1;
  EXPECT_CODE(4, ncclCommInitRankConfig, INIT_CONFIG, &comm, 1, id, 0, &c);
  c = configuration(kConfigSize), c.blocking = 2;
  EXPECT_CODE(4, ncclCommInitRankConfig, INIT_CONFIG, &comm, 1, id, 0, &c);
  c = configuration(kConfigSize), c.min = 5, c.max = 4;
  EXPECT_CODE(4, ncclCommInitRankConfig, INIT_CONFIG, &comm, 1, id, 0, &c);
  c = configuration(3);
  EXPECT_CODE(4, ncclCommInitRankConfig, INIT_CONFIG, &comm, 1, id, 0, &c);
  EXPECT_CODE(4, ncclCommInitRankConfig, INIT_CONFIG, &comm, 1, id, 0, (char*)&c + 1);
  size_t sizes[] = {48, 72, 80, 88, 96, 120};
  for (int i = 0; i < 6; ++i) {
    OK(ncclGetUniqueId, (ncclUniqueId*), &id);
    c = configuration(sizes[i]);
    c.blocking = i % 2;
    int code = NCCL(ncclCommInitRankConfig, INIT_CONFIG, &comm, 1, id, 0, &c);
    expect(i % 2 ? 0 : 7, code, "ncclCommInitRankConfig", __LINE__);
    do OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    while (code == 7);
    expect(0, code, "creation", __LINE__);
    OK(ncclCommCount, (ncclComm_t, int*), comm, &value);
    OK(ncclCommDestroy, (ncclComm_t), comm);
  }
  // An id makes one communicator.
  EXPECT_CODE(5, ncclCommInitRank, INIT, &comm, 1, id, 0);

  OK(ncclGetUniqueId, (ncclUniqueId*), &id);
  OK(ncclCommInitRank, INIT, &comm, 1, id, 0);
  stream_t stream = new_stream();
  int32_t* at = device_memory(64);
  fill(at, 0, 16, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, 0, at, 1, kInt32, kSum, comm, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, at, 0, 1, kInt32, kSum, comm, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, at, at, 1, 12, kSum, comm, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, at, at, 1, -1, kSum, comm, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, at, at, 1, kInt32, 5, comm, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, at, at, 1, kInt32, -7, comm, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, (char*)at + 1, at, 1, kInt32, kSum, comm, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, at, at, SIZE_MAX / 2, kInt32, kSum, comm, stream);
  EXPECT_CODE(0, ncclAllReduce, REDUCTION, 0, 0, 0, kInt32, kSum, comm, stream);
  EXPECT_CODE(4, ncclBroadcast, ROOTED, at, at, 1, kInt32, 1, comm, stream);
  EXPECT_CODE(4, ncclReduce, ROOTED_REDUCTION, at, at, 1, kInt32, kSum, -1, comm, stream);
  EXPECT_CODE(4, ncclSend, SEND, at, 1, kInt32, 3, comm, stream);
  // A transfer with this rank itself needs both of its sides in one group.
  EXPECT_CODE(4, ncclSend, SEND, at, 1, kInt32, 0, comm, stream);
  OK(ncclGroupStart, (void), );
  OK(ncclSend, SEND, at, 4, kInt32, 0, comm, stream);
  OK(ncclRecv, RECV, at + 8, 4, kInt32, 0, comm, stream);
  OK(ncclGroupEnd, (void), );
  EXPECT(at + 8, 4, stream, i, input(0, i));
  // An invalid call of a group fails the group, which makes no call.
  OK(ncclGroupStart, (void), );
  OK(ncclAllReduce, REDUCTION, at, at + 8, 4, kInt32, kSum, comm, stream);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, 0, at, 1, kInt32, kSum, comm, stream);
  EXPECT_CODE(4, ncclGroupEnd, (void), );
  EXPECT_CODE(5, ncclGroupEnd, (void), );
  // One rank's calls are copies.
  OK(ncclAllReduce, REDUCTION, at, at + 8, 8, kInt32, kProd, comm, stream);
  EXPECT(at + 8, 8, stream, i, input(0, i));
  OK(ncclAllGather, COLLECTIVE, at, at + 8, 4, kInt32, comm, stream);
  OK(ncclReduceScatter, REDUCTION, at, at + 8, 4, kInt32, kAvg, comm, stream);

  EXPECT_CODE(4, ncclRedOpDestroy, (int, ncclComm_t), 2, comm);
  EXPECT_CODE(4, ncclRedOpDestroy, (int, ncclComm_t), 77, comm);
  int op;
  EXPECT_CODE(4, ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &op, at, kInt32, 2, comm);
  float factor = 2;
  OK(ncclRedOpCreatePreMulSum, (int*, void*, int, int, ncclComm_t), &op, &factor, kFloat32, 1, comm);
  EXPECT_CODE(4, ncclAllReduce, REDUCTION, at, at, 1, kInt32, op, comm, stream);
  void* handle;
  EXPECT_CODE(4, ncclCommRegister, (ncclComm_t, void*, size_t, void**), comm, 0, 4, &handle);
  EXPECT_CODE(4, ncclCommDeregister, (ncclComm_t, void*), comm, (void*)5);
  EXPECT_CODE(4, ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm, at, 4, &handle, 0x100);
  EXPECT_CODE(4, ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm, at, SIZE_MAX, &handle, 0);
  // Memory of the host, and more than was allocated.
  static char of_host[4096];
  EXPECT_CODE(4, ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm, of_host, 4096, &handle, 0);
  EXPECT_CODE(4, ncclCommWindowRegister, (ncclComm_t, void*, size_t, void**, int), comm, at, 1ull << 40, &handle, 0);
  EXPECT_CODE(4, ncclCommWindowDeregister, (ncclComm_t, void*), comm, (void*)5);
  EXPECT_CODE(4, ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, -2, 0, &comm, 0);
  EXPECT_CODE(4, ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, void*, int), comm, &value, 1, &comm, 0, 0);
  EXPECT_CODE(4, ncclCommRevoke, (ncclComm_t, int), comm, 1);
  uint64_t bytes;
  EXPECT_CODE(4, ncclCommMemStats, (ncclComm_t, int, uint64_t*), comm, 9, &bytes);
  for (int statistic = 0; statistic < 4; ++statistic) {
    OK(ncclCommMemStats, (ncclComm_t, int, uint64_t*), comm, statistic, &bytes);
  }
  EXPECT_CODE(4, ncclDevCommCreate, (ncclComm_t, void*, void*), comm, 0, 0);
  counts(comm, at, stream);
  // What is not served says so.
  EXPECT_CODE(5, ncclSetEncryption, (void*), 0);

  // Parameters.
  EXPECT_CODE(4, ncclParamBind, (void**, const char*), &handle, "NCCL_NO_SUCH");
  setenv("NCCL_DEBUG_FILE", "17", 1);
  OK(ncclParamBind, (void**, const char*), &handle, "NCCL_DEBUG_FILE");
  OK(ncclParamGetI32, (void*, int*), handle, &value);
  if (value != 17) FAIL("parameter %d", value);
  const char** keys;
  OK(ncclParamGetAllParameterKeys, (const char***, int*), &keys, &value);
  for (int i = 0; i < value; ++i) {
    const char* text;
    int length;
    OK(ncclParamGetParameter, (const char*, const char**, int*), keys[i], &text, &length);
    if ((int)strlen(text) != length) FAIL("%s: %d", keys[i], length);
  }
  EXPECT_CODE(4, ncclParamGetI32, (void*, int*), (void*)999, &value);

  OK(ncclCommFinalize, (ncclComm_t), comm);
  EXPECT_CODE(5, ncclAllReduce, REDUCTION, at, at, 1, kInt32, kSum, comm, stream);
  OK(ncclCommDestroy, (ncclComm_t), comm);
  return failures > 0;
}
