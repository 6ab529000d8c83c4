// Loss and perplexity of a text, or of documents.
#include <algorithm>
#include <chrono>
#include <span>

#include "framework/base/error.h"
#include "recipes/commands/evaluate.h"
#include "recipes/commands/score_batches.h"
#include "recipes/commands/score_windows.h"
#include "recipes/commands/scored_tokens.h"

namespace trireme {

namespace {

constexpr std::int64_t kMicrosAtOnce = 8;

// Windows [first, first + count) as samples.
void fill_windows(const ScoredTokens& tokens, const ScoreWindows& windows, std::int64_t first,
                  std::int64_t count, std::vector<std::int32_t>& ids,
                  std::vector<std::int32_t>& labels) {
  const auto all = static_cast<std::size_t>(count * windows.window);
  ids.assign(all, 0);
  labels.assign(all, -1);
  for (std::int64_t k = first; k < first + count; ++k) {
    const std::int64_t begin = windows.begin(k);
    const std::vector<std::int32_t> seen = tokens.range(begin, windows.last_scored(k));
    const std::int64_t row = (k - first) * windows.window;
    std::copy(seen.begin(), seen.end() - 1, ids.begin() + row);
    for (std::int64_t at = windows.first_scored(k); at < windows.last_scored(k); ++at)
      if (tokens.scored(at))
        labels[static_cast<std::size_t>(row + at - 1 - begin)] =
            seen[static_cast<std::size_t>(at - begin)];
  }
}

// Where their documents begin; what fills a window up belongs to its last one.
void fill_starts(const ScoredTokens& tokens, const ScoreWindows& windows, std::int64_t first,
                 std::int64_t count, std::vector<std::int32_t>& starts) {
  starts.assign(static_cast<std::size_t>(count * windows.window), 0);
  for (std::int64_t k = first; k < first + count; ++k) {
    const std::span all(starts.data() + (k - first) * windows.window,
                        static_cast<std::size_t>(windows.window));
    const auto seen = static_cast<std::size_t>(windows.end(k) - windows.begin(k));
    tokens.document_starts(windows.begin(k), all.first(seen));
    for (std::size_t t = seen; t < all.size(); ++t) all[t] = all[seen - 1];
  }
}

void measure(const Process& process, const OpenedModel& model, const ScoredTokens& tokens,
             const ScoreWindows& windows, TextResult& result) {
  const auto begin = std::chrono::steady_clock::now();
  const Recipe& recipe = model.source.recipe;
  const std::int64_t at_once = recipe.parallel.data * recipe.batch.micro * kMicrosAtOnce;
  ScoreLeader leader(process, model, windows.count(), "windows");
  for (std::int64_t done = 0; done < windows.count(); done += at_once) {
    ScoreBatch batch{.samples = std::min(at_once, windows.count() - done),
                     .tokens = windows.window};
    fill_windows(tokens, windows, done, batch.samples, batch.ids, batch.labels);
    if (tokens.apart()) fill_starts(tokens, windows, done, batch.samples, batch.starts);
    for (const SampleScore& score : leader.score(std::move(batch))) result.nats += score.loss;
  }
  leader.end();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

ModelWork text_work(Process& process, const ModelSource& source, const TextOptions& options,
                    TextResult& result) {
  const auto tokens = std::make_shared<const ScoredTokens>(process, source, options.loss_on);
  const std::int64_t window = source.recipe.batch.sequence, stride = options.stride;
  if (stride > window)
    throw UsageError(join("--stride ", stride, ": windows have batch.sequence = ", window,
                          " tokens, so 1 to ", window, " is expected"));
  const ScoreWindows windows{
      .tokens = tokens->count(), .window = window, .stride = stride == 0 ? window : stride};
  result = {.about = tokens->about(),
            .documents = tokens->documents(),
            .window = window,
            .stride = windows.stride,
            .windows = windows.count(),
            .tokens = tokens->count(),
            .scored = tokens->scored_count(),
            .words = tokens->words()};
  return [&process, &result, tokens, windows](const OpenedModel& model) {
    measure(process, model, *tokens, windows, result);
  };
}

}  // namespace trireme
