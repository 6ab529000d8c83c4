// The training loop of one rank.
//
// All ranks run the same loop and agree on everything through collectives: loss, norm, skips, the
// end. Rank 0 speaks. A first signal ends the run after the step that all ranks are in, with a
// report; NaN losses in a row end it with an error.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/samples.h"
#include "framework/data/tokenizer.h"
#include "recipes/cli/recipe.h"
#include "recipes/train/disk_times.h"
#include "recipes/train/rank_report.h"
#include "recipes/train/run_voice.h"
#include "recipes/train/step_memory.h"
#include "recipes/train/step_trace.h"

namespace trireme {

// What a process prepares once and all of its ranks share. All of it must outlive them.
struct RunInputs {
  const Recipe& recipe;  // resolved for the machine
  const TokenDataset& data;
  const Tokenizer& tokenizer;
  Files& files;
  const std::atomic<int>& signals;  // received so far
  RunVoice* voice = nullptr;        // of the process that holds rank 0
  double measured_peak = 0;         // FLOP/s of all ranks' cores together; 0 = not measured
};

struct TrainingEnd {
  bool stopped = false;  // by a signal
  RunReport report;      // on rank 0
  std::string sample;    // the last text sample, on rank 0
};

class Trainer {
 public:
  Trainer(const RunInputs& inputs, Communicator& world);
  TrainingEnd run();

 private:
  EngineResources resources() const;
  EngineStep step(std::int64_t index);
  void note_skip(const EngineStep& result, std::int64_t index);
  void speak(const EngineStep& result, std::int64_t index, double seconds);
  double validation_loss();
  std::string sample_text(std::int64_t request);
  std::vector<std::int32_t> prompt() const;
  SampleSource training_samples() const;
  void write_trace_file();
  TrainingEnd finish(bool stopped);
  double now()
      const;  // seconds since the epoch of the system clock: shared by all ranks of a machine
  bool speaks() const { return world_.rank() == 0 && inputs_.voice != nullptr; }
  bool evaluates(std::int64_t index) const;
  bool samples(std::int64_t index) const;

  const RunInputs& inputs_;
  const Recipe& recipe_;
  Communicator& world_;
  std::unique_ptr<Backend> backend_;
  StepMemory memory_;
  Mesh mesh_;
  StepTrace trace_;  // outlives the engine, whose unfinished messages report to it
  Engine engine_;
  SkippedBatches skipped_batches_;
  CountedTraffic traffic_;
  DiskTimes disk_;
  std::map<std::string, double> time_;  // seconds by phase
  std::optional<double> validation_;    // of the step at hand
  double flops_per_sample_ = 0;
  double busy_ = 0, walled_ = 0;  // of schedules run: computing, and in all
  double start_ = 0;
  double loss_ = 0;
  std::int64_t done_ = 0, skipped_ = 0, skipped_in_row_ = 0, tokens_ = 0;
};

}  // namespace trireme
