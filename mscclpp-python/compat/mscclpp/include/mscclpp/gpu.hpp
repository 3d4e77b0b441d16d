// CUDA's runtime, under the name of the reference's header.
#pragma once
#include "mscclpp/device.hpp"
