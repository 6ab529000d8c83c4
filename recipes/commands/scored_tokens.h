// The tokens whose loss `trireme evaluate` measures: of a text, of documents in lines of JSON, or
// of a token file; with which of them count, and where documents begin.
//
// Positions are those of the whole sequence, which may have one token before the file's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/data/token_file.h"
#include "recipes/commands/opened_model.h"

namespace trireme {

class ScoredTokens {
 public:
  // data.text, through the cache, or data.tokens of the source's recipe. `loss_on`: data.loss_on
  // was asked for, so it must have a meaning; else one of a run's recipe that has none is passed
  // over. Error if no token would be scored; UsageError for tokens of another tokenizer.
  ScoredTokens(Process& process, const ModelSource& source, bool loss_on);

  std::int64_t count() const { return file_->count() + before(); }
  std::vector<std::int32_t> range(std::int64_t begin, std::int64_t end) const;
  // Does it count? All do but those of conversations that nobody learns, and the very first.
  bool scored(std::int64_t position) const;
  std::int64_t scored_count() const { return scored_; }

  // Documents do not see each other (data.reset_attention_mask).
  bool apart() const { return apart_; }
  // Of the tokens [begin, begin + starts.size()), the one, counted from `begin`, with which each
  // one's document begins; only if apart().
  void document_starts(std::int64_t begin, std::span<std::int32_t> starts) const;

  // "JSON lines, 1,204 documents"; empty for a text.
  const std::string& about() const { return file_->header().about; }
  std::int64_t documents() const { return file_->header().documents; }
  // Of texts: runs of bytes that are no ASCII blanks.
  std::optional<std::int64_t> words() const { return words_; }

 private:
  void open_text(Process& process, const ModelSource& source, bool loss_on);
  std::int64_t before() const { return start_ ? 1 : 0; }

  std::shared_ptr<const TokenFile> file_;
  std::optional<std::int32_t> start_;        // before the file's
  std::optional<std::int32_t> end_of_text_;  // where documents end that are not marked
  std::int64_t vocabulary_ = 0;              // of the model
  std::optional<std::int64_t> words_;
  std::int64_t scored_ = 0;
  bool apart_ = false;
};

}  // namespace trireme
