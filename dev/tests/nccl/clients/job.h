// A rank of a job of several processes, which find each other by a file with the unique id.
#pragma once
#include "client.h"

static int rank, ranks;

static inline int own_device(void) { return getenv("ONE_DEVICE") ? 0 : rank; }

/// Returns the job's id: rank 0 creates it.
static inline ncclUniqueId job_id(void) {
  const char* path = getenv("ID_FILE");
  ncclUniqueId id;
  if (rank == 0) {
    OK(ncclGetUniqueId, (ncclUniqueId*), &id);
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE* file = fopen(temporary, "wb");
    if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) || rename(temporary, path)) FAIL("cannot write %s", path);
    return id;
  }
  for (FILE* file;; usleep(1000)) {
    if ((file = fopen(path, "rb"))) {
      if (fread(&id, sizeof id, 1, file) != 1) FAIL("cannot read %s", path);
      fclose(file);
      return id;
    }
  }
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
