// A tokenizer put together from the parts that a tokenizer.json names: added tokens are found, what
// lies between them is normalized, cut into words, and each word encoded by the model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "framework/data/tokenizers/added_tokens.h"
#include "framework/data/tokenizers/bpe.h"
#include "framework/data/tokenizers/decoders.h"
#include "framework/data/tokenizers/normalizers.h"
#include "framework/data/tokenizers/pre_tokenizers.h"
#include "framework/data/tokenizers/token_table.h"

namespace trireme {

struct TokenizerParts {
  std::string name;
  TokenTable tokens;  // the model's
  std::vector<BpeMerge> merges;
  BpeOptions model;
  std::vector<AddedToken> added;  // each id and each content once; may be tokens of the model, too
  std::map<std::int64_t, std::size_t> added_by_id;  // places in `added`
  std::map<std::string, std::size_t, std::less<>> added_by_text;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  std::vector<std::int32_t> before, after;  // around a text
  TokenizerSettings settings;
};

class JsonTokenizer final : public Tokenizer {
 public:
  // Ids in `parts` are those of its tokens and added tokens.
  explicit JsonTokenizer(TokenizerParts parts);

  std::string name() const override { return parts_.name; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::unique_ptr<Encoder> encoder() const override;
  std::size_t cut_before(std::string_view text, std::size_t limit) const override;
  std::string decode(const std::vector<std::int32_t>& ids, bool skip_special) const override;
  TokenPiece piece(std::int64_t id, bool first) const override;
  int leading_blanks_dropped() const override { return parts_.decoder.leading_blanks_dropped(); }
  bool separates() const override { return parts_.decoder.separated(); }
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::string token_of(std::int64_t id) const override;
  bool is_special(std::int64_t id) const override;
  const TokenizerSettings& settings() const override { return parts_.settings; }

 private:
  friend class JsonEncoder;
  struct Piece {
    std::uint32_t begin = 0, size = 0;
    TokenPiece::Kind kind = TokenPiece::Kind::kText;
    bool special = false;
  };
  std::string_view text_of(std::int64_t id) const;
  void make_pieces(bool first, std::vector<Piece>& pieces);
  void find_cuts();
  bool may_cut(std::string_view text, std::size_t at) const;

  TokenizerParts parts_;
  Bpe bpe_;
  std::int64_t vocabulary_ = 0;
  AddedTokenFinder raw_, normalized_;
  bool has_normalized_ = false;
  std::string said_;                          // what all ids say
  std::vector<Piece> pieces_, first_pieces_;  // by id; first_pieces_ may be empty
  bool cuts_at_lines_ = false;
  std::array<bool, 128> cuts_at_blanks_{};  // after this character
};

}  // namespace trireme
