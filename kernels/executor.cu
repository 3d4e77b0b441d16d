// The kernels of one data type and accumulator: MSCCLPP_T and MSCCLPP_A, which are defined when this is compiled.
#include "divide.h"
#include "executor.h"

#ifndef MSCCLPP_T
#define MSCCLPP_T float
#define MSCCLPP_A float
#endif

constexpr uint32_t kThreads = sizeof(MSCCLPP_A) > sizeof(MSCCLPP_T) ? mscclpp::kMaxThreadsWide : mscclpp::kMaxThreads;

KERNEL(kThreads) mscclpp_execute(KERNEL_PARAM mscclpp::LaunchParams launch) {
  mscclpp::execute_launch<mscclpp::Arithmetic<MSCCLPP_T, MSCCLPP_A>>(launch);
}

KERNEL(mscclpp::kMaxThreads) mscclpp_divide(KERNEL_PARAM mscclpp::LaunchParams launch) {
  mscclpp::divide_launch<MSCCLPP_T>(launch);
}

/// The host looks it up before it uses the other kernels, and never launches it.
KERNEL(1) MSCCLPP_ABI() {}

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
    {nullptr, 0, nullptr},
};
#endif
