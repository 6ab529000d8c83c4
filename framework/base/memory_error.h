// The failure of an allocation that would exceed a tier's limit, for those who can say what to
// change.
#pragma once

#include "framework/base/error.h"

namespace trireme {

// Thrown by MemoryLedger::add, with the table of what is in use.
class MemoryError : public Error {
 public:
  using Error::Error;
};

}  // namespace trireme
