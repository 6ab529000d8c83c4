// The scores of single samples: a forward pass that keeps the sums of every row.
#include <algorithm>
#include <cmath>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "recipes/models/engine.h"

namespace trireme {

namespace {

// sums (tokens, 3) as Kernels::cross_entropy_sums has them.
SampleScore score_of(std::span<const double> sums, std::span<const std::int32_t> labels) {
  SampleScore score;
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] < 0) continue;
    const double below_largest = sums[3 * t + 1];
    score.loss += std::log(sums[3 * t]) - below_largest;
    score.likeliest = score.likeliest && below_largest == 0;
  }
  return score;
}

// Of a micro-batch that has run, by sample.
std::vector<SampleScore> scores_of(Backend& backend, const MicroBatch& micro, std::int64_t tokens) {
  const std::vector<double> sums = download_doubles(backend, micro.target.sums);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(micro.samples * tokens));
  backend.download(micro.target.labels, labels.data());
  const auto row = static_cast<std::size_t>(tokens);
  std::vector<SampleScore> scores;
  for (std::size_t at = 0; at < labels.size(); at += row)
    scores.push_back(
        score_of(std::span(sums).subspan(3 * at, 3 * row), std::span(labels).subspan(at, row)));
  return scores;
}

}  // namespace

std::vector<SampleScore> Engine::score(std::int64_t samples, std::int64_t tokens,
                                       const SampleSource& source) {
  check(tokens >= 1 && tokens <= options_.model.sequence, "score: samples of ", tokens,
        " tokens, but the model sees 1 to ", options_.model.sequence);
  const int cuts = options_.stage.plan.sequence_parallel ? mesh_.shape().tensor : 1;
  check(tokens % cuts == 0, "score: ", tokens, " tokens a sample cannot be cut over ", cuts,
        " tensor ranks");
  mesh_.world().set_place("scoring");
  const std::int64_t ranks = mesh_.shape().data, rank = mesh_.coord().data;
  const std::int64_t begin = samples * rank / ranks, end = samples * (rank + 1) / ranks;
  check(options_.model.family == Family::kDecoder, "score: only a causal model scores each token");
  const std::int64_t at_once = options_.micro_batch * options_.model.sequence / tokens;
  Batch batch = load(begin, end - begin, at_once, source);
  // As in evaluate(): all data ranks do as many passes.
  const std::int64_t share = (samples + ranks - 1) / ranks;
  const std::int64_t micros = (share + at_once - 1) / at_once;
  while (std::ssize(batch.micros) < micros) add_uncounted(batch, source);
  aim(batch, 0.0, 0.0, backend_.zeros({1}, DType::kF64, MemoryKind::kWorkspace));
  const bool tells = last_stage() && mesh_.coord().tensor == 0;
  if (last_stage())
    for (MicroBatch& micro : batch.micros)
      micro.target.sums =
          backend_.allocate({micro.samples * tokens, 3}, accumulation_type(options_.stage.compute),
                            MemoryKind::kWorkspace);
  if (micros > 0) {
    const ActionList actions = forward_only(mesh_.shape().pipeline, static_cast<int>(micros),
                                            options_.chunks, mesh_.coord().pipeline);
    RunnerOptions options = runner_options("scoring", false);
    options.tokens = tokens;
    Runner runner(backend_, mesh_.pipeline(), chunks_for(tokens));
    stage_->begin_forward_pass(actions);
    runner.run(actions, batch.micros, options);
    stage_->end_pass();
  }
  std::vector<double> told(static_cast<std::size_t>(2 * samples), 0.0);
  std::size_t at = static_cast<std::size_t>(2 * begin);
  for (std::size_t i = 0; tells && at < static_cast<std::size_t>(2 * end); ++i)
    for (const SampleScore& score : scores_of(backend_, batch.micros[i], tokens)) {
      told[at++] = score.loss;
      told[at++] = score.likeliest ? 1 : 0;
    }
  return shared(told);
}

// Those of all ranks; every sample is told by one.
std::vector<SampleScore> Engine::shared(std::vector<double>& told) {
  std::vector<SampleScore> scores;
  if (told.empty()) return scores;
  Tensor all = backend_.allocate({static_cast<std::int64_t>(told.size())}, DType::kF64,
                                 MemoryKind::kWorkspace);
  upload_doubles(backend_, told, all);
  mesh_.world().all_reduce(all).wait();
  told = download_doubles(backend_, all);
  for (std::size_t i = 0; i < told.size(); i += 2)
    scores.push_back({.loss = told[i], .likeliest = told[i + 1] != 0});
  return scores;
}

}  // namespace trireme
