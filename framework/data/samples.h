// Which tokens make which sample. Pure functions of (options, global sample number): resuming is
// exact, and every rank, whatever the number of ranks, sees the same sample under the same number.
//
// The tokens are cut once: the head trains, the tail (a fraction) validates. Each part is cut into
// non-overlapping windows of `sequence` tokens; a window also looks at one token more, for its last
// label. Tokens behind the last whole window are not used. One pass over all windows is an epoch.
//
// Step k (from 0) of training with `batch.global` = G uses the samples [k*G, (k+1)*G); data rank d
// of D takes the share [k*G + d*G/D, k*G + (d+1)*G/D).
//
// Legend: B samples, S tokens of a sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/random.h"
#include "framework/data/token_file.h"

namespace trireme {

enum class LabelKind : std::uint8_t {
  kNextOfEach,  // (B, S): each token's successor; language models
  kNextOfLast,  // (B): the token after the window; classifiers
};

struct SampleOptions {
  std::int64_t sequence = 0;    // S, at least 1
  double validation = 0.0;      // fraction of the tokens, in [0, 1)
  bool shuffle = true;          // the training part; validation is always in order
  std::uint64_t seed = 0;       // another seed, another order
  std::int64_t vocabulary = 0;  // of the model: every id must be below
  LabelKind labels = LabelKind::kNextOfEach;
  // Where a file does not mark its documents (plain text), each ends with this token.
  std::optional<std::int32_t> end_of_text = {};
};

// The samples of one part of a token file. Immutable; may be used from any thread.
class SampleSet {
 public:
  // Over tokens [begin, end) of the file. Error if they hold no whole window.
  SampleSet(std::shared_ptr<const TokenFile> tokens, std::int64_t begin, std::int64_t end,
            const SampleOptions& options);

  // Windows; the samples of one epoch.
  std::int64_t size() const { return windows_; }
  // The part of the file: tokens [begin, end).
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }

  // Position in the file of the first token of global sample `sample` (epoch sample / size()).
  std::int64_t first_token(std::int64_t sample) const;

  // Samples first .. first+count-1: ids (B, S), labels (B, S) or (B). The vectors are resized. The
  // label of a token that the file's mask leaves out is -1: it does not count.
  // Error for an id outside the vocabulary, with its position.
  void fill(std::int64_t first, std::int64_t count, std::vector<std::int32_t>& ids,
            std::vector<std::int32_t>& labels) const;
  // Of the same samples, the token of its sample with which each token's document begins (B, S): 0
  // for what began before the sample. Error if knows_documents() is false.
  void document_starts(std::int64_t first, std::int64_t count,
                       std::vector<std::int32_t>& starts) const;
  // Are documents marked, or told by a token?
  bool knows_documents() const;

 private:
  std::shared_ptr<const TokenFile> tokens_;
  std::int64_t begin_;
  std::int64_t end_;
  SampleOptions options_;
  RngKey key_;
  std::int64_t windows_ = 0;
};

// A token file cut into training and validation.
class TokenDataset {
 public:
  // Error if a part that is asked for has no whole window, or if the file's vocabulary is larger
  // than the model's.
  TokenDataset(std::shared_ptr<const TokenFile> tokens, const SampleOptions& options);

  const SampleSet& train() const { return *train_; }
  // Null if options.validation is 0.
  const SampleSet* validation() const { return validation_.get(); }
  const TokenFile& tokens() const { return *tokens_; }

 private:
  std::shared_ptr<const TokenFile> tokens_;
  std::unique_ptr<SampleSet> train_;
  std::unique_ptr<SampleSet> validation_;
};

// data.skip: global batches that are never used, as "7" or "100-200,350-360" (numbered from 1, as
// metrics.jsonl numbers the steps of a run that skips nothing; both ends are left out).
class SkippedBatches {
 public:
  // "" skips nothing. Error for anything that is not such a list.
  explicit SkippedBatches(const std::string& list);
  // The global batch (from 0) that step `step` (from 0) uses.
  std::int64_t batch_of(std::int64_t step) const;

 private:
  struct Range {
    std::int64_t first;  // from 0
    std::int64_t last;
  };
  std::vector<Range> ranges_;  // sorted, apart
};

}  // namespace trireme
