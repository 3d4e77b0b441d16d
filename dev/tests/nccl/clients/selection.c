// What serves calls, as a program of C chooses it by mscclpp.h. Arguments: what to do, and its files.
#include <math.h>

#include "../../../../mscclpp-nccl/include/mscclpp.h"
#include "job.h"

enum { kCount = 1024 };

static ncclComm_t comm;
static stream_t stream;
static int32_t *from, *to;
static const char* chosen[2];
static char known[2][64];
static int asked, ranks_per_node;

static const char* last_error(void) { return ((const char* (*)(void))find(nccl_library, "mscclppGetLastError"))(); }

/// Checks the code of a call, and that the text of a failure has a part.
static void expect(int line, int found, int code, const char* part) {
  if (found != code) FAIL("line %d: expected code %d, found %d: %s", line, code, found, last_error());
  if (code && !strstr(last_error(), part)) FAIL("line %d: expected `%s` in `%s`", line, part, last_error());
}
#define EXPECT_CODE(code, part, name, types, ...) expect(__LINE__, NCCL(name, types, __VA_ARGS__), code, part)

static char* read_file(const char* path, size_t* bytes) {
  FILE* file = fopen(path, "rb");
  if (!file) FAIL("cannot read %s", path);
  static char data[1 << 20];
  *bytes = fread(data, 1, sizeof data, file);
  fclose(file);
  return data;
}

static void start(void) {
  comm = join();
  stream = new_stream();
  from = device_memory(4 * kCount * 8);
  to = device_memory(4 * kCount * 8);
  fill(from, rank, kCount, stream);
}

static int all_reduce(ncclComm_t of, int32_t* at) {
  return NCCL(ncclAllReduce, REDUCTION, at, to, kCount, kInt32, kSum, of, stream);
}

static const char* served(void) {
  const char* name;
  OK(mscclppGetLastAlgorithm, (void*, const char**), comm, &name);
  return name ? name : "none";
}

/// Prints what serves calls.
static void calls(void) {
  OK(ncclAllReduce, REDUCTION, from, from, kCount, kInt32, kSum, comm, stream);
  EXPECT(from, kCount, stream, i, input(0, i) + input(1, i));
  printf("in place: %s\n", served());
  fill(from, rank, kCount, stream);
  // Calls of one size have one form.
  OK(ncclAllReduce, REDUCTION, from, to, kCount / 2, kInt32, kSum, comm, stream);
  EXPECT(to, (size_t)kCount / 2, stream, i, input(0, i) + input(1, i));
  printf("out of place: %s\n", served());
  OK(ncclAllGather, COLLECTIVE, from, to, kCount, kInt32, comm, stream);
  EXPECT(to, 2 * kCount, stream, i, input(i / kCount, i % kCount));
  printf("gather: %s\n", served());
}

/// Returns what the test wants for calls in place and others, after checking what it gets.
static const char* choose(const mscclppCall_t* call, const char* const* names, size_t num_names, void* user, const char** error) {
  if (user != &asked || call->size != sizeof *call || !num_names || *error) FAIL("not what was set");
  if (call->ranks != ranks || call->ranks_per_node != ranks_per_node || call->captured || call->symmetric) FAIL("another call");
  // Calls of a selector would wait for themselves.
  const char* last;
  EXPECT_CODE(mscclppCallFailed, "a selector made this call", mscclppGetLastAlgorithm, (void*, const char**), comm, &last);
  int refused = NCCL(ncclAllReduce, REDUCTION, from, to, kCount, kInt32, kSum, comm, stream);
  if (!refused || !strstr(last_error(), "a selector made this call")) FAIL("%d: %s", refused, last_error());
  ++asked;
  for (size_t i = 0; i < num_names; ++i) {
    if (!names[i]) FAIL("no name %zu", i);
  }
  if (strcmp(call->collective, "allreduce")) return 0;
  if (strcmp(call->type, "i32") || strcmp(call->operation, "sum") || call->input_bytes > 4 * kCount) FAIL("another call");
  const char* choice = chosen[call->in_place];
  if (choice && *choice == '#') {
    // By number, where the test knows no names.
    int at = choice[1] - '0';
    snprintf(known[at], sizeof known[at], "%s", names[at]);
    return names[at];
  }
  if (choice && *choice == '!') {
    *error = choice + 1;
    return 0;
  }
  return choice;
}

