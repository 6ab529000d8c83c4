// A disk that fails at any call of a training run: harmless, or one sentence on every rank, and
// nothing is left behind. Only rank 1's disk is bad; rank 0 must end too.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "framework/base/error.h"
#include "tests/pitfalls/curves.h"
#include "tests/support/faulty_files.h"
#include "tests/support/passed_files.h"

namespace trireme::pitfalls {
namespace {

using testing::Fault;
using testing::FaultPlan;
using testing::FaultyFiles;

Task tiny_task() {
  Task task{.model = parity::tiny_gpt2(), .global_batch = 2, .steps = 2};
  task.model.layers = 1;
  return task;
}

constexpr Layout everything_on_disk() {
  return {.mesh = {.data = 2},
          .recompute = RecomputeMode::kFull,
          .zero_stage = 3,
          .offload = {.optimizer = Tier::kDisk,
                      .gradients = Tier::kDisk,
                      .parameters = Tier::kDisk,
                      .activations = Tier::kDisk}};
}

std::ptrdiff_t threads_now() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

struct FaultyRun {
  std::string said;
  parity::Curve curve;
  std::int64_t calls = 0, fired = 0;
};

// Both ranks' files of a run; `plan` is that of one of them.
FaultyRun run_with(const FaultPlan& plan) {
  FaultyRun run;
  const auto bad = std::make_shared<FaultyFiles>(plan);
  Task task = tiny_task();
  std::atomic<int> made{0};
  task.files = [&]() -> std::unique_ptr<Files> {
    if (made++ > 0) return real_files();
    return std::make_unique<testing::PassedFiles>(bad);  // looked at afterwards
  };
  run.said = testing::sentence_of([&] { run.curve = parity::train(task, everything_on_disk()); });
  run.calls = bad->calls();
  run.fired = bad->fired();
  return run;
}

TEST(DiskFault, ShortTransfersAndInterruptionsAreHarmless) {
  const FaultyRun quiet = run_with({});
  ASSERT_EQ(quiet.said, "");
  ASSERT_GT(quiet.calls, 60);
  for (const Fault fault : {Fault::kHalf, Fault::kInterrupted})
    for (std::int64_t k = 1; k <= quiet.calls; k += 3) {
      const FaultyRun run = run_with({.fault = fault, .at = k});
      EXPECT_EQ(run.said, "") << "call " << k;
      EXPECT_EQ(run.curve.losses, quiet.curve.losses);
      EXPECT_EQ(run.curve.weights, quiet.curve.weights);
    }
  const FaultyRun all = run_with({.fault = Fault::kHalf, .at = 1, .sticky = true});
  EXPECT_EQ(all.said, "");
  EXPECT_EQ(all.curve.weights, quiet.curve.weights);
}

TEST(DiskFault, EveryFailingCallEndsBothRanksWithOneSentence) {
  const FaultyRun quiet = run_with({});
  ASSERT_EQ(quiet.said, "");
  const std::ptrdiff_t threads = threads_now();
  for (const Fault fault : {Fault::kIoError, Fault::kDiskFull}) {
    std::int64_t failed = 0;
    for (std::int64_t k = 1; k <= quiet.calls; ++k) {
      SCOPED_TRACE(join("call ", k));
      const FaultyRun run = run_with({.fault = fault, .at = k});
      EXPECT_EQ(threads_now(), threads);
      if (run.said.empty()) {  // a removal at the end, which is tried twice; or not this rank's
        EXPECT_EQ(run.curve.weights, quiet.curve.weights);
        continue;
      }
      ++failed;
      EXPECT_EQ(run.said.find('\n'), std::string::npos) << run.said;
      EXPECT_NE(run.said.find(fault == Fault::kDiskFull ? "No space left" : "Input/output error"),
                std::string::npos)
          << run.said;
    }
    EXPECT_GT(failed, quiet.calls * 3 / 4);
  }
}

}  // namespace
}  // namespace trireme::pitfalls
