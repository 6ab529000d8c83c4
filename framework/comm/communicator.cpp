#include "framework/comm/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "framework/base/error.h"

namespace trireme {

std::int64_t piece_begin(std::int64_t n, std::int64_t pieces, std::int64_t index) {
  check(n >= 0 && pieces > 0 && index >= 0 && index <= pieces, "piece_begin: piece ", index, " of ",
        n, " elements over ", pieces, " ranks does not exist");
  const std::int64_t piece = n / pieces + (n % pieces != 0 ? 1 : 0);
  return std::min(n, piece * index);
}

Pending& Pending::operator=(Pending&& other) {
  if (this != &other) {
    wait();
    finish_ = std::exchange(other.finish_, nullptr);
  }
  return *this;
}

Pending::~Pending() {
  try {
    wait();
  } catch (...) {
    // The communicator remembers it: the rank's next call throws.
  }
}

void Pending::wait() {
  if (auto finish = std::exchange(finish_, nullptr)) finish();
}

bool under_launcher(const std::function<const char*(const char*)>& lookup) {
  const auto value = [&](const char* name) {
    const char* text = lookup(name);
    return text ? std::string_view(text) : std::string_view();
  };
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"})
    if (!value(name).empty()) return true;
  // The variables of a Slurm allocation are also set in a plain shell inside it; a step started by
  // srun with several tasks is what counts.
  if (value("SLURM_STEP_ID").empty() || value("SLURM_PROCID").empty()) return false;
  const std::string_view tasks =
      value("SLURM_STEP_NUM_TASKS").empty() ? value("SLURM_NTASKS") : value("SLURM_STEP_NUM_TASKS");
  return !tasks.empty() && tasks != "1";
}

}  // namespace trireme
