// Repeated checks of a condition, by one thread.
#pragma once
#include "mscclpp/device.hpp"

#if defined(MSCCLPP_DEVICE_COMPILE)
#if defined(DEV_SIM)
#define MSCCLPP_RELAX() dev_relax()
#else
#define MSCCLPP_RELAX() (void)0
#endif
/// Waits while a condition holds. Without a timeout: the number of checks is not limited.
#define POLL_MAYBE_JAILBREAK(condition, max_spin_count) \
  do {                                                  \
    while (condition) MSCCLPP_RELAX();                  \
  } while (false)
#define OR_POLL_MAYBE_JAILBREAK(first, second, max_spin_count) POLL_MAYBE_JAILBREAK((first) && (second), max_spin_count)
#endif
