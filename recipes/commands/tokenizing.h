// What the subcommands that tokenize have in common: threads, a bar on standard error, and what a
// model must have room for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/text_tokens.h"
#include "framework/data/token_file.h"
#include "recipes/commands/process.h"
#include "recipes/report/console.h"

namespace trireme {

// Bytes, MB/s and the time that is left: a bar on a live terminal, elsewhere a line each ten
// seconds. Gone when destroyed.
class TokenizingBar {
 public:
  explicit TokenizingBar(Process& process);

  // On all cores, telling this bar, which must outlive the call.
  TokenizeOptions options();
  // The same with data.loss_on and data.skip_bad.
  TokenizeOptions options(const Recipe& recipe);
  double seconds() const;

 private:
  void show(std::int64_t done, std::int64_t all);

  using Clock = std::chrono::steady_clock;
  Console console_;
  bool live_;
  int threads_;
  Clock::time_point begin_ = Clock::now();
  double shown_ = 0;  // seconds after begin_
};

// The files of a value of data.text: text_files, or the text of a package.
std::vector<std::string> texts_of(Process& process, const std::string& value);

struct OpenedData {
  std::shared_ptr<const TokenFile> tokens;
  std::string note;  // sentences worth logging, or empty
};
// data.tokens, or data.text through the cache. In an MPI run only one process of a machine may call
// this at a time. UsageError for tokens of another tokenizer.
OpenedData open_data(Process& process, const Recipe& recipe, const Tokenizer& tokenizer);

// UsageError unless all ids of the tokenizer are rows of the recipe's model.
void expect_room(const Tokenizer& tokenizer, const Recipe& recipe);

}  // namespace trireme
