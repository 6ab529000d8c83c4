// Tokens that are found in a text before anything else is done to it: control tokens such as
// "<|im_end|>", and words that somebody added to a vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenizer.h"

namespace trireme {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character stands beside it
  bool lstrip = false;       // takes the blanks before it, too
  bool rstrip = false;       // and after it
  bool normalized = false;   // looked for in normalized text, not in the raw one
  bool special = false;      // a control token: left out when decoding without them

  bool operator==(const AddedToken&) const = default;
};

// A part of a text: an added token, or (id -1) what lies between two.
struct TextPart {
  std::size_t begin = 0, end = 0;
  std::int32_t id = -1;
};

// Finds tokens in a text, leftmost and longest. Immutable; from any thread.
class AddedTokenFinder {
 public:
  // Empty contents are never found. Of two tokens with one content the later is found.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens = {});

  // Appends the parts of `text`, in order, none empty. Tokens are not found over bytes that
  // `strangers` (EncodeOptions) marks.
  void cut(std::string_view text, AddedTokens wanted, std::vector<TextPart>& parts,
           std::string_view strangers = {}) const;

  // Might it matter to tokens of the list if the text were cut at `at`? They are looked for across
  // and at both sides of it.
  bool touches(std::string_view text, std::size_t at) const;

 private:
  // The longest token that begins at `at`; null if none does.
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;
  std::size_t next_start(std::string_view text, std::size_t from) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::array<bool, 256> starts_{};  // first bytes
  char only_start_ = 0;             // if there is just one
  int start_count_ = 0;
  std::size_t longest_ = 0;  // bytes
};

}  // namespace trireme
