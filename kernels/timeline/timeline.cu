// The interpreter's kernel with stamps: when each thread block executed which operation. It is compiled at run time, and nothing that is
// prebuilt includes it: launches without a timeline have no instruction for it.
//
// A stamp has the time of the block's first thread. Other threads may begin an operation earlier and end it later, because only the block
// syncs of the plan synchronize them.
#ifndef MSCCLPP_T
#define MSCCLPP_T float
#define MSCCLPP_A float
#endif

#include "instr_cache.h"
#include "sync.h"

/// One executed operation; the host has the same struct.
struct Stamp {
  uint64_t begin, end;
  /// From the first to the last poll without success of the block's first thread.
  uint64_t waited;
  /// Launches of the plan before this one.
  uint64_t sequence;
  uint32_t instr, iteration;
};

/// Argument of the kernel; the host has the same struct.
struct TimelineParams {
  mscclpp::LaunchParams launch;
  /// Address of each block's number of stamps, then of the stamps: the first one of each block, the second one of each, … It is memory of
  /// the host, to which blocks write without waiting.
  uint64_t stamps;
  /// Number of stamps of a block for which there is room.
  uint64_t capacity;
};

/// The current operation of the block; its first thread alone accesses it.
struct Current {
  Stamp stamp;
  uint64_t last_poll;
  /// Stamps of the block so far.
  uint64_t count;
};

DEV Current& current() {
  SHARED(Current, the_current, 1);
  return the_current[0];
}

DEV void note_poll() {
  if (dev_thread() != 0) return;
  Current& now = current();
  now.last_poll = dev_now();
  if (now.stamp.waited == 0) now.stamp.waited = now.last_poll;
}

// Each wait calls this between two polls.
#define dev_relax() (note_poll(), dev_relax())

#include "divide.h"
#include "executor.h"

DEV void begin_stamp() {
  if (dev_thread() != 0) return;
  Current& now = current();
  now.stamp = Stamp{dev_now(), 0, 0, mscclpp::cache().sequence, mscclpp::pc(), mscclpp::iteration()};
  now.last_poll = 0;
}

DEV void end_stamp(const TimelineParams& params) {
  if (dev_thread() != 0) return;
  uint64_t* counts = reinterpret_cast<uint64_t*>(params.stamps);
  const uint64_t number = current().count++;
  store_plain<uint64_t>(counts + dev_block(), number + 1);
  if (number >= params.capacity) return;
  const Stamp& stamp = current().stamp;
  uint64_t* to = counts + dev_blocks() + (number * dev_blocks() + dev_block()) * (sizeof(Stamp) / sizeof(uint64_t));
  store_plain<uint64_t>(to, stamp.begin);
  store_plain<uint64_t>(to + 1, dev_now());
  store_plain<uint64_t>(to + 2, current().last_poll - stamp.waited);
  store_plain<uint64_t>(to + 3, stamp.sequence);
  store_plain<uint64_t>(to + 4, stamp.instr | static_cast<uint64_t>(stamp.iteration) << 32);
}

/// `run_block` with stamps. Called by: all threads of the block, which are at its first instruction.
template <typename Arith>
DEV void run_stamped_block(const TimelineParams& params) {
  using namespace mscclpp;
  if (dev_thread() == 0) current().count = 0;
  DEV_NO_UNROLL
  while (pc() < cache().own.end) {
    if (pc() - cache().first >= cache().count) {
      const Instr& next = all_instrs(params.launch)[pc()];
      load_instrs(params.launch, next.operands, next.first_id);
      if (cache().failed) return;
    }
    begin_stamp();
    execute_next<Arith>(params.launch);
    end_stamp(params);
  }
}

constexpr uint32_t kThreads = sizeof(MSCCLPP_A) > sizeof(MSCCLPP_T) ? mscclpp::kMaxThreadsWide : mscclpp::kMaxThreads;

KERNEL(kThreads) mscclpp_execute_stamped(KERNEL_PARAM TimelineParams params) {
  mscclpp::begin_block(params.launch);
  run_stamped_block<mscclpp::Arithmetic<MSCCLPP_T, MSCCLPP_A>>(params);
  mscclpp::finish_launch(params.launch);
}

/// Reads the clock of the stamps.
KERNEL(1) mscclpp_clock(uint64_t* now) { store_plain<uint64_t>(now, dev_now()); }

#ifdef DEV_SIM
namespace {
template <typename Argument, void (*kKernel)(Argument)>
void run(const void* argument) {
  kKernel(*static_cast<const Argument*>(argument));
}
}  // namespace

extern "C" const SimKernel SIM_TABLE[];
extern "C" const SimKernel SIM_TABLE[] = {
    {"mscclpp_execute_stamped", sizeof(TimelineParams), run<const TimelineParams, mscclpp_execute_stamped>},
    {"mscclpp_clock", sizeof(uint64_t*), run<uint64_t*, mscclpp_clock>},
    {nullptr, 0, nullptr},
};
#endif
