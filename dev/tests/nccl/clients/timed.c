// The driver of simulated devices, with which this library is linked, and the time that its launches take: the loader finds `cuLaunchKernel` here
// and all other functions there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

static uint64_t spent, made;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, void* stream,
                   void** arguments, void** extra) {
  static int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  if (!launch) *(void**)&launch = dlsym(RTLD_NEXT, "cuLaunchKernel");
  uint64_t begin = now();
  int code = launch(function, x, y, z, tx, ty, tz, shared, stream, arguments, extra);
  spent += now() - begin;
  ++made;
  return code;
}

/// Writes the nanoseconds that all launches have taken, and their number.
void launches(uint64_t* nanoseconds, uint64_t* number) {
  *nanoseconds = spent;
  *number = made;
}
