// The text of one answer as its tokens come: whole UTF-8, and nothing that a stop string may still
// take back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/data/tokenizer.h"

namespace trireme {

class OutputText {
 public:
  // `prompt`: what stands before, so that a blank is lost at the beginning of a text only. The
  // tokenizer must outlive this.
  OutputText(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt, bool skip_special,
             std::vector<std::string> stops, bool include_stop);

  // What can be said now; often empty. Nothing more is said once stopped(). No stop string is
  // looked for in what is said up to and with a token that `may_stop` is false for.
  std::string push(std::int32_t id, bool may_stop = true);
  // The rest, when no stop string ended it.
  std::string finish();
  // A stop string was found; it is cut off unless it is to be included.
  bool stopped() const { return !stop_.empty(); }
  const std::string& stop() const { return stop_; }

 private:
  std::string settle(bool all);

  StreamingDecoder decoder_;
  std::vector<std::string> stops_;
  bool include_stop_;
  std::string held_, stop_;
};

}  // namespace trireme
