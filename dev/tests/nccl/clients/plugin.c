// A profiler plugin that writes each call as a line to the file `PLUGIN_LOG`, with the process. The structs are those of NCCL's documentation
// of the interface `VERSION`, 6 or 7. Handles are numbers that are used once, so that pairs and parents can be checked. Options:
// `BARE` omits the functions that plugins need not have, `BROKEN` one that they need, `FAILS` lets all of them return an error.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION 7
#endif
#if VERSION >= 7
#define SINCE_7(field) field
#else
#define SINCE_7(field)
#endif

typedef void (*logger_t)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct descriptor {
  uint64_t type;
  void* parent;
  int rank;
  union {
    struct { bool captured; int depth; } group_api;
    struct { const char* func; size_t count; const char* datatype; int root; void* stream; bool captured; SINCE_7(uint64_t tag;) } coll_api;
    struct { const char* func; size_t count; const char* datatype; void* stream; bool captured; SINCE_7(uint64_t tag;) } p2p_api;
    struct { void* stream; } launch;
    struct {
      uint64_t sequence;
      const char* func;
      const void* send;
      void* recv;
      size_t count;
      int root;
      const char* datatype;
      uint8_t channels, warps;
      const char *algo, *proto;
      void* group;
      SINCE_7(const char* variant; bool symmetric; uint64_t tag;)
    } coll;
    struct {
      const char* func;
      void* buffer;
      const char* datatype;
      size_t count;
      int peer;
      uint8_t channels;
      void* group;
      SINCE_7(uint64_t tag;)
    } p2p;
  };
};

