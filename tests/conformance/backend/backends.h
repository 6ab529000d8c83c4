// The backends that the conformance tests run on, each with the types it computes.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "framework/backend/backend.h"

namespace trireme::test {

enum class Kind { kReference, kGuarded, kCpu };

struct Target {
  Kind kind;
  DType compute;
};

// "cpu_bf16": the name of the target in test names.
std::string text(const Target& target);
inline std::ostream& operator<<(std::ostream& out, const Target& target) {
  return out << text(target);
}

// Null with the reason in `why` when this build cannot.
std::unique_ptr<Backend> make(const Target& target, std::string& why);

std::vector<Target> all_targets();

}  // namespace trireme::test
