#include "recipes/commands/tokenizing.h"

#include "framework/base/error.h"
#include "framework/base/program.h"
#include "framework/data/package_text.h"
#include "framework/data/text_files.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"

namespace trireme {

TokenizingBar::TokenizingBar(Process& process)
    : console_(process.err, process.terminal, nullptr),
      live_(process.terminal.live()),
      threads_(process.cores()) {}

double TokenizingBar::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

TokenizeOptions TokenizingBar::options() {
  return {.threads = threads_,
          .progress = [this](std::int64_t done, std::int64_t all) { show(done, all); }};
}

TokenizeOptions TokenizingBar::options(const Recipe& recipe) {
  TokenizeOptions options = this->options();
  options.skip_bad = recipe.data.skip_bad;
  const std::string& loss = recipe.data.loss_on;
  if (loss != "auto")
    options.loss_on = loss == "all"    ? LossOn::kAll
                      : loss == "last" ? LossOn::kLast
                                       : LossOn::kAssistant;
  return options;
}

void TokenizingBar::show(std::int64_t done, std::int64_t all) {
  const double now = seconds(), pause = live_ ? 0.1 : 10;
  if (now - shown_ < pause || done == 0) return;
  shown_ = now;
  const double rate = static_cast<double>(done) / now;
  const std::string beside =
      join(bytes_text(done), " of ", bytes_text(all), ", ", fixed(rate * 1e-6, 1), " MB/s, eta ",
           duration_text(static_cast<double>(all - done) / rate));
  if (live_)
    console_.bar(done, all, beside);
  else
    console_.line("tokenizing: " + beside);
}

void expect_room(const Tokenizer& tokenizer, const Recipe& recipe) {
  const std::int64_t vocab = recipe.model.vocab, last = tokenizer.vocabulary() - 1;
  if (last < vocab) return;
  const std::string has = join("the tokenizer has ids up to ", last);
  if (recipe.model.from.empty())
    throw UsageError(
        join(has, ", but model.vocab = ", vocab, "; give a model.vocab of at least ", last + 1));
  throw UsageError(
      join(has, " (\"", printable(tokenizer.token_of(last)), "\"), but the model of ",
           recipe.model.from, " has rows for ", vocab,
           " only: take what is beyond out of added_tokens in tokenizer.json, or give ",
           "the model rows for it"));
}

namespace {

// Samples are shown, and the vocabulary is told, by data.tokenizer.
void expect_same_tokenizer(const TokenFile& tokens, const Recipe& recipe,
                           const Tokenizer& tokenizer) {
  if (tokens.header().tokenizer == tokenizer.name()) return;
  throw UsageError(join("data.tokens = ", tokens.path(), " was made with the tokenizer \"",
                        tokens.header().tokenizer,
                        "\", but data.tokenizer = ", recipe.data.tokenizer, " is \"",
                        tokenizer.name(), "\"; give data.tokenizer the one that made the tokens"));
}

}  // namespace

std::vector<std::string> texts_of(Process& process, const std::string& value) {
  return text_files(process.files,
                    resolve_text(process.files, value, process.cache_folder(), run_program));
}

OpenedData open_data(Process& process, const Recipe& recipe, const Tokenizer& tokenizer) {
  if (!recipe.data.tokens.empty()) {
    OpenedData opened{TokenFile::open(process.files, recipe.data.tokens), {}};
    expect_same_tokenizer(*opened.tokens, recipe, tokenizer);
    return opened;
  }
  const std::vector<std::string> texts = texts_of(process, recipe.data.text);
  TokenizingBar bar(process);
  const CachedTokens cached =
      cached_tokens(process.files, texts, process.cache_folder(), tokenizer, bar.options(recipe));
  std::string note = cached.note;
  if (texts.size() > 1)
    note = join("data.text = ", recipe.data.text, ": ", name_of(texts), note.empty() ? "" : "\n",
                note);
  return {TokenFile::open(process.files, cached.path, false), note};
}

}  // namespace trireme
