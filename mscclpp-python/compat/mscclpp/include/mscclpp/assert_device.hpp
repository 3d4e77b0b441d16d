// Assertions of kernels.
#pragma once
#include "mscclpp/device.hpp"

#if defined(MSCCLPP_DEVICE_COMPILE)
#if defined(NDEBUG)
#define MSCCLPP_ASSERT_DEVICE(condition, message) (void)0
#else
#define MSCCLPP_ASSERT_DEVICE(condition, message) ::mscclpp::native::check(condition)
#endif
#endif
