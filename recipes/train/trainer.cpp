#include "recipes/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "framework/base/memory_error.h"
#include "pipeline/simulator.h"
#include "recipes/report/numbers.h"
#include "recipes/train/gather.h"
#include "recipes/train/memory_advice.h"
#include "recipes/train/model_start.h"
#include "recipes/train/plan.h"

namespace trireme {

namespace {

std::unique_ptr<Backend> attached_backend(const Recipe& recipe, Communicator& world) {
  std::unique_ptr<Backend> backend = make_backend(recipe);
  world.attach(*backend);
  return backend;
}

std::unique_ptr<WitnessCommunicator> witness_of(const Recipe& recipe, Communicator& world) {
  if (recipe.train.verify_every == 0) return nullptr;
  return std::make_unique<WitnessCommunicator>(world);
}

}  // namespace

Trainer::Trainer(const RunInputs& inputs, Communicator& world) try
    : inputs_(inputs),
      recipe_(inputs.recipe),
      witness_(witness_of(recipe_, world)),
      world_(witness_ ? *witness_ : world),
      backend_(attached_backend(recipe_, world_)),
      memory_(backend_->ledger()),
      mesh_(world_, mesh_shape(recipe_)),
      trace_(world_, [this] { return now(); }),
      engine_(engine_options(recipe_), mesh_, *backend_, resources()),
      skipped_batches_(recipe_.data.skip),
      disk_(engine_.stores(), [this] { return now(); }),
      flops_per_sample_(training_flops_per_sample(engine_.options().model, engine_.layers(),
                                                  engine_.options().stage.plan.frozen)),
      checkpoints_(inputs.checkpoints, recipe_,
                   {inputs.checkpoints.session, engine_, mesh_, *backend_, *backend_}) {
  engine_.runner().set_clock([this] { return now(); });
  if (witness_)
    verifier_ = std::make_unique<StepVerifier>(VerifiedRank{engine_, mesh_, *backend_, *witness_},
                                               VerifierOptions{.every = recipe_.train.verify_every},
                                               [this](const std::string& text) {
                                                 if (speaks()) inputs_.voice->say(text);
                                               });
} catch (const MemoryError& error) {
  throw Error(join(error.what(), "\n", advice_for_states(inputs.recipe)));
}

// On CPUs the device's own backend does the host's maths. Files lie inside the run's folder unless
// another one is named.
EngineResources Trainer::resources() const {
  const bool own = recipe_.offload.folder.empty();
  return {.files = &inputs_.files,
          .folder = {.folder = own ? recipe_.train.folder + "/offload" : recipe_.offload.folder,
                     .make = own,
                     .name = join("rank-", world_.rank())}};
}

double Trainer::now() const {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// data.skip moves whole global batches; positions within a batch stay.
SampleSource Trainer::training_samples() const {
  return source_of(inputs_.data.train(), [this](std::int64_t first) {
    const std::int64_t global = recipe_.batch.global;
    return skipped_batches_.batch_of(first / global) * global + first % global;
  });
}

// `place` tells which sample of the set is meant.
SampleSource Trainer::source_of(const SampleSet& set,
                                const std::function<std::int64_t(std::int64_t)>& place) const {
  const auto fill = [&set, place](std::int64_t first, std::int64_t count,
                                  std::vector<std::int32_t>& ids,
                                  std::vector<std::int32_t>& labels) {
    set.fill(place(first), count, ids, labels);
  };
  if (!recipe_.data.reset_attention_mask) return fill;
  return {fill,
          [&set, place](std::int64_t first, std::int64_t count, std::vector<std::int32_t>& starts) {
            set.document_starts(place(first), count, starts);
          }};
}

bool Trainer::evaluates(std::int64_t index) const {
  const std::int64_t every = recipe_.train.evaluate_every;
  return inputs_.data.validation() && every > 0 &&
         ((index + 1) % every == 0 || index + 1 == recipe_.train.steps);
}

bool Trainer::samples(std::int64_t index) const {
  const std::int64_t every = recipe_.train.sample_every;
  return every > 0 && (index + 1) % every == 0 && index + 1 < recipe_.train.steps;
}

// What this rank wishes is asked once, so that a step that is run again is the same step.
EngineStep Trainer::step(std::int64_t index) {
  Wishes wishes = checkpoints_.wishes();
  wishes.stop = inputs_.signals.load() > 0 ? 1.0 : 0.0;
  const auto run = [&] { return engine_.train(index, training_samples(), wishes); };
  if (!verifier_) return counted(index, run);
  const double begin = now();
  const EngineStep result = verifier_->train(
      index, [&] { return counted(index, run); }, run);
  time_["verification"] += now() - begin - step_seconds_;
  return result;
}

// Time, traffic and memory of a step are those of one run, whatever else is run to verify it.
EngineStep Trainer::counted(std::int64_t index, const std::function<EngineStep()>& run) {
  const Traffic before = world_.traffic();
  const bool traced = parse_step_range(recipe_.train.trace).contains(index + 1);
  if (traced) trace_.begin_step();
  disk_.begin_step();
  memory_.begin_step();
  const double begin = now();
  const EngineStep result = run();
  const double end = now();
  step_seconds_ = end - begin;
  disk_.end_step();
  traffic_.add(before, world_.traffic());
  traffic_.steps++;
  traffic_.applied += result.optimizer.skipped ? 0 : 1;
  memory_.end_step();

  double busy = 0;
  for (const ActionSpan& span : engine_.runner().spans()) {
    const double seconds = span.end - span.begin;
    time_[span.action.kind == Action::Kind::kForward ? "forward" : "backward"] += seconds;
    busy += seconds;
  }
  const double pipeline = engine_.runner().seconds();
  time_["pipeline wait"] += pipeline - busy;
  time_["reduction and update"] += end - begin - pipeline;
  busy_ += busy;
  walled_ += pipeline;
  if (traced) trace_.end_step(index + 1, begin, end, engine_.runner());
  return result;
}

void Trainer::note_skip(const EngineStep& result, std::int64_t index) {
  if (!result.optimizer.skipped) {
    counts_.skipped_in_row = 0;
    return;
  }
  ++counts_.skipped;
  ++counts_.skipped_in_row;
  const double scale = result.optimizer.loss_scale;
  const std::string what = join("step ", index + 1, ": the gradient is not finite (first in ",
                                result.optimizer.bad_parameter, ")",
                                scale == 1 ? "" : join(" at loss scale ", significant(scale, 6)),
                                "; the update is skipped");
  if (speaks()) inputs_.voice->say(what);
  const bool ends = counts_.skipped_in_row > recipe_.train.max_skipped;
  if (ends) checkpoints_.before_failure(speaks() ? inputs_.voice : nullptr);
  check(!ends, what, ", ", counts_.skipped_in_row,
        " times in a row; train.max_skipped = ", recipe_.train.max_skipped,
        " ends the run. A lower optimizer.lr or a warm-up may help.");
}

// A spike: its update was not made, so what is kept is the state before it.
void Trainer::end_before(const EngineStep& result, std::int64_t index) {
  RunVoice* voice = speaks() ? inputs_.voice : nullptr;
  const std::int64_t newest = checkpoints_.keep_now(counts_, voice);
  fail(
      "step ", index + 1, ": the gradient's norm is ", significant(result.optimizer.grad_norm, 6),
      " (loss ", significant(result.loss, 6),
      "), over train.stop_on_norm = ", significant(recipe_.train.stop_on_norm, 6),
      ", which ends the run before its update. ",
      newest > 0 ? join("The newest checkpoint is of step ", newest, ". ") : std::string(),
      "--data.skip=", skipped_batches_.batch_of(index) + 1,
      " leaves its batch out; a lower optimizer.lr, or a larger train.stop_on_norm, may help, too");
}

void Trainer::speak(const EngineStep& result, std::int64_t index, double seconds) {
  const auto peak = static_cast<double>(memory_.peak(Tier::kDevice));
  const double memory = reduce_values(world_, *backend_, {peak}, ReduceOp::kMax)[0];
  const std::vector<double> spent =
      reduce_values(world_, *backend_, {busy_, walled_}, ReduceOp::kSum);
  if (!speaks()) return;
  StepRecord record{
      .step = index + 1,
      .steps = recipe_.train.steps,
      .loss = result.loss,
      .validation_loss = counts_.validation,
      .grad_norm = result.optimizer.grad_norm,
      .lr = result.optimizer.lr,
      .loss_scale = result.optimizer.loss_scale,
      .tokens = result.tokens,
      .seconds = seconds,
      .tokens_per_s = static_cast<double>(result.tokens) / seconds,
      .flops_per_s = flops_per_sample_ * static_cast<double>(recipe_.batch.global) / seconds,
      .measured_peak = inputs_.measured_peak,
      .skipped = counts_.skipped,
      .memory = static_cast<std::int64_t>(memory),
      .memory_limit = recipe_.device.memory};
  if (recipe_.parallel.pipeline > 1 && spent[1] > 0) record.bubble = 1.0 - spent[0] / spent[1];
  const auto left = static_cast<double>(recipe_.train.steps - index - 1);
  record.remaining = (now() - start_) / static_cast<double>(index + 1 - earlier_.steps) * left;
  inputs_.voice->step(record);
}

double Trainer::validation_loss() {
  const SampleSet& set = *inputs_.data.validation();
  const std::int64_t count = std::min(set.size(), recipe_.train.evaluate_samples);
  return engine_.evaluate(count, source_of(set, [](std::int64_t first) { return first; }));
}

void Trainer::attempt_step(std::int64_t index) {
  if (speaks() && inputs_.attempt) inputs_.attempt->store(index + 1);
  const EngineStep result = step(index);
  const double seconds = step_seconds_, after = now();
  if (result.optimizer.spiked) end_before(result, index);
  stopped_ = result.optimizer.wishes.stop > 0;
  counts_.steps = index + 1;
  counts_.loss = result.loss;
  counts_.tokens += result.tokens;
  note_skip(result, index);
  counts_.validation.reset();
  if (evaluates(index) && !stopped_) {
    counts_.validation = validation_loss();
    time_["evaluation"] += now() - after;
  }
  speak(result, index, seconds);
  if (samples(index) && !stopped_) {
    const std::vector<Answer> said = samples_of(index + 1);
    if (speaks()) inputs_.voice->samples(index + 1, said);
  }
  const double from = now();
  checkpoints_.after_step(counts_, result.optimizer.wishes, speaks() ? inputs_.voice : nullptr);
  time_["checkpoints"] += now() - from;
}

// An engine that was to be loaded has no values yet.
void Trainer::begin_anew() {
  const CheckpointInputs& c = inputs_.checkpoints;
  if (!recipe_.model.from.empty())
    load_model_folder({c.session, engine_, mesh_, *backend_, *backend_}, inputs_.files,
                      recipe_.model.from);
  else if (recipe_.train.resume)
    engine_.optimizer().fill_initial();
}

TrainingEnd Trainer::run() try {
  counts_ = earlier_ = checkpoints_.resume(speaks() ? inputs_.voice : nullptr);
  if (earlier_.steps == 0) begin_anew();
  if (earlier_.steps >= recipe_.train.steps) return {.complete = true, .steps = earlier_.steps};
  if (tunes()) earlier_.steps == 0 ? note_tuning_start() : recall_tuning_start();
  checkpoints_.foresee(counts_, speaks() ? inputs_.voice : nullptr);
  start_ = now();
  for (std::int64_t index = earlier_.steps; index < recipe_.train.steps && !stopped_; ++index)
    attempt_step(index);
  return finish(stopped_);
} catch (const MemoryError& error) {
  throw Error(join(error.what(), "\n", advice_for_activations(recipe_)));
}

}  // namespace trireme
