// The end of a run: the last sample, the report gathered from all ranks, the trace.
#include <algorithm>

#include "pipeline/simulator.h"
#include "recipes/train/gather.h"
#include "recipes/train/plan.h"
#include "recipes/train/trainer.h"

namespace trireme {

namespace {

// Of equal stages with this schedule; backward costs twice a forward, recomputation one more.
double predicted(const EngineOptions& o, const MeshShape& mesh) {
  const std::int64_t share = o.global_batch / mesh.data;
  const auto m = static_cast<int>((share + o.micro_batch - 1) / o.micro_batch);
  PassCosts costs;
  if (o.stage.plan.recompute == RecomputeMode::kFull) costs.backward_input += costs.forward;
  return predicted_bubble(o.schedule, mesh.pipeline, m, o.chunks, costs).of_total;
}

}  // namespace

void Trainer::write_trace_file() {
  if (recipe_.train.trace.empty()) return;
  const std::vector<std::string> all =
      gather_texts(world_, *backend_, encode_trace(trace_.events()));
  if (!speaks()) return;
  std::vector<TraceEvent> events;
  TraceOptions options;
  for (int rank = 0; rank < world_.size(); ++rank) {
    decode_trace(all[static_cast<std::size_t>(rank)], rank, events);
    const std::string prefix = rank_prefix(mesh_.shape(), rank);  // "[rank 0: ...] "
    options.rank_names.push_back(prefix.substr(1, prefix.rfind(']') - 1));
  }
  const std::string path = recipe_.train.folder + "/trace.json.gz";
  write_trace(inputs_.files, path, events, options);
  inputs_.voice->say("trace: " + path + " (open it at ui.perfetto.dev)");
}

TrainingEnd Trainer::finish(bool stopped) {
  TrainingEnd end{.stopped = stopped};
  if (checkpoints_.saved_in_background()) memory_.mark_resident();  // without a snapshot
  const double seconds = now() - start_;
  std::vector<Answer> said;
  if (!stopped && recipe_.train.sample_every > 0) said = samples_of(0);
  const bool asked = !inputs_.samples.prompts.empty();
  if (speaks() && !said.empty()) {
    if (!asked) end.sample = said[0].text;
    inputs_.voice->keep(counts_.steps, said);
  }
  write_trace_file();

  std::vector<std::string> phases = {
      "forward",    "backward", "pipeline wait", "reduction and update",
      "evaluation", "samples",  "checkpoints"};
  if (verifier_) phases.push_back("verification");
  std::vector<double> spent = {busy_, walled_};
  for (const std::string& phase : phases) spent.push_back(time_[phase]);
  spent = reduce_values(world_, *backend_, spent, ReduceOp::kSum);
  const std::map<std::string, DiskCell> disk = disk_.over_ranks(world_, *backend_);
  const ForecastOptions how{.detail = Detail::kBytes,
                            .transport = transport_of(recipe_),
                            .background_save = checkpoints_.saved_in_background()};
  const std::vector<std::string> ranks =
      gather_texts(world_, *backend_, encode(rank_report(mesh_, engine_, memory_, traffic_, how)));
  if (world_.rank() != 0) return end;

  RunReport& report = end.report;
  for (const std::string& text : ranks) report.ranks.push_back(decode(text));
  for (std::size_t i = 0; i < phases.size(); ++i)
    report.time[phases[i]] = spent[i + 2] / world_.size();
  report.disk = disk;
  if (recipe_.parallel.pipeline > 1) {
    if (spent[1] > 0) report.bubble_measured = 1.0 - spent[0] / spent[1];
    report.bubble_predicted = predicted(engine_.options(), mesh_.shape());
  }
  report.steps = counts_.steps;
  report.skipped = counts_.skipped;
  if (verifier_) {
    report.verified = verifier_->verified();
    report.incidents = verifier_->incidents();
  }
  report.tokens = counts_.tokens;
  report.earlier_steps = earlier_.steps;
  report.earlier_tokens = earlier_.tokens;
  report.parameters = logical_parameters(engine_.options().model);
  report.seconds = seconds;
  report.loss = counts_.loss;
  report.validation_loss = counts_.validation;
  if (tunes())
    report.tuning = tuning_of(before_, {.validation_loss = counts_.validation,
                                        .answers = asked ? said : std::vector<Answer>()});
  return end;
}

}  // namespace trireme
