// Ranks find each other by ids of processes that have other ranks than 0, or none.
#include "job.h"

static void name(char* path, const char* what) { snprintf(path, 4096, "%s.%s", getenv("ID_FILE"), what); }

/// Passes an id to the other processes.
static void publish(const char* what, const ncclUniqueId* id) {
  char path[4096], temporary[4096 + 8];
  name(path, what);
  snprintf(temporary, sizeof temporary, "%s.new", path);
  FILE* file = fopen(temporary, "wb");
  if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) || rename(temporary, path)) FAIL("cannot write %s", path);
}

static ncclUniqueId published(const char* what) {
  char path[4096];
  name(path, what);
  for (FILE* file;; usleep(1000)) {
    if ((file = fopen(path, "rb"))) {
      ncclUniqueId id;
      if (fread(&id, sizeof id, 1, file) != 1) FAIL("cannot read %s", path);
      fclose(file);
      return id;
    }
  }
}

static ncclUniqueId made(const char* what) {
  ncclUniqueId id;
  OK(ncclGetUniqueId, (ncclUniqueId*), &id);
  publish(what, &id);
  return id;
}

static void check(ncclComm_t comm) {
  stream_t stream = new_stream();
  int32_t* memory = device_memory(4000);
  int32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, 0);
  fill(memory, rank, 1000, stream);
  OK(ncclAllReduce, REDUCTION, memory, memory, 1000, kInt32, kSum, comm, stream);
  EXPECT(memory, 1000, stream, i, sum + ranks * (int32_t)(i % 97));
  OK(ncclCommDestroy, (ncclComm_t), comm);
}

int main(void) {
  rank = atoi(getenv("RANK"));
  // The last process has no rank.
  ranks = atoi(getenv("WORLD_SIZE")) - 1;
  load();
  if (rank == ranks) {
    made("of_no_rank");
    made("first");
    published("done");
    printf("ok rank %d\n", rank);
    return 0;
  }
  use_device(rank);
  ncclComm_t comm;
  OK(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int), &comm, ranks, published("of_no_rank"), rank);
  check(comm);

  ncclUniqueId id = rank == 1 ? made("of_rank_1") : published("of_rank_1");
  OK(ncclCommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, void*), &comm, ranks, id, rank, 0);
  check(comm);
  // Its communicator has been created.
  if (rank == 1 && NCCL(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int), &comm, ranks, id, rank) != 5) FAIL("an id for two");

  // Of several ids any process may have made each.
  ncclUniqueId ids[2];
  ids[1] = rank == 0 ? made("second") : published("second");
  ids[0] = published("first");
  OK(ncclCommInitRankScalable, (ncclComm_t*, int, int, int, ncclUniqueId*, void*), &comm, ranks, rank, 2, ids, 0);
  check(comm);
  if (rank == 0) publish("done", ids);
  printf("ok rank %d\n", rank);
  return 0;
}
