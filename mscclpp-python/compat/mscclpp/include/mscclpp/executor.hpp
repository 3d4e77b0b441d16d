// Executors run plans; native algorithms have none.
#pragma once
#include "mscclpp/core.hpp"

namespace mscclpp {

class Executor;

}  // namespace mscclpp
