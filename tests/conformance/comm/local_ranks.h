// Runs one case on thread ranks.
#pragma once

#include "tests/conformance/comm/comm_cases.h"

namespace trireme::test {

struct LocalRun {
  std::vector<std::string> problems;   // of ranks whose case threw
  std::vector<std::uint64_t> digests;  // by rank
};

LocalRun run_on_threads(int ranks, const CommCase& one);

}  // namespace trireme::test
