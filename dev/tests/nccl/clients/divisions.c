// Divisions of communicators: random ones, and one that another thread of a rank aborts.
//
// `random SEED THREADS`: all ranks make the divisions that the seed determines, in one order, and compare each communicator with a model:
// its ranks, and the sum of an all-reduce. Unless THREADS is 0, the ranks are that number of threads of this process.
// `abort FORM`: rank 1 aborts while it divides: in a `single` call, in a `group`, or in one that it `polls`.
#include <pthread.h>

#include "job.h"

enum { kMaxRanks = 8, kMaxComms = 256, kSteps = 12, kMaxOfGroup = 3, kCount = 64, kInProgress = 7, kNoColor = -1 };

static const char* last_error(ncclComm_t of) { return ((const char* (*)(ncclComm_t))find(nccl_library, "ncclGetLastError"))(of); }

/// Checks the code of a call that may continue after it has returned.
static void begun(const char* what, int code) {
  if (code && code != kInProgress) FAIL("%s: code %d: %s", what, code, last_error(0));
}

/// Returns the code of a communicator when it is no longer in progress.
static int settled(ncclComm_t of) {
  int code;
  do OK(ncclCommGetAsyncError, (ncclComm_t, int*), of, &code);
  while (code == kInProgress && !usleep(100));
  return code;
}

/// A communicator of the model: the numbers of its ranks in the job, by rank.
typedef struct {
  int members[kMaxRanks], size, is_checked, is_destroyed;
  ncclComm_t comm;
} part_t;

/// A rank: a process or a thread.
typedef struct {
  int rank, ranks, num_parts, num_files;
  uint64_t seed, shared, own;
  part_t parts[kMaxComms];
  stream_t stream;
  int32_t* memory;
} rank_t;

/// Returns a number below a limit.
static int below(uint64_t* state, int limit) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return (int)((*state >> 16) % limit);
}

static int position(const part_t* part, int rank) {
  for (int at = 0; at < part->size; ++at)
    if (part->members[at] == rank) return at;
  return -1;
}

/// Returns the path of a file, by which ranks reach each other without a communicator.
static const char* file(int number, int of) {
  static _Thread_local char path[4000];
  snprintf(path, sizeof path, "%s.%d.%d", getenv("ID_FILE"), number, of);
  return path;
}

/// Waits for all ranks of a communicator without a call of it.
static void meet(rank_t* self, const part_t* part) {
  ncclUniqueId none = {0};
  int number = self->num_files++;
  if (position(part, self->rank) < 0) return;
  write_id(file(number, self->rank), &none);
  for (int at = 0; at < part->size; ++at) read_id(file(number, part->members[at]));
}

static void all_reduce(rank_t* self, part_t* part) {
  fill(self->memory, self->rank, kCount, self->stream);
  begun("all-reduce", NCCL(ncclAllReduce, REDUCTION, self->memory, self->memory, kCount, kInt32, kSum, part->comm, self->stream));
}

static void expect_sum(rank_t* self, part_t* part) {
  int code = settled(part->comm);
  if (code) FAIL("all-reduce: code %d: %s", code, last_error(part->comm));
  int32_t sum = 0;
  for (int at = 0; at < part->size; ++at) sum += 1000 * (part->members[at] + 1);
  EXPECT(self->memory, kCount, self->stream, i, sum + part->size * (int32_t)(i % 97));
}

/// Compares a communicator with the model.
static void check(rank_t* self, part_t* part) {
  int own = position(part, self->rank), found;
  if (part->is_checked++ || own < 0) return;
  int code = settled(part->comm);
  if (code) FAIL("rank %d: creation: code %d: %s", self->rank, code, last_error(part->comm));
  OK(ncclCommUserRank, (ncclComm_t, int*), part->comm, &found);
  if (found != own) FAIL("rank %d: expected rank %d, found %d", self->rank, own, found);
  OK(ncclCommCount, (ncclComm_t, int*), part->comm, &found);
  if (found != part->size) FAIL("rank %d: expected %d ranks, found %d", self->rank, part->size, found);
  all_reduce(self, part);
  expect_sum(self, part);
}

/// Adds a communicator to the model.
static part_t* add(rank_t* self) {
  if (self->num_parts == kMaxComms) FAIL("more than %d communicators", kMaxComms);
  part_t* part = &self->parts[self->num_parts++];
  *part = (part_t){0};
  return part;
}