/// Serves all-reduces as kernels would: writes the sum of the two inputs, which the test knows. Fails for one size.
static const char* launch(const mscclppLaunch_t* launch, void* user) {
  const mscclppCall_t* call = launch->call;
  if (user != &asked || launch->size != sizeof *launch || call->size != sizeof *call) FAIL("not what was set");
  if (launch->comm != comm || launch->rank != rank || call->ranks != ranks || launch->stream != stream) FAIL("another call");
  if (launch->input != from || launch->output != (call->in_place ? from : to)) FAIL("other memory");
  int refused = NCCL(ncclAllReduce, REDUCTION, from, to, kCount, kInt32, kSum, comm, stream);
  if (!refused || !strstr(last_error(), "mscclppRegisterKernels")) FAIL("%d: %s", refused, last_error());
  if (call->input_bytes == 4) return "too short for me";
  static int32_t sums[kCount];
  for (int i = 0; i < kCount; ++i) sums[i] = input(0, i) + input(1, i);
  write_device(launch->output, sums, call->output_bytes, stream);
  ++asked;
  return 0;
}

/// For broadcasts: transfers between two ranks are none.
static const char* launch_broadcast(const mscclppLaunch_t* launch, void* user) {
  (void)user;
  FAIL("kernels serve a %s of %d ranks", launch->call->collective, launch->call->ranks);
  return 0;
}

#define KERNELS (const char*, const char*, mscclppKernels_t, void*)
#define SELECTOR (mscclppSelector_t, void*)

/// Registers plans and makes settings that are refused, each with its code.
static void refused(const char* plan, const char* wrong, const char* no_effect) {
  size_t bytes;
  int interface;
  const char* version;
  OK(mscclppGetVersion, (int*, const char**), &interface, &version);
  if (interface != MSCCLPP_INTERFACE || !strchr(version, '.')) FAIL("version %d %s", interface, version);
  char* data = read_file(wrong, &bytes);
  EXPECT_CODE(mscclppInvalidPlan, "error", mscclppRegisterPlan, (void*, size_t, char*), data, bytes, 0);
  EXPECT_CODE(mscclppInvalidPlan, wrong, mscclppRegisterPlanFile, (const char*, char*), wrong, 0);
  EXPECT_CODE(mscclppInvalidPlan, "", mscclppRegisterPlan, (void*, size_t, char*), "no plan", 7, 0);
  EXPECT_CODE(mscclppNoEffect, "in place", mscclppRegisterPlanFile, (const char*, char*), no_effect, 0);
  EXPECT_CODE(mscclppSystemError, "/nonexistent", mscclppRegisterPlanFile, (const char*, char*), "/nonexistent", 0);
  EXPECT_CODE(mscclppInvalidArgument, "path is null", mscclppRegisterPlanFile, (char*, char*), 0, 0);
  EXPECT_CODE(mscclppInvalidArgument, "data is null", mscclppRegisterPlan, (void*, size_t, char*), 0, 3, 0);
  EXPECT_CODE(mscclppInvalidArgument, "name", mscclppRegisterPlanFile, (const char*, char*), plan, "a\nb");
  EXPECT_CODE(mscclppInvalidArgument, "name", mscclppRegisterPlanFile, (const char*, char*), plan, "\xff");
  EXPECT_CODE(mscclppDuplicateName, "allreduce_ring", mscclppRegisterPlanFile, (const char*, char*), plan, "allreduce_ring");
  OK(mscclppRegisterPlanFile, (const char*, char*), plan, "mine");
  EXPECT_CODE(mscclppDuplicateName, "mine", mscclppRegisterPlanFile, (const char*, char*), plan, "mine");
  OK(mscclppRemovePlan, (const char*), "mine");
  EXPECT_CODE(mscclppInvalidArgument, "mine", mscclppRemovePlan, (const char*), "mine");
  EXPECT_CODE(mscclppInvalidArgument, "launch is null", mscclppRegisterKernels, KERNELS, "mine", "allreduce", 0, 0);
  EXPECT_CODE(mscclppInvalidArgument, "name is null", mscclppRegisterKernels, KERNELS, 0, "allreduce", launch, 0);
  EXPECT_CODE(mscclppInvalidArgument, "name", mscclppRegisterKernels, KERNELS, "a\nb", "allreduce", launch, 0);
  EXPECT_CODE(mscclppInvalidArgument, "expected one of", mscclppRegisterKernels, KERNELS, "mine", "gather", launch, 0);
  EXPECT_CODE(mscclppDuplicateName, "ring", mscclppRegisterKernels, KERNELS, "allreduce_ring", "allreduce", launch, 0);
  OK(mscclppRegisterKernels, KERNELS, "mine", "allreduce", launch, 0);
  EXPECT_CODE(mscclppDuplicateName, "mine", mscclppRegisterKernels, KERNELS, "mine", "allgather", launch, 0);
  EXPECT_CODE(mscclppDuplicateName, "mine", mscclppRegisterPlanFile, (const char*, char*), plan, "mine");
  OK(mscclppRemovePlan, (const char*), "mine");
  EXPECT_CODE(mscclppInvalidArgument, "rank-order", mscclppSetOrder, (const char*), "left");
  EXPECT_CODE(mscclppInvalidArgument, "communicator", mscclppCommSetOrder, (void*, const char*), (void*)1, "any");
  EXPECT_CODE(mscclppInvalidArgument, "num is null", mscclppGetCallCounts, (void*, void*, size_t, void*), 0, 0, 0, 0);
}

