// What the pipeline's tests share.
#pragma once

#include <vector>

#include "pipeline/schedule.h"
#include "pipeline/simulator.h"

namespace trireme {

struct PipelineCase {
  ScheduleKind kind;
  int p, m, v;
};

// Every schedule for p 1-8, m 1-16 and every legal v of 1-4.
inline std::vector<PipelineCase> all_cases() {
  std::vector<PipelineCase> cases;
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 16; ++m) {
      cases.push_back({ScheduleKind::kGPipe, p, m, 1});
      cases.push_back({ScheduleKind::kOneFOneB, p, m, 1});
      cases.push_back({ScheduleKind::kZeroBubbleH1, p, m, 1});
      for (int v = 1; v <= 4; ++v) {
        cases.push_back({ScheduleKind::kForwardOnly, p, m, v});
        if (v == 1 || m % p == 0) cases.push_back({ScheduleKind::kInterleaved, p, m, v});
      }
    }
  return cases;
}

inline std::vector<int> peaks(const Simulation& simulation) {
  std::vector<int> result;
  for (const StageTimeline& stage : simulation.stages) result.push_back(stage.peak_in_flight);
  return result;
}

}  // namespace trireme