/// Divides a communicator: by random colors and keys, or to a duplicate.
static void split(rank_t* self, part_t* of, const config_t* config) {
  int colors[kMaxRanks], keys[kMaxRanks], duplicates = below(&self->shared, 4) == 0, own = position(of, self->rank);
  for (int at = 0; at < of->size; ++at) {
    colors[at] = duplicates ? 5 : below(&self->shared, 3) - 1;
    keys[at] = duplicates ? at : below(&self->shared, 5) - 2;
  }
  ncclComm_t* out = 0;
  for (int color = 0; color < 6; ++color) {
    part_t part = {0};
    // Ranks of equal keys keep their order.
    for (int key = -2; key < kMaxRanks; ++key)
      for (int at = 0; at < of->size; ++at)
        if (colors[at] == color && keys[at] == key) part.members[part.size++] = of->members[at];
    if (!part.size) continue;
    part_t* added = add(self);
    *added = part;
    if (own >= 0 && colors[own] == color) out = &added->comm;
  }
  if (own < 0) return;
  ncclComm_t none = (ncclComm_t)1, *at = out ? out : &none;
  begun("split", NCCL(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, const config_t*), of->comm, colors[own], keys[own], at, config));
  if (colors[own] == kNoColor && none) FAIL("a communicator without color");
}

/// Excludes random ranks, which take no part.
static void shrink(rank_t* self, part_t* of, const config_t* config) {
  int excluded[kMaxRanks], count = 0, own = position(of, self->rank);
  int kept = below(&self->shared, of->size), first = (kept + 1 + below(&self->shared, of->size - 1)) % of->size;
  part_t* part = add(self);
  for (int at = 0; at < of->size; ++at) {
    if (at != kept && (at == first || below(&self->shared, 2))) excluded[count++] = at;
    else part->members[part->size++] = of->members[at];
  }
  if (own < 0 || position(part, self->rank) < 0) return;
  begun("shrink", NCCL(ncclCommShrink, (ncclComm_t, int*, int, ncclComm_t*, const config_t*, int), of->comm, excluded, count, &part->comm, config, 0));
}

/// Adds random ranks of the job that the communicator does not have.
static void grow(rank_t* self, part_t* of, const config_t* config) {
  part_t* part = add(self);
  memcpy(part->members, of->members, sizeof part->members);
  part->size = of->size;
  int first;
  do first = below(&self->shared, self->ranks);
  while (position(of, first) >= 0);
  for (int rank = 0; rank < self->ranks; ++rank)
    if (position(of, rank) < 0 && (rank == first || below(&self->shared, 2))) part->members[part->size++] = rank;
  int own = position(part, self->rank), is_new = own >= of->size;
  const char* path = file(self->num_files++, 0);
  if (own < 0) return;
  ncclUniqueId id;
  if (own == 0) {
    OK(ncclCommGetUniqueId, (ncclComm_t, ncclUniqueId*), of->comm, &id);
    write_id(path, &id);
  }
  if (is_new) id = read_id(path);
  begun("grow", NCCL(ncclCommGrow, (ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, const config_t*), is_new ? 0 : of->comm,
                     part->size, is_new ? &id : 0, is_new ? own : -1, &part->comm, config));
}

static void destroy(rank_t* self, part_t* part, int finalizes) {
  part->is_destroyed = 1;
  if (position(part, self->rank) < 0) return;
  if (finalizes) {
    begun("finalize", NCCL(ncclCommFinalize, (ncclComm_t), part->comm));
    int code = settled(part->comm);
    if (code) FAIL("finalize: code %d: %s", code, last_error(part->comm));
  }
  OK(ncclCommDestroy, (ncclComm_t), part->comm);
}

/// Returns a communicator that exists.
static part_t* any(rank_t* self) {
  for (;;) {
    part_t* part = &self->parts[below(&self->shared, self->num_parts)];
    if (part->is_destroyed) continue;
    check(self, part);
    return part;
  }
}

/// Divides a communicator in one of the ways that it allows.
static void divide(rank_t* self, part_t* of, int is_alone) {
  config_t config = configuration(kConfigSize);
  config.blocking = below(&self->shared, 2);
  // Without a configuration it is that of the communicator.
  const config_t* given = below(&self->shared, 4) ? &config : 0;
  int way = below(&self->shared, 4);
  if (way == 0 && of->size > 1 && is_alone) shrink(self, of, given);
  else if (way == 1 && of->size < self->ranks && is_alone) grow(self, of, given);
  else split(self, of, given);
}

static void step(rank_t* self) {
  int first = self->num_parts, count = 1;
  if (below(&self->shared, 3)) {
    part_t* of = any(self);
    divide(self, of, 1);
    // A rank that does not poll must not be overtaken by its own calls.
    if (position(of, self->rank) >= 0 && below(&self->own, 2) && settled(of->comm)) FAIL("divided: %s", last_error(of->comm));
  } else {
    part_t* of[kMaxOfGroup];
    count = 1 + below(&self->shared, kMaxOfGroup);
    for (int k = 0; k < count; ++k) of[k] = any(self);
    int reduces = below(&self->shared, 2);
    OK(ncclGroupStart, (void), );
    if (reduces && position(of[0], self->rank) >= 0) all_reduce(self, of[0]);
    for (int k = 0; k < count; ++k) divide(self, of[k], count == 1 && !reduces);
    begun("end of a group", NCCL(ncclGroupEnd, (void), ));
    if (reduces && position(of[0], self->rank) >= 0) expect_sum(self, of[0]);
  }
  int checks = below(&self->shared, 2), ends = below(&self->shared, 4) == 0;
  for (int k = first; checks && k < self->num_parts; ++k) check(self, &self->parts[k]);
  if (ends) {
    part_t* part = any(self);
    if (part != self->parts) destroy(self, part, below(&self->own, 2));
  }
}

