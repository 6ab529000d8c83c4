#include "framework/data/samples.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/data/permutation.h"

namespace trireme {

SampleSet::SampleSet(std::shared_ptr<const TokenFile> tokens, std::int64_t begin, std::int64_t end,
                     const SampleOptions& options)
    : tokens_(std::move(tokens)),
      begin_(begin),
      end_(end),
      options_(options),
      key_(key_from_seed(options.seed).child("data.shuffle")) {
  check(options.sequence >= 1 && end - begin > options.sequence, "samples: tokens ", begin, " to ",
        end, " do not hold one window of ", options.sequence, " tokens and its last label");
  windows_ = (end - begin - 1) / options.sequence;
}

std::int64_t SampleSet::first_token(std::int64_t sample) const {
  check(sample >= 0, "sample ", sample, " does not exist");
  const std::int64_t epoch = sample / windows_;
  std::int64_t window = sample % windows_;
  if (options_.shuffle)
    window = Permutation(key_.child(static_cast<std::uint64_t>(epoch)), windows_)(window);
  return begin_ + window * options_.sequence;
}

void SampleSet::fill(std::int64_t first, std::int64_t count, std::vector<std::int32_t>& ids,
                     std::vector<std::int32_t>& labels) const {
  const std::int64_t length = options_.sequence;
  const bool each = options_.labels == LabelKind::kNextOfEach;
  ids.resize(static_cast<std::size_t>(count * length));                    // (B, S)
  labels.resize(static_cast<std::size_t>(each ? count * length : count));  // (B, S) or (B)
  std::vector<std::int32_t> window(static_cast<std::size_t>(length + 1));
  const bool masked = tokens_->header().masked;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = first_token(first + i);
    tokens_->copy(from, length + 1, options_.vocabulary, window.data());
    std::copy(window.begin(), window.end() - 1, ids.begin() + i * length);
    for (std::int64_t t = each ? 1 : length; masked && t <= length; ++t)
      if (!tokens_->trained(from + t)) window[static_cast<std::size_t>(t)] = -1;
    if (each)
      std::copy(window.begin() + 1, window.end(), labels.begin() + i * length);
    else
      labels[static_cast<std::size_t>(i)] = window.back();
  }
}

bool SampleSet::knows_documents() const {
  return tokens_->header().bounded || (tokens_->header().about.empty() && options_.end_of_text);
}

void SampleSet::document_starts(std::int64_t first, std::int64_t count,
                                std::vector<std::int32_t>& starts) const {
  check(knows_documents(), "token file ", tokens_->path(), " does not tell where documents begin; ",
        tokens_->header().about.empty() ? "its tokenizer has no end-of-text token"
                                        : "make it again with trireme tokenize");
  const std::int64_t length = options_.sequence;
  const bool marked = tokens_->header().bounded;
  starts.resize(static_cast<std::size_t>(count * length));
  std::vector<std::int32_t> window(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = first_token(first + i);
    if (!marked) tokens_->copy(from, length, options_.vocabulary, window.data());
    const auto begins = [&](std::int64_t t) {
      if (marked) return tokens_->begins_document(from + t);
      return t > 0 && window[static_cast<std::size_t>(t - 1)] == *options_.end_of_text;
    };
    std::int64_t start = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      if (begins(t)) start = t;
      starts[static_cast<std::size_t>(i * length + t)] = static_cast<std::int32_t>(start);
    }
  }
}

TokenDataset::TokenDataset(std::shared_ptr<const TokenFile> tokens, const SampleOptions& options)
    : tokens_(std::move(tokens)) {
  const std::int64_t length = options.sequence;
  const std::int64_t count = tokens_->count();
  check(length >= 1, "batch.sequence = ", length, ": a sample needs at least 1 token");
  check(options.validation >= 0.0 && options.validation < 1.0,
        "data.validation = ", options.validation, ": use a fraction from 0 up to, but below, 1");
  check(tokens_->header().vocabulary <= options.vocabulary, "token file ", tokens_->path(),
        " was made with a vocabulary of ", tokens_->header().vocabulary, " (tokenizer \"",
        tokens_->header().tokenizer, "\"), but model.vocab = ", options.vocabulary);
  const auto tail =
      static_cast<std::int64_t>(std::llround(static_cast<double>(count) * options.validation));
  const std::int64_t cut = count - tail;
  check(cut > length, "token file ", tokens_->path(), " has ", cut,
        " tokens for training, but "
        "batch.sequence = ",
        length, " needs at least ", length + 1,
        cut > 1 ? join("; use batch.sequence = ", cut - 1, " or less, or more text") : "");
  train_ = std::make_unique<SampleSet>(tokens_, 0, cut, options);
  if (options.validation == 0.0) return;
  check(tail > length, "token file ", tokens_->path(), " has ", tail,
        " tokens for validation "
        "(data.validation = ",
        options.validation, " of ", count, "), but batch.sequence = ", length, " needs at least ",
        length + 1, "; use data.validation = 0 to hold nothing out, a larger part",
        tail > 1 ? join(", or batch.sequence = ", tail - 1, " or less") : "");
  SampleOptions in_order = options;
  in_order.shuffle = false;
  validation_ = std::make_unique<SampleSet>(tokens_, cut, count, in_order);
}

}  // namespace trireme
