// Waits: every wait has a timeout, and one that expires reports what the thread block was waiting for.
#pragma once
#include "instr_cache.h"
#include "sync.h"

namespace mscclpp {

/// Polls between two checks of the clock and of the abort flags: some microseconds.
#ifdef DEV_SIM
constexpr uint32_t kPollsPerCheck = 4;
#else
constexpr uint32_t kPollsPerCheck = 256;
#endif

/// Checks the clock and the abort flags. Returns: the wait's deadline; 0 if it has passed or the launch is aborted.
DEV uint64_t poll_deadline_and_abort(const LaunchParams& launch, uint32_t polls, uint64_t deadline) {
  if (load_relaxed_gpu(&reinterpret_cast<LaunchState*>(launch.state)->abort) != 0) return 0;
  const uint64_t now = dev_now();
  if (deadline == 0) deadline = now + launch.timeout_ns;
  // The host's flag is in host memory, so it is read less often.
  const AbortFlags* flags = reinterpret_cast<const AbortFlags*>(launch.abort_flags);
  if (polls % (16 * kPollsPerCheck) == 0 && load_relaxed_sys(&flags->host) != 0) return 0;
  return now > deadline ? 0 : deadline;
}

/// The timeout of a wait, which begins at its first check.
struct PollTimeout {
  uint32_t polls = 0;
  uint64_t deadline = 0;

  /// Called by: the waiting thread, after a poll without success. Returns: whether to abort.
  DEV bool is_expired(const LaunchParams& launch) {
    dev_relax();
    if (++polls % kPollsPerCheck != 0) return false;
    deadline = poll_deadline_and_abort(launch, polls, deadline);
    return deadline == 0;
  }
};

/// What a thread waited for.
struct WaitInfo {
  WaitKind kind;
  uint32_t id;
  uint64_t detail;
  uint64_t expected;
  uint64_t seen;
};

/// Called by: a thread whose wait has expired. The first one of its block writes the report; all blocks exit.
DEV void abort_launch(const LaunchParams& launch, WaitInfo info) {
  LaunchState* state = reinterpret_cast<LaunchState*>(launch.state);
  WaitReport* report = reinterpret_cast<WaitReport*>(launch.reports) + cache().block;
  if (compare_swap_relaxed_sys(&report->state, 0, 1) == 0) {
    report->kind = info.kind;
    report->instr = pc();
    report->id = info.id;
    report->iteration = iteration();
    report->detail = info.detail;
    report->expected = info.expected;
    report->seen = info.seen;
    report->launch = cache().sequence + 1;
  }
  cache().failed = 1;
  store_relaxed_gpu(&state->abort, uint64_t{1});
  store_relaxed_sys(&reinterpret_cast<AbortFlags*>(launch.abort_flags)->device, uint32_t{1});
}

}  // namespace mscclpp
