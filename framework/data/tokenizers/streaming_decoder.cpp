#include "framework/base/error.h"
#include "framework/data/tokenizer.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

std::string StreamingDecoder::push(std::int32_t id) {
  check(id >= 0 && id < tokenizer_.vocabulary(), "decode: id ", id,
        " is outside the vocabulary of ", tokenizer_.vocabulary());
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  const TokenPiece piece = tokenizer_.piece(id, first_);
  const bool stand_in = piece.kind == TokenPiece::Kind::kByte;
  std::string said;
  if (!waiting_.empty() && piece.kind == TokenPiece::Kind::kText && !piece.text.empty())
    said = settle(true);
  if (tokenizer_.separates() && !first_ && !piece.text.empty() && !stand_in) waiting_ += ' ';
  if (!piece.text.empty()) first_ = false;
  stand_ins_ = stand_in;
  waiting_ += piece.text;
  return without_blanks(said + settle(false));
}

std::string StreamingDecoder::finish() {
  std::string said = without_blanks(settle(true));
  first_ = true;
  blanks_ = tokenizer_.leading_blanks_dropped();
  return said;
}

// Takes what is whole (or wrong for good) out of the waiting bytes; all of them at an end.
std::string StreamingDecoder::settle(bool all) {
  std::string said;
  std::size_t at = 0;
  while (at < waiting_.size() && (all || !may_go_on(waiting_, at))) {
    const CodePoint c = code_point_at(waiting_, at);
    if (c.value != kNoCodePoint) {
      said.append(waiting_, at, c.bytes);
    } else {
      for (std::size_t i = 0; i < (stand_ins_ ? c.bytes : 1); ++i) said += kReplacement;
    }
    at += c.bytes;
  }
  waiting_.erase(0, at);
  return said;
}

std::string StreamingDecoder::without_blanks(std::string text) {
  std::size_t drop = 0;
  while (blanks_ > 0 && drop < text.size() && text[drop] == ' ') {
    ++drop;
    --blanks_;
  }
  if (drop < text.size()) blanks_ = 0;
  return text.substr(drop);
}

}  // namespace trireme
