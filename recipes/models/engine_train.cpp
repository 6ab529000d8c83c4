// What an engine has and does where its model is trained. Builds for inference only have
// no_engine_train.cpp instead.
#include <algorithm>

#include "framework/base/error.h"
#include "recipes/models/engine.h"
#include "zero/state_copy.h"

namespace trireme {

struct EngineTraining {
  std::unique_ptr<TiledStore> states;  // of the optimizer, away from the device
  std::unique_ptr<ZeroOptimizer> optimizer;
  std::unique_ptr<StateCopy> copy;  // null unless the options want one
};

void EngineTrainingEnd::operator()(EngineTraining* training) const { delete training; }

void Engine::make_training() {
  training_.reset(new EngineTraining);
  ZeroOptions& o = options_.optimizer;
  o.seed = options_.seed;
  if (options_.model.family == Family::kDecoder && options_.model.kv_heads < mesh_.shape().tensor)
    o.kv_replicas = &mesh_.kv_replicas(static_cast<int>(options_.model.kv_heads));
  o.counts_in_norm = !stage_->replicas() || stage_->replicas()->rank() == 0;
  const std::vector<Unit*> units = stage_->units();
  const bool trains =
      std::any_of(units.begin(), units.end(), [](Unit* u) { return u->trainable(); });
  check(sum_over(mesh_.world(), trains ? 1.0 : 0.0) > 0,
        "the model has no parameter that is trained: all are frozen");
  if (place_) {
    training_->states = place_->make_store(options_.stage.offload.optimizer,
                                           state_shape(units, o.optimizer), "optimizer");
    o.host = &place_->host();
    o.store = training_->states.get();
  }
  training_->optimizer = std::make_unique<ZeroOptimizer>(units, backend_, mesh_, o);
  kept_ = training_->optimizer.get();
  if (options_.state_copy)
    training_->copy = std::make_unique<StateCopy>(*training_->optimizer, backend_.shared_ledger());
}

ZeroOptimizer& Engine::optimizer() {
  check(training_ != nullptr, "this model is only run: it has no optimizer");
  return *training_->optimizer;
}

StateCopy* Engine::state_copy() { return training_ ? training_->copy.get() : nullptr; }

std::vector<TiledStore*> Engine::stores() const {
  std::vector<TiledStore*> all = stage_->stores();
  if (training_ && training_->states) all.push_back(training_->states.get());
  return all;
}

EngineStep Engine::train(std::int64_t step, const SampleSource& source, const Wishes& wishes) {
  check(training_ != nullptr, "training: this model is only run");
  const std::int64_t share = options_.global_batch / mesh_.shape().data;
  const std::string label = "step " + std::to_string(step + 1);
  mesh_.world().set_place(label + ", counting labels");
  check(options_.reset_attention_mask == static_cast<bool>(source.document_starts()),
        "training: the samples ", source.document_starts() ? "tell" : "do not tell",
        " where documents begin, the options ", options_.reset_attention_mask ? "do" : "do not",
        " ask for it");
  Batch batch = load(step * options_.global_batch + mesh_.coord().data * share, share,
                     options_.micro_batch, source);
  EngineStep result;
  result.tokens =
      static_cast<std::int64_t>(sum_over(mesh_.data(), static_cast<double>(batch.counted)));
  const double mean = 1.0 / static_cast<double>(std::max<std::int64_t>(1, result.tokens));
  Tensor total = backend_.zeros({1}, DType::kF64, MemoryKind::kWorkspace);
  const double scale = training_->optimizer->loss_scale();
  aim(batch, mean * scale, options_.label_smoothing, total);

  stage_->expect_present();
  if (training_->states) training_->states->expect_present();
  stage_->begin_step();
  const RngKey key = key_from_seed(options_.seed).child(static_cast<std::uint64_t>(step));
  runner_->run(actions_, batch.micros, runner_options(label, true), key);
  stage_->end_pass();

  mesh_.world().set_place(label + ", optimizer");
  const bool gives_loss = last_stage() && mesh_.coord().tensor == 0;
  result.optimizer = training_->optimizer->step({.wishes = wishes,
                                                 .loss_scale = scale,
                                                 .number = step + 1,
                                                 .loss = gives_loss ? total : Tensor()});
  result.loss = result.optimizer.loss * mean;
  return result;
}

}  // namespace trireme
