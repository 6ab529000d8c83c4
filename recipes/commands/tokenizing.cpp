#include "recipes/commands/tokenizing.h"

#include "framework/base/error.h"
#include "recipes/report/numbers.h"

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

void expect_room(const Tokenizer& tokenizer, std::int64_t vocab) {
  if (tokenizer.vocabulary() > vocab)
    throw UsageError(join("the tokenizer has ids up to ", tokenizer.vocabulary() - 1,
                          ", but model.vocab = ", vocab, "; give a model.vocab of at least ",
                          tokenizer.vocabulary()));
}

}  // namespace trireme
