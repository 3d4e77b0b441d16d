// Reports each basic block that a thread enters: at the end of a source that is compiled with `-fsanitize-coverage=trace-pc`.
#pragma once

/// The first byte of the loaded object, from which addresses are counted.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];

/// Called by: a thread that enters the basic block at `address`. The host sets it.
SIM_VISIBLE void (*sim_step)(uint64_t address);
void (*sim_step)(uint64_t address) = nullptr;

extern "C" __attribute__((no_sanitize_coverage, visibility("hidden"))) void __sanitizer_cov_trace_pc() {
  if (sim_step != nullptr) sim_step(reinterpret_cast<uint64_t>(__builtin_return_address(0)) - reinterpret_cast<uint64_t>(__ehdr_start));
}
