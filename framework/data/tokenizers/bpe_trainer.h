// Learns a byte-level BPE vocabulary from text: again and again, the most frequent pair of
// neighbouring symbols inside words becomes a token (Sennrich et al., arXiv 1508.07909; on bytes as
// in GPT-2). The result depends on the counted words only, not on their order or on hashes: of
// equally frequent pairs, the one of the lower ids counts.
//
// Counts are kept up to date merge by merge: a merge costs the words that hold its pair, not the
// text. Memory: the distinct words and where their pairs are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/data/tokenizers/word_patterns.h"

namespace trireme {

struct TrainedTokenizer {
  std::vector<std::string> tokens;  // by id, in the byte alphabet: 256 bytes, then merges
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;  // in the order of their ranks
};

// One thread.
class BpeTrainer {
 public:
  explicit BpeTrainer(const KnownPattern& pattern) : pattern_(pattern) {}

  // Counts the words of the next piece of text, of any size. Pieces are joined: words end where
  // they would in the whole text, as long as a line end between letters or digits comes every 64
  // MiB.
  void add(std::string_view piece);
  // Words of another text, or the last one.
  void end_text();

  std::int64_t distinct_words() const { return static_cast<std::int64_t>(counts_.size()); }

  // `tokens` (at least 256) in all; fewer where no pair occurs twice any more. `progress` is called
  // now and then: merges that are done, and wanted.
  TrainedTokenizer train(
      std::int64_t tokens,
      const std::function<void(std::int64_t done, std::int64_t all)>& progress = {}) const;

 private:
  void count(std::string_view text);

  const KnownPattern& pattern_;
  std::string waiting_;
  std::unordered_map<std::string, std::int64_t> counts_;
};

// The tokenizer.json, with `special` tokens behind the others (control tokens, found in text).
std::string tokenizer_json(const TrainedTokenizer& trained, const KnownPattern& pattern,
                           const std::vector<std::string>& special);
// The tokenizer_config.json beside it: `end` begins and ends texts.
std::string tokenizer_config_json(const std::string& end);

}  // namespace trireme
