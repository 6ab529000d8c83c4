// How token texts become text again: the decoders of a tokenizer.json, boiled down to what each
// token says by itself and a few rules for the whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/json/json.h"
#include "framework/data/tokenizer.h"

namespace trireme {

// Immutable; from any thread.
class Decoder {
 public:
  // Null: tokens as they are, with a blank between two (as the `tokenizers` package does).
  static Decoder read(const Json& json, const std::string& what);

  // Appends what a token says, and tells its kind. A stand-in ("<0x0A>") says its byte.
  TokenPiece::Kind append_piece(std::string_view token, bool first, std::string& into) const;
  // Does a token say something else at the beginning?
  bool first_differs() const { return first_differs_; }

  bool separated() const { return separated_; }  // a blank between two tokens
  bool bytes() const { return byte_level_; }     // what tokens say are bytes
  int leading_blanks_dropped() const { return leading_; }

 private:
  struct Step {
    enum class Kind : std::uint8_t { kReplace, kStrip, kMetaspace } kind = Kind::kReplace;
    std::string from, to;     // kStrip: `from` is the character; kMetaspace: the stand-in
    int left = 0, right = 0;  // kStrip
    bool prefixed = false;    // kMetaspace: the first token loses its stand-ins
  };
  void add(const Json& json, const std::string& what, int depth);
  void add_strip(const Json& json, const std::string& what);

  std::vector<Step> steps_;
  std::size_t fallback_at_ = 0;  // steps before it see <0x..> as text
  bool byte_fallback_ = false, byte_level_ = false, separated_ = false, fused_ = false;
  bool first_differs_ = false;
  int leading_ = 0;
};

// The byte of "<0x0A>"; -1 for any other text, such as "<0x-1>".
int byte_of_stand_in(std::string_view token);

}  // namespace trireme
