// What the host's compiler and that of device code see of a source: `MSCCLPP_DEVICE_COMPILE` is defined for device code.
#pragma once

#if defined(MSCCLPP_DEVICE_COMPILE)
#include "mscclpp/native/device.hpp"
#define MSCCLPP_DEVICE_INLINE DEV
#define MSCCLPP_HOST_DEVICE_INLINE DEV
#else
#include <cuda_runtime.h>

#include <cstdint>
#define MSCCLPP_DEVICE_INLINE inline
#define MSCCLPP_HOST_DEVICE_INLINE inline
#endif

#if defined(MSCCLPP_DEVICE_COMPILE) && !defined(DEV_SIM)
#define MSCCLPP_DEVICE_CUDA
#endif

#define MSCCLPP_INLINE inline
