// A rank of a job of several processes, which find each other by a file with the unique id.
#pragma once
#include "client.h"

static int rank, ranks;

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
