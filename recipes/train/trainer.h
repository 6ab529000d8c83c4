// The training loop of one rank.
//
// All ranks run the same loop and agree on everything through collectives: loss, norm, skips, the
// end. Rank 0 speaks. A first signal ends the run after the step that all ranks are in, with a
// checkpoint, if the run makes any, and a report; NaN losses in a row end it with an error.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/samples.h"
#include "framework/data/tokenizer.h"
#include "recipes/cli/recipe.h"
#include "recipes/train/checkpointing.h"
#include "recipes/train/disk_times.h"
#include "recipes/train/rank_report.h"
#include "recipes/train/run_samples.h"
#include "recipes/train/run_voice.h"
#include "recipes/train/step_memory.h"
#include "recipes/train/step_trace.h"
#include "recipes/train/step_verifier.h"

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
  CheckpointInputs checkpoints = {};
  std::atomic<std::int64_t>* attempt = nullptr;  // rank 0 tells which step it is in, from 1
  SamplePlan samples = {};
};

struct TrainingEnd {
  bool stopped = false;    // by a signal
  bool complete = false;   // before this start already: nothing was done, there is no report
  std::int64_t steps = 0;  // that a complete run has: train.steps, or more
  RunReport report;        // on rank 0
  std::string sample;      // the last text sample, on rank 0; of a run without prompts
};

class Trainer {
 public:
  Trainer(const RunInputs& inputs, Communicator& world);
  TrainingEnd run();

 private:
  EngineResources resources() const;
  EngineStep step(std::int64_t index);
  EngineStep counted(std::int64_t index, const std::function<EngineStep()>& run);
  void attempt_step(std::int64_t index);
  void note_skip(const EngineStep& result, std::int64_t index);
  [[noreturn]] void end_before(const EngineStep& result, std::int64_t index);
  void speak(const EngineStep& result, std::int64_t index, double seconds);
  double validation_loss();
  bool samples_here() const;  // only then may this rank ask the model
  std::int64_t sampled_ids() const;
  std::vector<std::int32_t> prompt() const;
  std::string sample_text(std::int64_t request);
  std::vector<Answer> answers();
  std::vector<Answer> samples_of(std::int64_t step);
  bool tunes() const;
  void note_tuning_start();
  void recall_tuning_start();
  SampleSource training_samples() const;
  SampleSource source_of(const SampleSet& set,
                         const std::function<std::int64_t(std::int64_t)>& place) const;
  void write_trace_file();
  void begin_anew();
  TrainingEnd finish(bool stopped);
  double now()
      const;  // seconds since the epoch of the system clock: shared by all ranks of a machine
  bool speaks() const { return world_.rank() == 0 && inputs_.voice != nullptr; }
  bool evaluates(std::int64_t index) const;
  bool samples(std::int64_t index) const;

  const RunInputs& inputs_;
  const Recipe& recipe_;
  std::unique_ptr<WitnessCommunicator> witness_;  // with train.verify_every
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
  double flops_per_sample_ = 0;
  double busy_ = 0, walled_ = 0;  // of schedules run: computing, and in all
  double step_seconds_ = 0;       // of the last step, run once
  std::unique_ptr<StepVerifier> verifier_;
  double start_ = 0;
  Checkpointing checkpoints_;
  RunCounts counts_;
  RunCounts earlier_;     // of before this start
  TuningStart before_;    // of a run that began with a model folder, on rank 0
  bool stopped_ = false;  // by a signal
};

}  // namespace trireme