enum { kGroup = 1, kColl = 2, kP2p = 4, kGroupApi = 256, kCollApi = 512, kP2pApi = 1024, kLaunch = 2048 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t last = 0x1000;

static int note(const char* format, ...) {
  char line[1024];
  int len = snprintf(line, sizeof line, "thread %ld ", (long)syscall(SYS_gettid));
  va_list arguments;
  va_start(arguments, format);
  len += vsnprintf(line + len, sizeof line - len, format, arguments);
  va_end(arguments);
  line[len++] = '\n';
  char path[4096];
  snprintf(path, sizeof path, "%s.%d", getenv("PLUGIN_LOG"), getpid());
  FILE* file = fopen(path, "a");
  if (file) {
    fwrite(line, 1, len, file);
    fclose(file);
  }
#ifdef FAILS
  return 3;
#else
  return 0;
#endif
}

static void* next(void) { return (void*)(last += 0x10); }

static int init(void** context, uint64_t communicator, int* mask, const char* name, int nodes, int ranks, int rank, logger_t logger) {
  pthread_mutex_lock(&mutex);
  const char* wanted = getenv("NCCL_PROFILE_EVENT_MASK");
  __atomic_store_n(mask, wanted ? atoi(wanted) : 0, __ATOMIC_RELAXED);
  *context = next();
  logger(3, 0x4000, __FILE__, __LINE__, "plugin %s of %d: %.2f %.1f %s %d %d %d %c %lu\n", "inits", rank, 0.25, 1.5, "text", 1, 2, 3, 'x', 1ul << 40);
  int code = note("init context %p communicator %llx name %s nodes %d ranks %d rank %d", *context, (unsigned long long)communicator,
                  name ? name : "-", nodes, ranks, rank);
  pthread_mutex_unlock(&mutex);
  return code;
}

__attribute__((unused)) static int start(void* context, void** event, struct descriptor* d) {
  pthread_mutex_lock(&mutex);
  struct descriptor whole = *d;
  d = &whole;
  *event = next();
  char head[256], rest[700] = "";
  snprintf(head, sizeof head, "start %p context %p parent %p rank %d", *event, context, d->parent, d->rank);
  switch (d->type) {
  case kGroupApi: snprintf(rest, sizeof rest, "GroupApi captured %d depth %d", d->group_api.captured, d->group_api.depth); break;
  case kCollApi:
    snprintf(rest, sizeof rest, "CollApi %s count %zu %s root %d stream %p captured %d", d->coll_api.func, d->coll_api.count, d->coll_api.datatype,
             d->coll_api.root, d->coll_api.stream, d->coll_api.captured);
    SINCE_7(snprintf(rest + strlen(rest), 64, " tag %llx", (unsigned long long)d->coll_api.tag);)
    break;
  case kP2pApi:
    snprintf(rest, sizeof rest, "P2pApi %s count %zu %s stream %p captured %d", d->p2p_api.func, d->p2p_api.count, d->p2p_api.datatype,
             d->p2p_api.stream, d->p2p_api.captured);
    SINCE_7(snprintf(rest + strlen(rest), 64, " tag %llx", (unsigned long long)d->p2p_api.tag);)
    break;
  case kLaunch: snprintf(rest, sizeof rest, "KernelLaunch stream %p", d->launch.stream); break;
  case kGroup: snprintf(rest, sizeof rest, "Group"); break;
  case kColl:
    snprintf(rest, sizeof rest, "Coll %s sequence %llu send %p recv %p count %zu root %d %s algo %s proto %s group %p", d->coll.func,
             (unsigned long long)d->coll.sequence, d->coll.send, d->coll.recv, d->coll.count, d->coll.root, d->coll.datatype, d->coll.algo,
             d->coll.proto, d->coll.group);
    SINCE_7(snprintf(rest + strlen(rest), 99, " variant '%s' symmetric %d tag %llx", d->coll.variant, d->coll.symmetric, (unsigned long long)d->coll.tag);)
    break;
  case kP2p:
    snprintf(rest, sizeof rest, "P2p %s buffer %p %s count %zu peer %d group %p", d->p2p.func, d->p2p.buffer, d->p2p.datatype, d->p2p.count,
             d->p2p.peer, d->p2p.group);
    SINCE_7(snprintf(rest + strlen(rest), 64, " tag %llx", (unsigned long long)d->p2p.tag);)
    break;
  default: snprintf(rest, sizeof rest, "type %llu", (unsigned long long)d->type);
  }
  int code = note("%s %s", head, rest);
  pthread_mutex_unlock(&mutex);
  return code;
}

static int stop(void* event) {
  pthread_mutex_lock(&mutex);
  int code = note("stop %p", event);
  pthread_mutex_unlock(&mutex);
  return code;
}

#ifndef BARE
static int record(void* event, int state, void* arguments) {
  pthread_mutex_lock(&mutex);
  int code = note("record %p state %d arguments %d", event, state, arguments != 0);
  pthread_mutex_unlock(&mutex);
  return code;
}

static int finalize(void* context) {
  pthread_mutex_lock(&mutex);
  int code = note("finalize context %p", context);
  pthread_mutex_unlock(&mutex);
  return code;
}
#endif

/// Returns success once, so that events follow although all other functions fail.
static int init_well(void** context, uint64_t communicator, int* mask, const char* name, int nodes, int ranks, int rank, logger_t logger) {
  int code = init(context, communicator, mask, name, nodes, ranks, rank, logger);
  return getenv("PLUGIN_INIT_FAILS") ? code + 2 : 0;
}

struct table {
  const char* name;
  int (*init)(void**, uint64_t, int*, const char*, int, int, int, logger_t);
  int (*start)(void*, void**, struct descriptor*);
  int (*stop)(void*);
  int (*record)(void*, int, void*);
  int (*finalize)(void*);
};

#define NAME_OF(version) ncclProfiler_v##version
#define NAME(version) NAME_OF(version)
const struct table NAME(VERSION) = {
#ifndef BARE
  .name = "recorder", .record = record, .finalize = finalize,
#endif
#ifndef BROKEN
  .start = start,
#endif
  .init = init_well, .stop = stop,
};
