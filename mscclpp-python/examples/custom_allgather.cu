// An all-gather as a kernel, which `native_algorithm.py` compiles: each rank puts its part into the memory of all ranks.
#include "mscclpp_native.h"

KERNEL(256) allgather(KERNEL_PARAM mscclpp::NativeCall call) {
  // The ranks have taken from their memory what the last call has put there.
  if (!call.sync_ranks()) return;
  for (uint32_t peer = 0; peer < call.num_ranks; ++peer) {
    call.channels[peer].put(call.rank * call.input_bytes, 0, call.input_bytes, call.thread(), call.threads());
  }
  if (!call.sync_ranks()) return;
  call.to_output(0, 0, call.output_bytes);
}

// For simulated devices.
SIM_KERNEL(allgather, mscclpp::NativeCall)
