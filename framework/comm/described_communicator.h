// A group that is only spoken of: it has a rank and a size, and every operation throws. For code
// that asks what a rank of some layout would hold, without running that layout.
#pragma once

#include <memory>
#include <string>

#include "framework/comm/communicator.h"

namespace trireme {

std::unique_ptr<Communicator> describe_communicator(int rank, int size, std::string axis);

}  // namespace trireme
