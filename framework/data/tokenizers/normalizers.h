// What is done to a text before it is cut into words: the normalizers of a tokenizer.json, in their
// order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/json/json.h"
#include "framework/data/tokenizers/unicode.h"

namespace trireme {

struct NormalizerStep {
  enum class Kind : std::uint8_t { kForm, kLowercase, kStrip, kPrepend, kReplace };
  Kind kind = Kind::kForm;
  NormalForm form = NormalForm::kNfc;
  bool left = false, right = false;  // kStrip
  std::string from, to;              // kReplace; kPrepend has `to`
};

// Replaces every `from` (not empty), left to right.
void append_replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::string& into);

// Immutable; from any thread.
class Normalizer {
 public:
  Normalizer() = default;
  // Null: nothing is done. `what` names the value in errors: "tokenizer.json: normalizer".
  static Normalizer read(const Json& json, const std::string& what);

  bool empty() const { return steps_.empty(); }
  // `continues`: nothing is put in front. The result is `text` itself or lies in one of `buffers`.
  std::string_view apply(std::string_view text, bool continues, std::string (&buffers)[2]) const;

  // Is the result of two parts the two results, wherever a text is cut between two ASCII letters,
  // digits or line ends, or before a blank (and the second part `continues`)?
  bool is_local() const;
  // What becomes of one ASCII character by itself; kNoCodePoint: not one character.
  char32_t ascii(char c) const;

 private:
  void add(const Json& json, const std::string& what, int depth);

  std::vector<NormalizerStep> steps_;
};

}  // namespace trireme
