// The proxy of port channels belongs to the communicator; `ProxyService` is in port_channel.hpp.
#pragma once
#include "mscclpp/port_channel.hpp"
