// A library in the place of a real NCCL: it writes each call as a line to the file `STANDIN_LOG` with the rank, and its collectives copy the input to
// the output on the caller's stream. `STANDIN_FAIL` names a function that returns an error. Compiled with `OLD` it is a version
// that lacks newer functions.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char internal[128]; } ncclUniqueId;
typedef void* ncclComm_t;
typedef void* stream_t;

struct comm { int number, rank, ranks; };
static int num_comms;

/// Writes a line, and returns the code of a function.
static int note(const char* name, const char* format, ...) {
  char line[512];
  int len = snprintf(line, sizeof line, "%s", name);
  va_list arguments;
  va_start(arguments, format);
  len += vsnprintf(line + len, sizeof line - len, format, arguments);
  va_end(arguments);
  line[len++] = '\n';
  char path[4096];
  snprintf(path, sizeof path, "%s.%s", getenv("STANDIN_LOG"), getenv("RANK"));
  FILE* file = fopen(path, "a");
  if (file) {
    fwrite(line, 1, len, file);
    fclose(file);
  }
  const char* fails = getenv("STANDIN_FAIL");
  return fails && !strcmp(fails, name) ? 6 : 0;
}

static int number(ncclComm_t comm) { return ((struct comm*)comm)->number; }

static size_t size_of(int type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}

static int copy(void* to, const void* from, size_t bytes, stream_t stream) {
  if (to == from || !to || !from) return 0;
  int (*function)(uintptr_t, uintptr_t, size_t, stream_t);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  *(void**)&function = driver ? dlsym(driver, "cuMemcpyAsync") : 0;
  return function && !function((uintptr_t)to, (uintptr_t)from, bytes, stream) ? 0 : 1;
}

/// Writes a call of `count` elements, and copies `bytes`.
static int call(const char* name, ncclComm_t comm, size_t count, int extra, void* to, const void* from, size_t bytes,
                stream_t stream) {
  int code = note(name, " comm %d count %zu with %d", number(comm), count, extra);
  return code ? code : copy(to, from, bytes, stream);
}

int ncclGetVersion(int* version) {
  const char* set = getenv("STANDIN_VERSION");
  *version = set ? atoi(set) : 22105;
  return 0;
}
const char* ncclGetErrorString(int code) { return code == 6 ? "a stand-in's error" : "no error"; }
const char* ncclGetLastError(ncclComm_t comm) { return comm ? "last words of a communicator" : "last words"; }
int ncclGetUniqueId(ncclUniqueId* id) {
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "id of %d", (int)getpid());
  return note("ncclGetUniqueId", "");
}
int ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (strncmp(id.internal, "id of ", 6)) return 4;
  int code = note("ncclCommInitRank", " rank %d of %d", rank, ranks);
  const char* fails = getenv("STANDIN_FAIL_RANK");
  if (fails && atoi(fails) == rank) code = 6;
  if (code) return code;
  struct comm* created = malloc(sizeof *created);
  *created = (struct comm){__sync_add_and_fetch(&num_comms, 1), rank, ranks};
  *comm = created;
  return 0;
}
int ncclCommFinalize(ncclComm_t comm) { return note("ncclCommFinalize", " comm %d", number(comm)); }
int ncclCommDestroy(ncclComm_t comm) {
  int code = note("ncclCommDestroy", " comm %d", number(comm));
  free(comm);
  return code;
}
int ncclCommAbort(ncclComm_t comm) {
  int code = note("ncclCommAbort", " comm %d", number(comm));
  free(comm);
  return code;
}
int ncclCommGetAsyncError(ncclComm_t comm, int* error) {
  (void)comm;
  const char* fails = getenv("STANDIN_FAIL");
  *error = fails && !strcmp(fails, "asynchronously") ? 6 : 0;
  return 0;
}
int ncclGroupStart(void) { return note("ncclGroupStart", ""); }
int ncclGroupEnd(void) { return note("ncclGroupEnd", ""); }
int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, ncclComm_t comm) {
  *op = 77;
  return note("ncclRedOpCreatePreMulSum", " comm %d type %d scalar %d", number(comm), type, residence ? *(int*)scalar : -1);
}
int ncclRedOpDestroy(int op, ncclComm_t comm) { return note("ncclRedOpDestroy", " comm %d op %d", number(comm), op); }

int ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, ncclComm_t comm, stream_t stream) {
  return call("ncclAllReduce", comm, count, op, recv, send, count * size_of(type), stream);
}
int ncclReduceScatter(const void* send, void* recv, size_t count, int type, int op, ncclComm_t comm, stream_t stream) {
  return call("ncclReduceScatter", comm, count, op, recv, send, count * size_of(type), stream);
}
int ncclReduce(const void* send, void* recv, size_t count, int type, int op, int root, ncclComm_t comm, stream_t stream) {
  (void)op;
  return call("ncclReduce", comm, count, root, recv, send, count * size_of(type), stream);
}
int ncclBroadcast(const void* send, void* recv, size_t count, int type, int root, ncclComm_t comm, stream_t stream) {
  return call("ncclBroadcast", comm, count, root, recv, send, count * size_of(type), stream);
}
int ncclAllGather(const void* send, void* recv, size_t count, int type, ncclComm_t comm, stream_t stream) {
  return call("ncclAllGather", comm, count, 0, recv, send, count * size_of(type), stream);
}
int ncclSend(const void* send, size_t count, int type, int peer, ncclComm_t comm, stream_t stream) {
  (void)send, (void)type;
  return call("ncclSend", comm, count, peer, 0, 0, 0, stream);
}
int ncclRecv(void* recv, size_t count, int type, int peer, ncclComm_t comm, stream_t stream) {
  (void)recv, (void)type;
  return call("ncclRecv", comm, count, peer, 0, 0, 0, stream);
}

#ifndef OLD
int ncclAlltoAll(const void* send, void* recv, size_t count, int type, ncclComm_t comm, stream_t stream) {
  return call("ncclAlltoAll", comm, count, 0, recv, send, count * size_of(type), stream);
}
int ncclGather(const void* send, void* recv, size_t count, int type, int root, ncclComm_t comm, stream_t stream) {
  return call("ncclGather", comm, count, root, recv, send, count * size_of(type), stream);
}
int ncclScatter(const void* send, void* recv, size_t count, int type, int root, ncclComm_t comm, stream_t stream) {
  return call("ncclScatter", comm, count, root, recv, send, count * size_of(type), stream);
}
int ncclCommRegister(ncclComm_t comm, void* at, size_t bytes, void** handle) {
  *handle = at;
  return note("ncclCommRegister", " comm %d bytes %zu", number(comm), bytes);
}
int ncclCommDeregister(ncclComm_t comm, void* handle) {
  return note("ncclCommDeregister", " comm %d %s", number(comm), handle ? "" : "null");
}
int ncclCommWindowRegister(ncclComm_t comm, void* at, size_t bytes, void** window, int flags) {
  *window = (char*)at + 1;
  return note("ncclCommWindowRegister", " comm %d bytes %zu flags %d", number(comm), bytes, flags);
}
int ncclCommWindowDeregister(ncclComm_t comm, void* window) {
  return note("ncclCommWindowDeregister", " comm %d odd %d", number(comm), (int)((uintptr_t)window & 1));
}
int ncclPutSignal(const void* local, size_t count, int type, int peer, void* window, size_t offset, int signal, int context,
                  unsigned flags, ncclComm_t comm, stream_t stream) {
  (void)local, (void)type, (void)stream;
  return note("ncclPutSignal", " comm %d count %zu peer %d odd %d offset %zu signal %d context %d flags %u", number(comm), count,
              peer, (int)((uintptr_t)window & 1), offset, signal, context, flags);
}
int ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm, stream_t stream) {
  (void)stream;
  return note("ncclSignal", " comm %d peer %d signal %d context %d flags %u", number(comm), peer, signal, context, flags);
}
int ncclWaitSignal(int count, int (*signals)[4], ncclComm_t comm, stream_t stream) {
  (void)stream;
  return note("ncclWaitSignal", " comm %d descriptions %d last %d %d %d %d", number(comm), count, signals[count - 1][0],
              signals[count - 1][1], signals[count - 1][2], signals[count - 1][3]);
}
int ncclSetEncryption(const void* config) { return note("ncclSetEncryption", " %s", config ? "config" : "null"); }
#endif