static uint64_t launches(const char* name) {
  mscclppCallCount_t counts[64];
  size_t num;
  OK(mscclppGetCallCounts, (void*, mscclppCallCount_t*, size_t, size_t*), comm, counts, 64, &num);
  for (size_t i = 0; i < num; ++i) {
    if (!strcmp(counts[i].name, name)) return counts[i].calls;
  }
  return 0;
}

/// Chooses for each call, also names that do not exist, and others than the other rank.
static void selected(const char* mode) {
  OK(mscclppSetSelector, SELECTOR, choose, &asked);
  start();
  const char* names[] = {"allreduce_packets", 0, "allreduce_ring", "allreduce_packets", "allreduce_all_pairs"};
  for (int i = 0; i < 5; ++i) {
    chosen[0] = names[i];
    uint64_t before = names[i] ? launches(names[i]) : 0;
    if (all_reduce(comm, from)) FAIL("%s", last_error());
    EXPECT(to, kCount, stream, i, input(0, i) + input(1, i));
    if (names[i] && strcmp(served(), names[i])) FAIL("expected %s, found %s", names[i], served());
    if (names[i] && launches(names[i]) != before + 1) FAIL("%s was not launched", names[i]);
  }
  if (asked != 5) FAIL("%d calls", asked);
  if (!strcmp(mode, "unknown")) {
    chosen[0] = "fastest";
    if (!all_reduce(comm, from)) FAIL("accepted");
    if (!strstr(last_error(), "selected `fastest`") || !strstr(last_error(), "`allreduce_ring`")) FAIL("%s", last_error());
    OK(mscclppSetSelector, SELECTOR, 0, 0);
    if (all_reduce(comm, from)) FAIL("%s", last_error());
    EXPECT(to, kCount, stream, i, input(0, i) + input(1, i));
    OK(ncclCommDestroy, (ncclComm_t), comm);
    return;
  }
  int differs = !strcmp(mode, "different");
  chosen[0] = differs ? (rank ? "allreduce_ring" : "allreduce_packets") : rank ? "!not today" : 0;
  // A call may return before the other rank has made it.
  int code = 0;
  for (int i = 0; i < 1000 && !code; ++i) {
    if (!(code = all_reduce(comm, from))) NCCL(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    usleep(10000);
  }
  if (!code) FAIL("accepted");
  all_reduce(comm, from);
  const char* both[] = {differs ? "`allreduce_ring`" : "not today", differs ? "`allreduce_packets`" : "selector", "rank 1"};
  for (int i = 0; i < 3; ++i) {
    if (!strstr(last_error(), both[i])) FAIL("expected `%s` in `%s`", both[i], last_error());
  }
  OK(ncclCommAbort, (ncclComm_t), comm);
}

/// Ranks on two nodes choose others in a call for which both have prepared what they choose.
static void on_nodes(void) {
  setenv("MSCCLPP_HOST_ID", getenv("RANK"), 1);
  OK(mscclppSetSelector, SELECTOR, choose, &asked);
  ranks_per_node = 1;
  start();
  for (int i = 0; i < 2; ++i) {
    chosen[0] = i ? "#1" : "#0";
    if (all_reduce(comm, from)) FAIL("%s", last_error());
    EXPECT(to, kCount, stream, i, input(0, i) + input(1, i));
  }
  chosen[0] = rank ? "#1" : "#0";
  int code = 0;
  for (int i = 0; i < 1000 && !code; ++i) {
    if (!(code = all_reduce(comm, from))) NCCL(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    usleep(10000);
  }
  if (!code) FAIL("accepted");
  all_reduce(comm, from);
  for (int i = 0; i < 2; ++i) {
    if (!strstr(last_error(), known[i])) FAIL("expected `%s` in `%s`", known[i], last_error());
  }
  OK(ncclCommAbort, (ncclComm_t), comm);
}

static float value(int of, size_t i) {
  uint32_t bits = (uint32_t)(of * 7919 + i) * 2654435761u;
  return ldexpf((float)(bits >> 8), (int)(bits % 23) - 30);
}

/// Reduces floats in calls of random sizes, in a communicator or one that was split from it, in the order of ranks.
static void ordered(unsigned seed) {
  start();
  OK(mscclppCommSetOrder, (void*, const char*), comm, "rank-order");
  ncclComm_t part;
  OK(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, void*), comm, 0, rank, &part, 0);
  float own[kCount], found[kCount];
  for (size_t i = 0; i < kCount; ++i) own[i] = value(rank, i);
  for (int round = 0; round < 4; ++round) {
    write_device(from, own, sizeof own, stream);
    for (size_t begin = 0, count; begin < kCount; begin += count) {
      seed = seed * 1103515245 + 12345;
      count = 1 + (seed >> 16) % 600;
      if (count > kCount - begin) count = kCount - begin;
      void* at = (char*)from + 4 * begin;
      OK(ncclAllReduce, REDUCTION, at, at, count, kFloat32, kSum, round % 2 ? part : comm, stream);
    }
    read_device(found, from, sizeof found, stream);
    for (size_t i = 0; i < kCount; ++i) {
      float sum = value(0, i);
      for (int other = 1; other < ranks; ++other) sum += value(other, i);
      if (found[i] != sum) FAIL("round %d, element %zu: expected %a, found %a", round, i, sum, found[i]);
    }
  }
  OK(ncclCommDestroy, (ncclComm_t), part);
  OK(ncclCommDestroy, (ncclComm_t), comm);
}

int main(int argc, char** argv) {
  load();
  const char* mode = argc > 1 ? argv[1] : "";
  if (!strcmp(mode, "refused") && argc == 5) {
    refused(argv[2], argv[3], argv[4]);
  } else if (!strcmp(mode, "ordered") && argc == 3) {
    ordered((unsigned)atoi(argv[2]));
  } else if (!strcmp(mode, "served") && argc == 4) {
    size_t bytes;
    const char *source = argv[2], *path = argv[3];
    if (!strcmp(source, "file")) OK(mscclppRegisterPlanFile, (const char*, char*), path, "mine");
    if (!strcmp(source, "memory")) {
      char* data = read_file(path, &bytes);
      OK(mscclppRegisterPlan, (void*, size_t, char*), data, bytes, "mine");
    }
    if (!strcmp(source, "selector")) {
      chosen[1] = "allreduce_ring";
      OK(mscclppSetSelector, SELECTOR, choose, &asked);
    }
    int is_kernels = !strcmp(source, "kernels");
    if (is_kernels) {
      OK(mscclppRegisterKernels, KERNELS, "mine", "allreduce", launch, &asked);
      OK(mscclppRegisterKernels, KERNELS, "theirs", "broadcast", launch_broadcast, 0);
    }
    ranks = ranks_per_node = atoi(getenv("WORLD_SIZE"));
    start();
    calls();
    if (is_kernels) {
      if (asked != 2) FAIL("kernels served %d calls", asked);
      fill(from, rank, kCount, stream);
      if (rank) {
        OK(ncclRecv, RECV, to, kCount, kInt32, 0, comm, stream);
        EXPECT(to, kCount, stream, i, input(0, i));
      } else {
        OK(ncclSend, SEND, from, kCount, kInt32, 1, comm, stream);
      }
      int code = NCCL(ncclAllReduce, REDUCTION, from, to, 1, kInt32, kSum, comm, stream);
      if (!code || !strstr(last_error(), "`mine`") || !strstr(last_error(), "too short for me")) FAIL("%d: %s", code, last_error());
    }
    OK(ncclCommDestroy, (ncclComm_t), comm);
  } else if (!strcmp(mode, "nodes")) {
    ranks = atoi(getenv("WORLD_SIZE"));
    on_nodes();
  } else {
    ranks = ranks_per_node = atoi(getenv("WORLD_SIZE"));
    selected(mode);
  }
  printf("ok rank %d\n", rank);
  return 0;
}
