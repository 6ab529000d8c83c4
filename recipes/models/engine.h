// The training step of one rank: its part of the model, its schedule, its optimizer, put together.
//
// A step is: fill micro-batches, run the schedule, one optimizer step. The loss is a sum divided
// once by the global number of counted labels; nothing is ever divided by micro-batches, data ranks
// or accumulation steps. All methods are collective over the mesh unless said otherwise.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/autograd/inference_pass.h"
#include "framework/comm/mesh.h"
#include "recipes/models/sample_source.h"
#include "recipes/models/stage_model.h"
#include "zero/optimizer.h"

namespace trireme {

struct EngineOptions {
  ModelOptions model;
  StageOptions stage;
  ZeroOptions optimizer;
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
  int chunks = 1;
  std::vector<int> partition;  // list entries per virtual stage; empty = by cost
  std::int64_t global_batch = 1, micro_batch = 1;  // samples
  double label_smoothing = 0;
  // Sources of training samples tell where documents begin; on every pipeline stage, which reads
  // its samples itself: nothing travels.
  bool reset_attention_mask = false;
  std::uint64_t seed = 0;
  // Weights only, in the compute type, for next_logits() and evaluate(): nothing is trained, so
  // there are no gradients and no states, and no initial values: load some.
  bool forward_only = false;
  bool state_copy = false;  // keep a StateCopy, to take steps back
};

struct EngineStep {
  double loss = 0;          // mean over the global batch's counted labels
  std::int64_t tokens = 0;  // counted labels of the global batch
  StepResult optimizer;
};

// What a model says of one sample's counted labels.
struct SampleScore {
  double loss = 0;        // nats, their sum
  bool likeliest = true;  // has each of them the largest logit? One of several equal ones counts
};

// Rows of one micro-batch of an inference pass: sequences one after the other.
struct InferenceRows {
  std::vector<std::int32_t> ids;
  std::vector<PagedSequence> sequences;  // of these ids; page lists must outlive the pass
  std::vector<std::int64_t> logit_rows;  // ascending
  WantedTop top = {};                    // other rows
};
// Logits of one micro-batch: (rows wanted, V) by rows. Empty on other stages than the last.
using Logits = std::vector<float>;

// Where the list of layers is cut; throws Error naming the legal numbers when it cannot be.
Bounds partition_of(const EngineOptions& options, int stages);

// Where an engine's files lie and who does the host's maths, if something is offloaded.
struct EngineResources {
  Backend* host = nullptr;  // null: the device's own backend
  Files* files = nullptr;   // needed with a disk tier
  ScratchOptions folder;
};

class StateCopy;        // zero/state_copy.h
struct EngineTraining;  // what only a model that is trained has: recipes/models/engine_train.cpp
struct EngineTrainingEnd {
  void operator()(EngineTraining* training) const;
};

class Engine {
 public:
  // `mesh`, `backend` and resources must outlive it. Checks the schedule by simulation, the live
  // parameters and the offload folder before anything is allocated.
  Engine(const EngineOptions& options, Mesh& mesh, Backend& backend,
         const EngineResources& resources = {});

  // Trains on global samples [step * global_batch, (step + 1) * global_batch); `step` counts
  // attempts from 0 and keys dropout. What this rank wishes, the result tells on all ranks.
  EngineStep train(std::int64_t step, const SampleSource& source, const Wishes& wishes = {});
  // Mean loss over samples [0, samples), cut over data ranks, no dropout, no label smoothing.
  double evaluate(std::int64_t samples, const SampleSource& source);
  // Each of samples [0, samples) by itself, cut over data ranks; the same on all ranks. `tokens`
  // ids and labels a sample, at most the model's sequence; with sequence parallelism a multiple of
  // the tensor ranks. Samples of a micro-batch have no more tokens together than in training. Not
  // for an mlp. What fills a sample up must stand behind it, with labels -1.
  std::vector<SampleScore> score(std::int64_t samples, std::int64_t tokens,
                                 const SampleSource& source);
  // Logits (V) of the token after `ids`. Called by all ranks of one data coordinate, at ZeRO stage
  // 3 by all ranks; the last stage gets logits, others an empty vector.
  std::vector<double> next_logits(const std::vector<std::int32_t>& ids);

  // Pages for this rank's attention layers. Not for an mlp.
  KvCacheOptions cache_options(std::int64_t pages) const;
  // Before the passes with a cache of an engine that is forward_only: its weights go into the order
  // in which the backend multiplies them (Unit::tile_weights). Any number of times; nothing happens
  // in an engine that trains.
  void begin_inference();
  // Runs rows of sequences whose earlier positions are in `cache` (this rank's), and puts theirs
  // there. Ranks of one data coordinate, at ZeRO stage 3 all of them, call it with the same rows;
  // micro-batches keep the stages of a pipeline busy at once. What it returns, one of each
  // micro-batch, is there until the next pass.
  std::vector<Logits>& infer(KvCache& cache, std::span<const InferenceRows> micros);
  // The likeliest ids of the rows of InferenceRows::top, by micro-batch; of that pass.
  std::vector<std::vector<TopLogits>>& tops() { return tops_; }

  // Of this rank's units as they are held, wherever they are at home. Not collective.
  std::int64_t weight_bytes() const;

  const EngineOptions& options() const { return options_; }
  StageModel& stage() { return *stage_; }
  // The weights, and what is kept beside them where the model is trained.
  KeptArrays& kept() { return *kept_; }
  // Error with `forward_only`, and in a build for inference only.
  ZeroOptimizer& optimizer();
  // What is at home away from the device: optimizer states, gradients, weights, as far as they are.
  std::vector<TiledStore*> stores() const;
  // Null unless the options want one.
  StateCopy* state_copy();
  // Where what is offloaded lies; null if nothing is.
  OffloadPlace* place() const { return place_.get(); }
  Backend& host() const { return place_ ? place_->host() : backend_; }  // for maths there
  const Bounds& bounds() const { return bounds_; }
  const std::vector<LayerSpec>& layers() const { return layers_; }
  const ActionList& actions() const { return actions_; }
  Runner& runner() { return *runner_; }

 private:
  struct Batch {
    std::vector<MicroBatch> micros;
    std::int64_t counted = 0;  // labels of this rank's share
  };
  Batch load(std::int64_t first, std::int64_t count, std::int64_t micro_samples,
             const SampleSource& source);
  void add_uncounted(Batch& batch, const SampleSource& source);
  void aim(Batch& batch, double seed, double smoothing, const Tensor& total);
  bool first_stage() const { return mesh_.coord().pipeline == 0; }
  bool last_stage() const { return mesh_.coord().pipeline + 1 == mesh_.shape().pipeline; }
  double sum_over(Communicator& group, double value);
  void make_training();
  std::vector<Chunk> chunks_for(std::int64_t tokens) const;
  std::vector<SampleScore> shared(std::vector<double>& told);
  RunnerOptions runner_options(const std::string& label, bool training) const;

  EngineOptions options_;
  Mesh& mesh_;
  Backend& backend_;
  std::vector<LayerSpec> layers_;
  Bounds bounds_;
  ActionList actions_;  // of a training step
  std::unique_ptr<OffloadPlace> place_;
  std::unique_ptr<StageModel> stage_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<KeptArrays> weights_;  // of a model that is only run
  std::unique_ptr<EngineTraining, EngineTrainingEnd> training_;
  KeptArrays* kept_ = nullptr;  // of one of them
  std::vector<Logits> logits_;  // of the last inference pass
  std::vector<std::vector<TopLogits>> tops_;
};

}  // namespace trireme
