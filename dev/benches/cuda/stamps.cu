// The interpreter's kernels of one data type and accumulator, with three stamps of the clock in each launch: when its first thread
// block starts, when a thread block first stores data or packets, and when its last thread block has finished.
//
// The headers are used as they are: what stores vectors and packets is wrapped here, after its definition and before the interpreter
// is included. So the kernels that were built beforehand know nothing of this.
#ifndef MSCCLPP_T
#define MSCCLPP_T float
#endif
#ifndef MSCCLPP_A
#define MSCCLPP_A MSCCLPP_T
#endif

#include "packet.h"
#include "sync.h"
#include "instr_cache.h"

/// Launches whose stamps are kept; a later one takes the place of the one that many launches before it.
#define STAMPED_LAUNCHES 64

#ifdef DEV_SIM
#define DEV_VARIABLE static
DEV void stamp_min(uint64_t* at, uint64_t now) { *at = now < *at ? now : *at; }
DEV void stamp_max(uint64_t* at, uint64_t now) { *at = now > *at ? now : *at; }
#else
#define DEV_VARIABLE __device__
DEV void stamp_min(uint64_t* at, uint64_t now) {
  asm volatile("red.relaxed.gpu.global.min.u64 [%0], %1;" ::"l"(at), "l"(now) : "memory");
}
DEV void stamp_max(uint64_t* at, uint64_t now) {
  asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(at), "l"(now) : "memory");
}
#endif

/// Start, first store and finish of each of the launches that are kept.
DEV_VARIABLE uint64_t* the_stamps;

DEV uint64_t* stamps_of(uint64_t sequence) { return the_stamps + 3 * (sequence % STAMPED_LAUNCHES); }

/// Whether the block has stored anything in this launch. Any thread that does not see it yet stamps too, to no effect.
DEV SHARED_FLAG& has_stored() {
  SHARED(SHARED_FLAG, stored, 1);
  return stored[0];
}

DEV void note_store() {
  if (has_stored() != 0) return;
  has_stored() = 1;
  stamp_min(stamps_of(mscclpp::cache().sequence) + 1, dev_now());
}

#define store16(...) (note_store(), store16(__VA_ARGS__))
#define store_any(...) (note_store(), store_any(__VA_ARGS__))
#define store_part(...) (note_store(), store_part(__VA_ARGS__))
#define store_packet(...) (note_store(), store_packet(__VA_ARGS__))

#include "divide.h"
#include "executor.h"

constexpr uint32_t kThreads = sizeof(MSCCLPP_A) > sizeof(MSCCLPP_T) ? mscclpp::kMaxThreadsWide : mscclpp::kMaxThreads;

KERNEL(kThreads) mscclpp_execute(KERNEL_PARAM mscclpp::LaunchParams launch) {
  const uint64_t* launches = reinterpret_cast<const uint64_t*>(launch.launches) + launch.first_block + dev_block();
  uint64_t* stamps = stamps_of(load_relaxed_gpu(launches));
  // All threads meet before the first operation.
  if (dev_thread() == 0) {
    has_stored() = 0;
    stamp_min(stamps, dev_now());
  }
  mscclpp::execute_launch<mscclpp::Arithmetic<MSCCLPP_T, MSCCLPP_A>>(launch);
  if (dev_thread() == 0) stamp_max(stamps + 2, dev_now());
}

KERNEL(mscclpp::kMaxThreads) mscclpp_divide(KERNEL_PARAM mscclpp::LaunchParams launch) { mscclpp::divide_launch<MSCCLPP_T>(launch); }

KERNEL(1) MSCCLPP_ABI() {}

/// Where stamps go from now on.
KERNEL(1) set_stamps(uint64_t* stamps) { the_stamps = stamps; }

#ifdef DEV_SIM
namespace {
template <typename Argument, void (*kKernel)(Argument)>
void run(const void* argument) {
  kKernel(*static_cast<const Argument*>(argument));
}
}  // namespace

extern "C" const SimKernel SIM_TABLE[];
extern "C" const SimKernel SIM_TABLE[] = {
    {"mscclpp_execute", sizeof(mscclpp::LaunchParams), run<const mscclpp::LaunchParams, mscclpp_execute>},
    {"mscclpp_divide", sizeof(mscclpp::LaunchParams), run<const mscclpp::LaunchParams, mscclpp_divide>},
    {MSCCLPP_ABI_NAME, 0, [](const void*) { MSCCLPP_ABI(); }},
    {"set_stamps", sizeof(uint64_t*), run<uint64_t*, set_stamps>},
    {nullptr, 0, nullptr},
};
#endif
