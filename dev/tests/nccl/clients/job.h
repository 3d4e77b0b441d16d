// A rank of a job of several processes, which find each other by a file with the unique id.
#pragma once
#include "client.h"

static int rank, ranks;

/// The configuration of a communicator, of which each version of NCCL has more.
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, cga, min, max;
  const char* net;
  int share, traffic;
  const char* name;
  int rest[16];
} config_t;

enum { kConfigSize = 96 };

/// Returns a configuration that states nothing, of a size.
static inline config_t configuration(size_t size) {
  config_t c = {size, 0xcafebeef, 23203, INT_MIN, INT_MIN, INT_MIN, INT_MIN, 0, INT_MIN, INT_MIN, 0, {0}};
  for (int i = 0; i < 16; ++i) c.rest[i] = INT_MIN;
  return c;
}

static inline int own_device(void) { return getenv("ONE_DEVICE") ? 0 : rank; }

/// Writes an id to a file, which other ranks read.
static inline void write_id(const char* path, const ncclUniqueId* id) {
  char temporary[4096];
  snprintf(temporary, sizeof temporary, "%s.new", path);
  FILE* file = fopen(temporary, "wb");
  if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) || rename(temporary, path)) FAIL("cannot write %s", path);
}

/// Returns the id that another rank writes to a file.
static inline ncclUniqueId read_id(const char* path) {
  ncclUniqueId id;
  for (FILE* file;; usleep(1000)) {
    if ((file = fopen(path, "rb"))) {
      if (fread(&id, sizeof id, 1, file) != 1) FAIL("cannot read %s", path);
      fclose(file);
      return id;
    }
  }
}

/// Returns the job's id: rank 0 creates it.
static inline ncclUniqueId job_id(void) {
  const char* path = getenv("ID_FILE");
  if (rank) return read_id(path);
  ncclUniqueId id;
  OK(ncclGetUniqueId, (ncclUniqueId*), &id);
  write_id(path, &id);
  return id;
}

/// Joins the job as the rank that the environment states.
static inline ncclComm_t join(void) {
  rank = atoi(getenv("RANK"));
  ranks = atoi(getenv("WORLD_SIZE"));
  load();
  use_device(own_device());
  ncclComm_t comm;
  OK(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int), &comm, ranks, job_id(), rank);
  return comm;
}
