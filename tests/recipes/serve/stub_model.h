// A model without weights for tests of serving. It keeps a cache of pages as a real one does, of
// tokens instead of keys and values, and reads a text back through its page list: a page that was
// lost, shared wrongly or taken too early changes what it says next. Replicas have pages of their
// own.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"
#include "recipes/serve/model_runner.h"

namespace trireme::test {

using Ids = std::vector<std::int32_t>;
// The next token of a text; below 0: logits that are no numbers.
using NextToken = std::function<std::int32_t(const Ids& text)>;

// Some token that depends on all of the text.
inline std::int32_t mixed(const Ids& text, std::int32_t vocab) {
  std::uint64_t hash = 1469598103934665603u;
  for (const std::int32_t id : text)
    hash = (hash ^ static_cast<std::uint64_t>(id + 1)) * 1099511628211u;
  return static_cast<std::int32_t>((hash >> 20) % static_cast<std::uint64_t>(vocab));
}

// What such a model says after a prompt, and prompts of any tokens.
inline constexpr std::int32_t kVocab = 256;
inline Ids continued(const Ids& prompt, std::int64_t count) {
  Ids text = prompt;
  for (std::int64_t i = 0; i < count; ++i) text.push_back(mixed(text, kVocab));
  return {text.begin() + std::ssize(prompt), text.end()};
}
inline Ids prompt_of(std::uint64_t seed, std::size_t length) {
  std::mt19937_64 random(seed);
  Ids ids;
  for (std::size_t i = 0; i < length; ++i)
    ids.push_back(static_cast<std::int32_t>(random() % kVocab));
  return ids;
}

class StubModel final : public ModelRunner {
 public:
  StubModel(std::int64_t vocab, std::int64_t pages, std::int64_t context, NextToken next,
            int stages = 1, int replicas = 1)
      : vocab_(vocab),
        context_(context),
        stages_(stages),
        next_(std::move(next)),
        tokens_(static_cast<std::size_t>(replicas),
                std::vector<Ids>(static_cast<std::size_t>(pages), Ids(kPageTokens, -1))) {}

  std::int64_t vocab() const override { return vocab_; }
  std::int64_t pages() const override { return std::ssize(tokens_[0]); }
  std::int64_t context() const override { return context_; }
  int stages() const override { return stages_; }
  int replicas() const override { return static_cast<int>(tokens_.size()); }
  // Passes run at once; what they say waits.
  void start(std::span<const InferenceRows> passes) override {
    check(std::ssize(passes) == replicas() && std::ssize(said_) < stages_, "stub: ", passes.size(),
          " passes for ", replicas(), " replicas, ", said_.size(), " in flight");
    if (keeps_rows) keep_rows(passes);
    said_.emplace_back();
    for (std::size_t r = 0; r < passes.size(); ++r) said_.back().push_back(answer(r, passes[r]));
  }
  std::span<PassAnswer> finish() override {
    check(!said_.empty(), "stub: nothing is in flight");
    all_ = std::move(said_.front());
    said_.pop_front();
    return all_;
  }

  bool keeps_rows = true;  // of all passes, below
  std::vector<std::int64_t> rows_of_passes;
  std::vector<std::vector<std::int64_t>> rows_of_replicas;

 private:
  void keep_rows(std::span<const InferenceRows> passes) {
    rows_of_passes.push_back(0);
    rows_of_replicas.emplace_back();
    for (const InferenceRows& pass : passes) {
      rows_of_passes.back() += std::ssize(pass.ids);
      rows_of_replicas.back().push_back(std::ssize(pass.ids));
    }
  }
  PassAnswer answer(std::size_t replica, const InferenceRows& m) {
    PassAnswer said;
    for (const PagedSequence& s : m.sequences) {
      for (std::int64_t r = 0; r < s.rows; ++r)
        at(replica, s, s.first_position + r) = m.ids[static_cast<std::size_t>(s.first_row + r)];
      const auto holds = [&](std::int64_t row) {
        return row >= s.first_row && row < s.first_row + s.rows;
      };
      for (const std::int64_t row : m.logit_rows)
        if (holds(row)) put(said.logits, replica, s, s.first_position + row - s.first_row);
      for (const std::int64_t row : m.top.rows) {
        if (!holds(row)) continue;
        Logits logits;
        put(logits, replica, s, s.first_position + row - s.first_row);
        const TopRows top{.count = m.top.count, .valid = m.top.ids, .sums = m.top.sums};
        std::vector<std::int32_t> words(static_cast<std::size_t>(top.words()));
        top_of_row(top, logits, words);
        const std::span<const std::int32_t> part = words;
        said.top.push_back(merged_top(top, std::span(&part, 1)));
      }
    }
    return said;
  }
  std::int32_t& at(std::size_t replica, const PagedSequence& s, std::int64_t position) {
    const auto page =
        static_cast<std::size_t>(s.pages[static_cast<std::size_t>(position / kPageTokens)]);
    return tokens_[replica].at(page)[static_cast<std::size_t>(position % kPageTokens)];
  }
  void put(Logits& logits, std::size_t replica, const PagedSequence& s, std::int64_t last) {
    Ids text;
    for (std::int64_t p = 0; p <= last; ++p) text.push_back(at(replica, s, p));
    const std::int32_t next = next_(text);
    for (std::int32_t id = 0; id < vocab_; ++id)
      logits.push_back(next < 0 ? std::numeric_limits<float>::quiet_NaN()
                                : static_cast<float>((id == next ? 4 : 0) - id * 1e-3));
  }

  std::int64_t vocab_, context_;
  int stages_;
  NextToken next_;
  std::vector<std::vector<Ids>> tokens_;  // by replica and page
  std::deque<std::vector<PassAnswer>> said_;
  std::vector<PassAnswer> all_;
};

}  // namespace trireme::test
