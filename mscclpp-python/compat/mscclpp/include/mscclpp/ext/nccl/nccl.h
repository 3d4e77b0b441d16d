// Types of NCCL, for sources that include its header. Native algorithms call no function of NCCL.
#pragma once

#if !defined(MSCCLPP_DEVICE_COMPILE)

#include <cuda_runtime.h>

typedef struct ncclComm* ncclComm_t;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclNumResults = 8
} ncclResult_t;

#endif
