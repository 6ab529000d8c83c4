// How a normalized text is cut into words: the pre-tokenizers of a tokenizer.json, each one cutting
// (and changing) the pieces of the one before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/json/json.h"
#include "framework/data/tokenizers/word_patterns.h"

namespace trireme {

struct PreTokenizerStep {
  enum class Kind : std::uint8_t { kWords, kSplit, kDigits, kByteLevel, kMetaspace };
  enum class Behavior : std::uint8_t {
    kIsolated,
    kRemoved,
    kMergedWithPrevious,
    kMergedWithNext,
    kContiguous
  };
  enum class Prefix : std::uint8_t { kNever, kFirst, kAlways };

  Kind kind = Kind::kWords;
  WordPattern pattern = nullptr;  // kWords; kByteLevel has one if use_regex
  std::string literal;            // kSplit; kMetaspace: what stands for a blank
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;             // kSplit: what lies between the matches is matched
  bool individual = false;         // kDigits
  Prefix prefix = Prefix::kNever;  // kByteLevel: a blank in front; kMetaspace: the literal
  bool split = true;               // kMetaspace
};

// Takes the words.
class WordSink {
 public:
  virtual ~WordSink() = default;
  virtual void take(std::string_view word) = 0;
};

// Immutable; from any thread, each with its own scratch.
class PreTokenizer {
 public:
  // Null: the whole text is one word. `what` names the value in errors.
  static PreTokenizer read(const Json& json, const std::string& what);

  // Words are bytes for a byte-level model.
  bool byte_level() const { return byte_level_; }
  // Does a line end between ASCII letters or digits always end a word? Then a text may be cut
  // behind it.
  bool ends_words_at_lines() const { return line_step_ >= 0; }
  // Is a text cut, if at all, only where `blank` (what a blank was normalized to) or a real blank
  // stands? Then it may be cut before a blank if the model would not join over it.
  bool cuts_only_at_blanks(char32_t blank) const;
  // What the model sees where a normalized text has `c`.
  char32_t seen_for(char32_t c) const;

  // `at_start`: the piece is the beginning of a whole text. `continues`: it goes on from another
  // one, nothing is put in front. Scratch: one string a step, reused.
  void cut(std::string_view text, bool at_start, bool continues, std::vector<std::string>& scratch,
           WordSink& sink) const;

 private:
  class Run;
  void add(const Json& json, const std::string& what, int depth);
  void add_split(const Json& json, const std::string& what);
  void add_metaspace(const Json& json, const std::string& what);

  std::vector<PreTokenizerStep> steps_;
  bool byte_level_ = false;
  int line_step_ = -1;  // the step that cuts at line ends
};

}  // namespace trireme
