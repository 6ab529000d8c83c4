// Learning-rate schedules as pure functions of the number of optimizer steps already taken. Skipped
// steps do not count, so a schedule never moves on them.
#pragma once

#include <cstdint>

namespace trireme {

enum class LrShape : std::uint8_t {
  kConstant,
  kLinear,  // straight down, to min_lr after the last step
  kCosine,  // half a cosine down, to min_lr after the last step (arXiv 1608.03983)
  kWsd,  // warm-up, stable, decay: constant, then straight down over the last `decay` steps (arXiv
         // 2404.06395)
};

struct LrSchedule {
  LrShape shape = LrShape::kConstant;
  double lr = 0;            // the largest rate
  double min_lr = 0;        // the last one
  std::int64_t warmup = 0;  // steps of linear warm-up: step k (from 0) has lr * (k + 1) / warmup
  std::int64_t steps = 0;   // steps in all
  std::int64_t decay = 0;   // of kWsd; 0 = a tenth of the steps

  // The rate of the step after `taken` steps. From `steps` on it is min_lr (lr when constant).
  double at(std::int64_t taken) const;
};

}  // namespace trireme
