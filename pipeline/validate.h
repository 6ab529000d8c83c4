// The rules that one stage's list must obey by itself; part of check_schedule().
#pragma once

#include "pipeline/schedule.h"

namespace trireme {

// What all lists of a schedule must agree on.
struct ScheduleExtent {
  int stages = 0;
  int chunks = 0;
  int micro_batches = 0;
  bool trains = false;  // there is a backward somewhere
};
ScheduleExtent extent_of(const Schedule& schedule);

// Each (micro-batch, chunk) exactly once, data before use, messages exactly where the next virtual
// stage lives elsewhere. Throws Error naming stage and action.
void check_stage(const ActionList& list, int stage, const ScheduleExtent& extent);

}  // namespace trireme
