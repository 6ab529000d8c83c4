// Loss and perplexity of a text.
#include <algorithm>
#include <chrono>
#include <ostream>

#include "framework/base/error.h"
#include "framework/base/program.h"
#include "framework/data/package_text.h"
#include "framework/data/text_stream.h"
#include "framework/data/text_tokens.h"
#include "framework/data/token_file.h"
#include "recipes/commands/evaluate.h"
#include "recipes/commands/score_windows.h"
#include "recipes/commands/tokenizing.h"
#include "recipes/report/numbers.h"
#include "recipes/train/gather.h"

namespace trireme {

namespace {

constexpr std::int64_t kMicrosAtOnce = 8;

struct ScoredTokens {
  std::shared_ptr<const TokenFile> file;
  std::optional<std::int32_t> start;  // before the file's
  std::int64_t vocabulary = 0;        // of the model

  std::int64_t count() const { return file->count() + (start ? 1 : 0); }
  std::vector<std::int32_t> range(std::int64_t begin, std::int64_t end) const {
    std::vector<std::int32_t> ids;
    if (start && begin == 0) ids.push_back(*start);
    const std::int64_t before = start ? 1 : 0;
    const std::int64_t from = std::max<std::int64_t>(0, begin - before), to = end - before;
    const std::size_t had = ids.size();
    ids.resize(static_cast<std::size_t>(end - begin));
    if (to > from) file->copy(from, to - from, vocabulary, ids.data() + had);
    return ids;
  }
};

// Runs of bytes that are no ASCII blanks.
std::int64_t words_of(Files& files, const std::string& path) {
  TextStream text(files, path);
  std::int64_t words = 0;
  bool inside = false;
  for (std::string_view piece = text.next(); !piece.empty(); piece = text.next())
    for (const char c : piece) {
      const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
      words += !blank && !inside ? 1 : 0;
      inside = !blank;
    }
  return words;
}

void expect_plain_text(const std::string& text) {
  for (const char* ending : {".jsonl", ".ndjson", ".json"})
    for (const char* packing : {"", ".gz", ".zst"})
      if (text.ends_with(std::string(ending) + packing))
        throw UsageError(join("evaluate: data.text = ", text, ": a plain text is expected, not ",
                              ending, "; --task reads lines of JSON"));
}

std::shared_ptr<const TokenFile> open_tokens(Process& process, const ModelSource& source,
                                             TextResult& result) {
  const DataSection& data = source.recipe.data;
  if (!data.tokens.empty()) {
    auto tokens = TokenFile::open(process.files, data.tokens);
    if (tokens->header().tokenizer != source.tokenizer->name())
      throw UsageError(join("data.tokens = ", data.tokens, " was made with the tokenizer \"",
                            tokens->header().tokenizer, "\", but the model's is \"",
                            source.tokenizer->name(), "\""));
    return tokens;
  }
  const std::string cache = process.cache_folder();
  const std::string text = resolve_text(process.files, data.text, cache, run_program);
  expect_plain_text(text);
  TokenizingBar bar(process);
  const CachedTokens cached =
      cached_tokens(process.files, text, cache, *source.tokenizer, bar.options());
  if (!cached.note.empty()) process.err << cached.note << "\n";
  result.words = words_of(process.files, text);
  return TokenFile::open(process.files, cached.path, false);
}

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
      labels[static_cast<std::size_t>(row + at - 1 - begin)] =
          seen[static_cast<std::size_t>(at - begin)];
  }
}

void measure(const Process& process, const OpenedModel& model, const ScoredTokens& tokens,
             const ScoreWindows& windows, TextResult& result) {
  const auto begin = std::chrono::steady_clock::now();
  const Recipe& recipe = model.source.recipe;
  const std::int64_t at_once = recipe.parallel.data * recipe.batch.micro * kMicrosAtOnce;
  double nats = 0;
  ScoreProgress progress(process, model, windows.count(), "windows");
  for (std::int64_t done = 0; done < windows.count(); done += at_once) {
    progress.at(done);
    const std::int64_t count = std::min(at_once, windows.count() - done);
    const auto scores =
        model.engine.score(count, windows.window,
                           [&](std::int64_t first, std::int64_t samples, auto& ids, auto& labels) {
                             fill_windows(tokens, windows, done + first, samples, ids, labels);
                           });
    for (const SampleScore& score : scores) nats += score.loss;
  }
  if (model.mesh.world().rank() != 0) return;
  result.nats = nats;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

ScoreProgress::ScoreProgress(const Process& process, const OpenedModel& model, std::int64_t all,
                             const char* what)
    : process_(process), model_(model), all_(all), what_(what) {
  if (model.mesh.world().rank() == 0) console_.emplace(process.err, process.terminal, nullptr);
}

void ScoreProgress::at(std::int64_t done) {
  const double asked = process_.signals.load() > 0 ? 1 : 0;
  const double any =
      reduce_values(model_.mesh.world(), model_.backend, {asked}, ReduceOp::kMax).front();
  check(any == 0, "evaluate: ended by a signal after ", done, " of ", all_, " ", what_);
  if (!console_ || done == 0) return;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
  const double left = spent.count() * static_cast<double>(all_ - done) / static_cast<double>(done);
  console_->bar(
      done, all_,
      join(grouped(done), " of ", grouped(all_), " ", what_, ", eta ", duration_text(left)));
}

ModelWork text_work(Process& process, const ModelSource& source, std::int64_t stride,
                    TextResult& result) {
  const ScoredTokens tokens{open_tokens(process, source, result),
                            source.recipe.data.tokens.empty() ? source.start : std::nullopt,
                            source.recipe.model.vocab};
  const std::int64_t window = source.recipe.batch.sequence;
  if (stride > window)
    throw UsageError(join("--stride ", stride, ": windows have batch.sequence = ", window,
                          " tokens, so 1 to ", window, " is expected"));
  check(tokens.count() >= 2, "evaluate: the text has ", tokens.count(),
        " token(s); the first is never scored, so 2 are needed");
  const ScoreWindows windows{
      .tokens = tokens.count(), .window = window, .stride = stride == 0 ? window : stride};
  result.window = window;
  result.stride = windows.stride;
  result.windows = windows.count();
  result.tokens = tokens.count();
  result.scored = tokens.count() - 1;
  return [&process, &result, tokens, windows](const OpenedModel& model) {
    measure(process, model, tokens, windows, result);
  };
}

}  // namespace trireme
