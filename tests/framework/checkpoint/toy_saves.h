// A small run that saves: a handful of arrays whose every value is a function of the step, written
// by one process or by two, and the oracle of the crash tests: what step is on this disk, whole?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/checkpoint/checkpoint_folder.h"
#include "tests/support/simulated_files.h"

namespace trireme::testing {

inline const std::string kToyFolder = "run/checkpoints";

// Saves `step` as `processes` processes do: each writes its rectangles into its own file, one
// commits. Their writes take turns, or (threads) race.
void save_toy(Files& files, std::int64_t step, int processes, bool threads = false);

// What a restarted program finds.
struct FoundToy {
  std::int64_t step = 0;             // of the newest good checkpoint; 0: none
  std::int64_t latest = 0;           // what `latest` says; 0: nothing
  std::vector<std::string> refused;  // damaged ones that were passed over
  // What is wrong with the newest good one or with `latest`; what looking at them threw; committed
  // ones of any age that do not verify.
  std::vector<std::string> complaints;
};
FoundToy find_toy(Files& files);
std::string text_of(const FoundToy& found);
// Nothing but checkpoints and `latest` in the folder?
bool is_tidy(Files& files);

// Whether `call` was done before the power went. What it throws after that is nobody's to read:
// libhdf5's driver, for one, turns the crash into an Error.
bool done_before_the_crash(SimulatedFiles& files, const std::function<void()>& call);

struct CrashCount {
  std::int64_t crashes = 0;   // crash points
  std::int64_t restarts = 0;  // times persistence choices
  std::int64_t lost = 0;
  std::string first;  // the first loss, told
};

struct CrashPlan {
  int processes = 1;
  Troubles troubles = {};   // planted bugs
  std::int64_t from = 1;    // the first call to crash at
  std::int64_t to = 0;      // the last one; 0: all, and after the last
  std::int64_t seeds = 1;   // per crash point and choice
  bool until_lost = false;  // the first loss is enough
};

// The run: a first save (into folders that do not exist yet), a second one, and the first one
// pruned. Crashes at each of its calls and after the last one, restarts under every choice and
// compares with what was promised: step n or n - 1, whole; n, and `latest` too, once its commit had
// returned.
CrashCount crash_toy_saves(const CrashPlan& plan);

struct ToyTrace {
  std::vector<std::string> calls;
  std::vector<std::int64_t> returned;  // calls made when the first save had returned, the second
};
ToyTrace trace_of_toy_saves(int processes);  // of a quiet run

}  // namespace trireme::testing
