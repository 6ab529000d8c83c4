// What ended the last start of a run, kept in its folder: a restart loop whose run fails again at
// the same step for the same reason should end (Megatron-LM#5281: 44 identical restarts).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/base/error.h"
#include "framework/base/files.h"

namespace trireme {

struct Failure {
  std::int64_t step = 0;   // that was attempted, from 1; 0: before the first
  std::int64_t times = 1;  // in a row
  std::string reason;      // the sentence, without the rank
};

// The same step failed for the same reason in two starts. The program exits with 3.
class RepeatedFailure : public Error {
 public:
  using Error::Error;
};

inline constexpr char kFailureName[] = "last_failure";

// Nothing for a file that is missing or is no such record.
std::optional<Failure> last_failure(Files& files, const std::string& run_folder);
// Remembers it, and returns how often it happened in a row. A folder that cannot be written to is
// no further failure.
std::int64_t note_failure(Files& files, const std::string& run_folder, std::int64_t step,
                          const std::string& sentence) noexcept;
// The sentence that ends such a run.
std::string repeated_text(const std::string& sentence, std::int64_t step, std::int64_t times);

}  // namespace trireme
