// What must not depend on how often a run was interrupted.
#pragma once

#include <gtest/gtest.h>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {

using Words = std::vector<std::string>;

// The columns of metrics.jsonl but for those that speed is in.
inline std::vector<Words> columns(const std::string& run_folder) {
  std::vector<Words> all;
  for (const char* key : {"step", "loss", "grad_norm", "lr", "loss_scale", "tokens", "skipped"})
    all.push_back(column(run_folder, key));
  return all;
}

inline void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in\n" << text;
}

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace trireme::testing
