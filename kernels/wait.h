// Waiting: every wait is bounded, and one that gives up says for what it waited.
#pragma once
#include "sync.h"
#include "window.h"

namespace mscclpp {

enum Awaited : uint32_t { kSignal = 1, kSemaphore = 2, kBarrier = 3, kPacket = 4, kProxy = 5 };

/// Between two looks at the clock and at whether others gave up: some microseconds.
#ifdef DEV_SIM
constexpr uint32_t kPollsPerLook = 4;
#else
constexpr uint32_t kPollsPerLook = 256;
#endif

/// Looks at the clock and at whether others gave up. Returns: until when to wait; 0 if no longer.
DEV uint64_t look_around(const Launch& launch, uint32_t polls, uint64_t deadline) {
  if (load_relaxed_gpu(&reinterpret_cast<State*>(launch.state)->abort) != 0) return 0;
  const uint64_t now = dev_now();
  if (deadline == 0) deadline = now + launch.timeout_ns;
  // The host's word is far away.
  if (polls % (16 * kPollsPerLook) == 0 && load_relaxed_sys(reinterpret_cast<uint32_t*>(launch.host_abort)) != 0) return 0;
  return now > deadline ? 0 : deadline;
}

/// A wait's patience.
struct Patience {
  uint32_t polls = 0;
  uint64_t deadline = 0;

  /// Called by: the waiting thread, after a look that failed. Returns: whether to give up.
  DEV bool is_over(const Launch& launch) {
    dev_relax();
    if (++polls % kPollsPerLook != 0) return false;
    deadline = look_around(launch, polls, deadline);
    return deadline == 0;
  }
};

/// What a wait was for.
struct Awaiting {
  uint32_t what;
  uint32_t id;
  uint64_t detail;
  uint64_t expected;
  uint64_t seen;
};

/// Called by: a thread whose wait is over without success. The first one of its block reports; all blocks leave.
DEV void give_up(const Launch& launch, Awaiting awaiting) {
  State* state = reinterpret_cast<State*>(launch.state);
  Report* report = reinterpret_cast<Report*>(launch.reports) + window().agent;
  if (compare_swap_relaxed_sys(&report->state, 0, 1) == 0) {
    report->what = awaiting.what;
    report->instr = pc();
    report->id = awaiting.id;
    report->iteration = iteration();
    report->detail = awaiting.detail;
    report->expected = awaiting.expected;
    report->seen = awaiting.seen;
    report->launch = window().sequence + 1;
  }
  window().failed = 1;
  store_relaxed_gpu(&state->abort, uint64_t{1});
  // The host looks at the word behind the one that it writes.
  store_relaxed_sys(reinterpret_cast<uint32_t*>(launch.host_abort) + 1, uint32_t{1});
}

}  // namespace mscclpp
