// Native algorithms have no switch channels.
#pragma once
#error "switch channels are not among the channels of native algorithms: use memory or port channels, or a kernel of mscclpp_native.h"
