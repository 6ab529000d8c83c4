// Orders of touches as text, and the orders that tests of plans go through.
#pragma once

#include <string>
#include <vector>

#include "zero/touches.h"

namespace trireme::test {

// ">0.2" enters micro-batch 0's entry 2, "<" leaves it, "(" begins its gradients, ")" ends them.
inline std::string text_of(const std::vector<Touch>& touches) {
  std::string text;
  for (const Touch& touch : touches) {
    text += "><()"[static_cast<std::size_t>(touch.kind)];
    text += std::to_string(touch.micro) + "." + std::to_string(touch.entry) + " ";
  }
  return text;
}

// Recomputed segments of `every` entries inside each chunk, the last smaller; every = 0: none.
inline std::vector<int> segments_of(const std::vector<int>& entries_per_chunk, int every) {
  std::vector<int> segments;
  int next = 0;
  for (int entries : entries_per_chunk)
    for (int i = 0; i < entries; ++i) {
      if (every > 0 && i % every == 0) ++next;
      segments.push_back(every > 0 ? next : -1);
    }
  return segments;
}

struct TouchCase {
  std::string name;
  std::vector<Use> order;
  std::vector<Touch> touches;
  int entries = 0;
};

// All schedules x stages x micro-batches x recompute x late release, on small stages.
inline std::vector<TouchCase> touch_cases() {
  std::vector<TouchCase> cases;
  for (ScheduleKind kind :
       {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved,
        ScheduleKind::kZeroBubbleH1, ScheduleKind::kForwardOnly})
    for (int stages : {1, 2, 3})
      for (int micros : {1, 3, 6}) {
        const int chunks = kind == ScheduleKind::kInterleaved ? 2 : 1;
        if (chunks == 2 && micros % stages != 0) continue;
        const Schedule schedule = make_schedule(kind, stages, micros, chunks);
        const std::vector<int> entries = chunks == 2 ? std::vector<int>{4, 3} : std::vector<int>{5};
        const int total = chunks == 2 ? 7 : 5;
        for (int stage = 0; stage < stages; ++stage)
          for (int every : {0, 1, 2, 3})
            for (bool late : {false, true}) {
              TouchCase c;
              c.name = std::string(name_of(kind)) + " p " + std::to_string(stages) + " stage " +
                       std::to_string(stage) + " m " + std::to_string(micros) + " every " +
                       std::to_string(every) + (late ? " late" : "");
              c.order = flatten(schedule[static_cast<std::size_t>(stage)], entries);
              c.touches = touches(c.order, {segments_of(entries, every), late, total});
              c.entries = total;
              cases.push_back(c);
            }
      }
  return cases;
}

}  // namespace trireme::test
