// The driver of simulated devices, with which this library is linked, without launches if a program wants that, and the time that the other
// functions take which calls use: the loader finds these functions here and all others there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

static uint64_t spent, made;
static int are_skipped, are_timed;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/// Finds the driver's own function.
#define OWN(name, types)     \
  static int(*own) types;    \
  if (!own) *(void**)&own = dlsym(RTLD_NEXT, #name)

/// Defines a function that takes the time of the driver's own one.
#define TIMED(name, types, ...)            \
  int name types {                         \
    OWN(name, types);                      \
    if (!are_timed) return own(__VA_ARGS__); \
    uint64_t begin = now();                \
    int code = own(__VA_ARGS__);           \
    spent += now() - begin;                \
    return code;                           \
  }

int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, void* stream,
                   void** arguments, void** extra) {
  OWN(cuLaunchKernel, (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**));
  ++made;
  return are_skipped ? 0 : own(function, x, y, z, tx, ty, tz, shared, stream, arguments, extra);
}

TIMED(cuCtxGetCurrent, (void** context), context)
TIMED(cuCtxSetCurrent, (void* context), context)
TIMED(cuEventRecord, (void* event, void* stream), event, stream)
TIMED(cuStreamIsCapturing, (void* stream, int* status), stream, status)
TIMED(cuStreamWaitEvent, (void* stream, void* event, unsigned flags), stream, event, flags)

/// Begins or ends to skip launches, and to take times.
void skip_launches(int skips, int times) { are_skipped = skips, are_timed = times; }

/// Writes the nanoseconds that timed functions have taken, and the number of launches.
void driver_counts(uint64_t* nanoseconds, uint64_t* launches) {
  *nanoseconds = spent;
  *launches = made;
}
