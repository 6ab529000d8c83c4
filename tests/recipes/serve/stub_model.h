// A model without weights for tests of serving. It keeps a cache of pages as a real one does, of
// tokens instead of keys and values, and reads a text back through its page list: a page that was
// lost, shared wrongly or taken too early changes what it says next.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "framework/backend/infer_kernels.h"
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

class StubModel final : public ModelRunner {
 public:
  StubModel(std::int64_t vocab, std::int64_t pages, std::int64_t context, NextToken next,
            int groups = 1)
      : vocab_(vocab),
        context_(context),
        groups_(groups),
        next_(std::move(next)),
        tokens_(static_cast<std::size_t>(pages), Ids(kPageTokens, -1)) {}

  std::int64_t vocab() const override { return vocab_; }
  std::int64_t pages() const override { return std::ssize(tokens_); }
  std::int64_t context() const override { return context_; }
  int groups() const override { return groups_; }
  std::span<const Logits> run(std::span<const InferenceRows> micros) override {
    all_.clear();
    rows_of_passes.push_back(0);
    for (const InferenceRows& m : micros) {
      rows_of_passes.back() += std::ssize(m.ids);
      all_.push_back(answer(m));
    }
    return all_;
  }

  std::vector<std::int64_t> rows_of_passes;

 private:
  Logits answer(const InferenceRows& m) {
    Logits logits;
    for (const PagedSequence& s : m.sequences) {
      for (std::int64_t r = 0; r < s.rows; ++r)
        at(s, s.first_position + r) = m.ids[static_cast<std::size_t>(s.first_row + r)];
      for (const std::int64_t row : m.logit_rows)
        if (row >= s.first_row && row < s.first_row + s.rows)
          put(logits, s, s.first_position + row - s.first_row);
    }
    return logits;
  }
  std::int32_t& at(const PagedSequence& s, std::int64_t position) {
    const auto page =
        static_cast<std::size_t>(s.pages[static_cast<std::size_t>(position / kPageTokens)]);
    return tokens_.at(page)[static_cast<std::size_t>(position % kPageTokens)];
  }
  void put(Logits& logits, const PagedSequence& s, std::int64_t last) {
    Ids text;
    for (std::int64_t p = 0; p <= last; ++p) text.push_back(at(s, p));
    const std::int32_t next = next_(text);
    for (std::int32_t id = 0; id < vocab_; ++id)
      logits.push_back(next < 0 ? std::numeric_limits<float>::quiet_NaN()
                                : static_cast<float>((id == next ? 4 : 0) - id * 1e-3));
  }

  std::int64_t vocab_, context_;
  int groups_;
  NextToken next_;
  std::vector<Ids> tokens_;
  std::vector<Logits> all_;
};

}  // namespace trireme::test
