#include "recipes/commands/score_batches.h"

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

using Words = std::vector<std::int32_t>;

// Rank 0's words, as many on all ranks.
void share(const OpenedModel& model, Words& words) {
  Communicator& world = model.mesh.world();
  if (world.size() == 1 || words.empty()) return;
  Tensor t = model.backend.allocate({std::ssize(words)}, DType::kI32, MemoryKind::kCommunication);
  if (world.rank() == 0) upload_ids(model.backend, words, t);
  world.broadcast(t, 0).wait();
  if (world.rank() != 0) model.backend.download(t, words.data());
}

// The leader's batch to all ranks. One without samples is the end.
void hand_out(const OpenedModel& model, ScoreBatch& batch) {
  Words head = {static_cast<std::int32_t>(batch.samples), static_cast<std::int32_t>(batch.tokens),
                batch.starts.empty() ? 0 : 1};
  share(model, head);
  batch.samples = head[0];
  batch.tokens = head[1];
  const auto all = static_cast<std::size_t>(batch.samples * batch.tokens);
  for (Words* words : {&batch.ids, &batch.labels}) {
    words->resize(all);
    share(model, *words);
  }
  batch.starts.resize(head[2] == 1 ? all : 0);
  share(model, batch.starts);
}

SampleSource source_of(const ScoreBatch& batch) {
  const auto part = [&batch](const Words& from, std::int64_t first, std::int64_t count, Words& to) {
    const auto begin = from.begin() + first * batch.tokens;
    to.assign(begin, begin + count * batch.tokens);
  };
  const auto fill = [&batch, part](std::int64_t first, std::int64_t count, Words& ids,
                                   Words& labels) {
    part(batch.ids, first, count, ids);
    part(batch.labels, first, count, labels);
  };
  if (batch.starts.empty()) return fill;
  return {fill, [&batch, part](std::int64_t first, std::int64_t count, Words& starts) {
            part(batch.starts, first, count, starts);
          }};
}

std::vector<SampleScore> scores_of(const OpenedModel& model, const ScoreBatch& batch) {
  return model.engine.score(batch.samples, batch.tokens, source_of(batch));
}

}  // namespace

ScoreLeader::ScoreLeader(const Process& process, const OpenedModel& model, std::int64_t all,
                         const char* what)
    : process_(process),
      model_(model),
      all_(all),
      what_(what),
      console_(process.err, process.terminal, nullptr) {}

std::vector<SampleScore> ScoreLeader::score(ScoreBatch batch) {
  const bool asked = asked_to_end(process_, model_);
  if (asked) batch = {};
  hand_out(model_, batch);
  check(!asked, "evaluate: ended by a signal after ", done_, " of ", all_, " ", what_);
  if (done_ > 0) show();
  done_ += batch.samples;
  return scores_of(model_, batch);
}

void ScoreLeader::end() {
  ScoreBatch none;
  asked_to_end(process_, model_);
  hand_out(model_, none);
}

void ScoreLeader::show() {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
  const double left =
      spent.count() * static_cast<double>(all_ - done_) / static_cast<double>(done_);
  console_.bar(
      done_, all_,
      join(grouped(done_), " of ", grouped(all_), " ", what_, ", eta ", duration_text(left)));
}

void follow_scores(const Process& process, const OpenedModel& model) {
  for (;;) {
    asked_to_end(process, model);
    ScoreBatch batch;
    hand_out(model, batch);
    if (batch.samples == 0) return;
    scores_of(model, batch);
  }
}

}  // namespace trireme