static void* divide_at_random(void* argument) {
  rank_t* self = argument;
  use_device(getenv("ONE_DEVICE") ? 0 : self->rank);
  self->stream = new_stream();
  self->memory = device_memory(4 * kCount);
  self->shared = self->seed * 0x9E3779B97F4A7C15ull | 1;
  self->own = self->shared ^ (uint64_t)(self->rank + 1) << 32;
  part_t* all = add(self);
  for (all->size = 0; all->size < self->ranks; ++all->size) all->members[all->size] = all->size;
  ncclUniqueId id;
  if (self->rank == 0) {
    OK(ncclGetUniqueId, (ncclUniqueId*), &id);
    write_id(getenv("ID_FILE"), &id);
  } else {
    id = read_id(getenv("ID_FILE"));
  }
  OK(ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int), &all->comm, self->ranks, id, self->rank);
  for (int k = 0; k < kSteps; ++k) step(self);
  for (int k = 0; k < self->num_parts; ++k)
    if (!self->parts[k].is_destroyed) check(self, &self->parts[k]);
  // Each rank destroys in an order of its own. Processes through which others reach each other end last.
  part_t whole = *all;
  for (int left = self->num_parts; left; --left) {
    int chosen = below(&self->own, left);
    part_t last = self->parts[left - 1];
    if (!self->parts[chosen].is_destroyed) destroy(self, &self->parts[chosen], below(&self->own, 2));
    self->parts[chosen] = last;
  }
  meet(self, &whole);
  return 0;
}

static void random_divisions(uint64_t seed, int num_threads) {
  rank = atoi(getenv("RANK"));
  ranks = num_threads ? num_threads : atoi(getenv("WORLD_SIZE"));
  load();
  pthread_t threads[kMaxRanks];
  for (int k = 0; k < (num_threads ? num_threads : 1); ++k) {
    rank_t* self = calloc(1, sizeof *self);
    self->rank = num_threads ? k : rank, self->ranks = ranks, self->seed = seed;
    if (pthread_create(&threads[k], 0, divide_at_random, self)) FAIL("no thread");
  }
  for (int k = 0; k < (num_threads ? num_threads : 1); ++k) pthread_join(threads[k], 0);
}

static ncclComm_t comm;
static const char* form;
static int is_begun, is_ended;

static void report(int code, const char* text) { printf("rank %d: code %d: %s\n", rank, code, text), fflush(stdout); }

/// Divides the communicator with ranks that never call.
static void* divide_until_aborted(void* unused) {
  (void)unused;
  use_device(own_device());
  ncclComm_t part = 0;
  int is_group = !strcmp(form, "group");
  config_t config = configuration(kConfigSize);
  config.blocking = strcmp(form, "polls") != 0;
  if (is_group) OK(ncclGroupStart, (void), );
  __atomic_store_n(&is_begun, 1, __ATOMIC_SEQ_CST);
  int code = NCCL(ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, config_t*), comm, 0, rank, &part, &config);
  if (is_group) code = NCCL(ncclGroupEnd, (void), );
  const char* text = last_error(0);
  if (code == kInProgress) code = settled(part), text = last_error(part);
  if (!code) FAIL("rank %d: it was divided", rank);
  report(code, text);
  if (part) OK(ncclCommAbort, (ncclComm_t), part);
  __atomic_store_n(&is_ended, 1, __ATOMIC_SEQ_CST);
  return 0;
}

/// Rank 0 does not divide; rank 1 aborts when its other thread does, and rank 2 waits in its division.
static void aborted_division(void) {
  comm = join();
  pthread_t thread;
  if (rank) {
    if (pthread_create(&thread, 0, divide_until_aborted, 0)) FAIL("no thread");
    while (!__atomic_load_n(&is_begun, __ATOMIC_SEQ_CST)) usleep(100);
  }
  if (rank == 1) {
    usleep(300 * 1000);
    if (strcmp(form, "polls") && __atomic_load_n(&is_ended, __ATOMIC_SEQ_CST)) FAIL("the division ended before the abort");
    OK(ncclCommAbort, (ncclComm_t), comm);
  }
  if (rank) pthread_join(thread, 0);
  if (rank == 0) {
    int code;
    do OK(ncclCommGetAsyncError, (ncclComm_t, int*), comm, &code);
    while (!code && !usleep(1000));
    report(code, last_error(comm));
  }
  if (rank != 1) OK(ncclCommAbort, (ncclComm_t), comm);
}

int main(int argc, char** argv) {
  if (argc == 4 && !strcmp(argv[1], "random")) random_divisions(strtoull(argv[2], 0, 10), atoi(argv[3]));
  else if (argc == 3 && !strcmp(argv[1], "abort")) form = argv[2], aborted_division();
  else FAIL("expected random SEED THREADS, or abort FORM");
  printf("ok rank %d\n", rank);
  return 0;
}
