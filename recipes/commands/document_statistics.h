// What `trireme data info` says of documents: how long they are, how many are there twice, how many
// are longer than a sample, how many turns conversations have.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "framework/base/json/json.h"

namespace trireme {

struct CountedDocument {
  std::span<const std::int32_t> ids;
  std::int64_t trained = 0;  // of them
  std::int64_t turns = 0;    // messages; 0: no conversation
  std::int64_t line = 0;     // of the file, from 1; else its number
};

// Memory: a hash and a length a document.
class DocumentStatistics {
 public:
  // `sequence`: tokens of a sample.
  explicit DocumentStatistics(std::int64_t sequence) : sequence_(sequence) {}

  void add(const CountedDocument& document);
  std::int64_t documents() const { return std::ssize(lengths_); }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t trained() const { return trained_; }

  // Lines, each with its end; `unit` is what `line` counts: "line", "document".
  std::string text(const std::string& unit) const;
  Json::Object json(const std::string& unit) const;

 private:
  struct Long {
    std::int64_t tokens = 0, line = 0;
  };
  void note_long(const Long& document);

  std::int64_t sequence_;
  std::int64_t tokens_ = 0, trained_ = 0, turns_ = 0, duplicates_ = 0, longer_ = 0, talks_ = 0;
  std::vector<std::int64_t> lengths_;
  std::map<std::int64_t, std::int64_t> histogram_;  // documents, by the length's highest bit
  std::vector<Long> longest_;                       // a few, the longest first
  std::unordered_set<std::string> seen_;            // hashes
};

}  // namespace trireme
