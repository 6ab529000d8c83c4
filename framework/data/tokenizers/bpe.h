// Byte-pair encoding: a word begins as its characters (or bytes), then the neighbouring pair with
// the lowest rank, leftmost first, becomes one symbol, until no pair has a rank (Sennrich et al.,
// arXiv 1508.07909). O(n log n) in the length of a word.
//
// Two neighbours that no merge joins are never joined: long words are cut there first, and the
// parts found in the cache. That is exact, not a heuristic: a symbol that reaches over the cut
// would have to be born of a merge whose left part ends, and whose right part begins, with them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/data/tokenizers/flat_hash.h"
#include "framework/data/tokenizers/token_table.h"
#include "framework/data/tokenizers/word_cache.h"

namespace trireme {

struct BpeOptions {
  bool byte_level = false;     // words are bytes; tokens are spelled in the byte alphabet
  bool byte_fallback = false;  // a character without a token becomes its bytes' <0x..> tokens
  bool fuse_unk = false;       // neighbouring unknown characters become one unk
  bool ignore_merges = false;  // a word that is a token is that token
  std::int32_t unk = -1;       // -1: unknown characters vanish
};

struct BpeMerge {
  std::int32_t left = 0, right = 0, merged = 0;
};

// Memory of one caller at a time.
struct BpeScratch {
  struct Node {
    std::int32_t id, previous, next;  // id -1: joined into the one before; next -1: the last
  };
  struct Candidate {
    std::uint64_t order;  // rank, then position
    std::int32_t left, right;
  };
  WordCache cache;
  std::vector<std::int32_t> symbols;
  std::vector<Node> nodes;
  std::vector<Candidate> heap;
  std::vector<std::int32_t> ids;
  std::string letters;
};

// Immutable; from any thread, each with its own scratch. `tokens` must outlive it.
class Bpe {
 public:
  // Merges in the order of their ranks; of one pair twice the later counts.
  Bpe(const TokenTable& tokens, const std::vector<BpeMerge>& merges, const BpeOptions& options);

  // Appends the ids of a word.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const;

  const BpeOptions& options() const { return options_; }
  // May some merge join two neighbours of a text? True where one of them has no token.
  bool may_join(char32_t left, char32_t right) const;

 private:
  struct Merge {
    std::uint32_t rank = 0;
    std::int32_t merged = 0;
  };
  static constexpr std::uint32_t kNever = ~std::uint32_t{0};
  static std::uint64_t pair(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  Merge merge_of(std::int32_t left, std::int32_t right) const {
    const Merge* found = merges_.find(pair(left, right));
    return found ? *found : Merge{kNever, 0};
  }
  struct Character {
    std::int32_t symbol;  // -1: no token
    std::size_t bytes;
  };
  Character character_at(std::string_view word, std::size_t at) const;
  std::int32_t symbol_of(char32_t c) const;
  bool joins(std::int32_t left, std::int32_t right) const;
  void note_junction(const BpeMerge& merge);
  void encode_parts(std::string_view word, BpeScratch& scratch,
                    std::vector<std::int32_t>& ids) const;
  void encode_part(std::string_view part, BpeScratch& scratch,
                   std::vector<std::int32_t>& ids) const;
  void begin_symbols(std::string_view part, std::vector<std::int32_t>& symbols) const;
  void merge_short(std::vector<std::int32_t>& symbols) const;
  void merge_long(BpeScratch& scratch) const;

  const TokenTable& tokens_;
  BpeOptions options_;
  FlatMap<Merge> merges_;
  std::vector<std::int32_t> merged_of_rank_;
  FlatMap<char> junctions_;                   // pairs of symbols of one character
  std::vector<std::int32_t> symbols_;         // by byte, or by code point below kDirect
  std::array<std::int32_t, 256> fallback_{};  // <0x00> on; -1: not there
  bool whole_fallback_ = false;               // all 256 are there
};

}  // namespace trireme
