#include "framework/data/tokenizers/bpe.h"

#include <algorithm>
#include <limits>

#include "framework/base/error.h"
#include "framework/data/tokenizers/byte_alphabet.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

constexpr char32_t kDirect = 0x3000;  // code points below have their symbol in a table
constexpr std::size_t kWhole = 24;    // bytes; longer words are looked at for cuts
constexpr std::size_t kShort = 40;    // symbols; more are merged with a heap

std::string fallback_name(unsigned byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

bool later(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.order > b.order;
}

}  // namespace

Bpe::Bpe(const TokenTable& tokens, const std::vector<BpeMerge>& merges, const BpeOptions& options)
    : tokens_(tokens), options_(options), merges_(merges.size()) {
  if (options.byte_level) {
    for (unsigned byte = 0; byte < 256; ++byte)
      symbols_.push_back(tokens.find(byte_letter(static_cast<std::uint8_t>(byte))));
  } else {
    std::string text;
    for (char32_t c = 0; c < kDirect; ++c) {
      text.clear();
      append_utf8(c, text);
      symbols_.push_back(tokens.find(text));
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte) fallback_[byte] = tokens.find(fallback_name(byte));
  whole_fallback_ = std::find(fallback_.begin(), fallback_.end(), -1) == fallback_.end();
  merged_of_rank_.reserve(merges.size());
  for (const BpeMerge& merge : merges) {
    merges_.set(pair(merge.left, merge.right),
                {static_cast<std::uint32_t>(merged_of_rank_.size()), merge.merged});
    merged_of_rank_.push_back(merge.merged);
    note_junction(merge);
  }
}

std::int32_t Bpe::symbol_of(char32_t c) const {
  if (c < kDirect) return symbols_[c];
  if (c == kNoCodePoint) return -1;
  std::string text;
  append_utf8(c, text);
  return tokens_.find(text);
}

Bpe::Character Bpe::character_at(std::string_view word, std::size_t at) const {
  const auto lead = static_cast<unsigned char>(word[at]);
  if (options_.byte_level || lead < 0x80) return {symbols_[lead], 1};
  const CodePoint c = code_point_at(word, at);
  if (c.value == kNoCodePoint) return {-1, 1};
  return {c.value < kDirect ? symbols_[c.value] : tokens_.find(word.substr(at, c.bytes)), c.bytes};
}

// The characters are those of the tokens' texts; <0x..> tokens are made of no characters that a
// text could hold, so what they note is never asked for.
void Bpe::note_junction(const BpeMerge& merge) {
  const std::string_view left = tokens_.text(merge.left), right = tokens_.text(merge.right);
  if (left.empty() || right.empty()) return;
  const std::int32_t a = tokens_.find(left.substr(code_point_before(left, left.size())));
  const std::int32_t b = tokens_.find(right.substr(0, code_point_at(right, 0).bytes));
  if (a >= 0 && b >= 0) junctions_.set(pair(a, b), 1);
}

bool Bpe::joins(std::int32_t left, std::int32_t right) const {
  return left < 0 || right < 0 || junctions_.find(pair(left, right)) != nullptr;
}

bool Bpe::may_join(char32_t left, char32_t right) const {
  return joins(symbol_of(left), symbol_of(right));
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  if (word.size() > kWhole && !options_.ignore_merges) return encode_parts(word, scratch, ids);
  if (scratch.cache.find(word, ids)) return;
  const std::size_t before = ids.size();
  std::int32_t whole = -1;
  if (options_.ignore_merges) {
    scratch.letters.clear();
    if (options_.byte_level) append_byte_letters(word, scratch.letters);
    whole = tokens_.find(options_.byte_level ? std::string_view(scratch.letters) : word);
  }
  if (whole >= 0)
    ids.push_back(whole);
  else if (word.size() > kWhole)
    return encode_parts(word, scratch, ids);
  else
    encode_part(word, scratch, ids);
  scratch.cache.keep(word, ids.data() + before, ids.size() - before);
}

// With ignore_merges the cache holds whole words, which a part is not.
void Bpe::encode_parts(std::string_view word, BpeScratch& scratch,
                       std::vector<std::int32_t>& ids) const {
  const auto add = [&](std::string_view part) {
    if (!options_.ignore_merges && scratch.cache.find(part, ids)) return;
    const std::size_t before = ids.size();
    encode_part(part, scratch, ids);
    if (!options_.ignore_merges) scratch.cache.keep(part, ids.data() + before, ids.size() - before);
  };
  std::size_t begin = 0;
  std::int32_t last = -1;
  for (std::size_t at = 0; at < word.size();) {
    const Character c = character_at(word, at);
    if (at > begin && !joins(last, c.symbol)) {
      add(word.substr(begin, at - begin));
      begin = at;
    }
    last = c.symbol;
    at += c.bytes;
  }
  add(word.substr(begin));
}

void Bpe::encode_part(std::string_view part, BpeScratch& scratch,
                      std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t>& symbols = scratch.symbols;
  symbols.clear();
  begin_symbols(part, symbols);
  if (symbols.size() > kShort)
    merge_long(scratch);
  else
    merge_short(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

// An unknown character waits, so that the next one may be fused with it. Bytes do not end the
// wait: the `tokenizers` package does it in this order.
void Bpe::begin_symbols(std::string_view part, std::vector<std::int32_t>& symbols) const {
  bool waiting = false;
  const auto fall_back = [&](std::string_view bytes) {
    if (!whole_fallback_)
      for (const char byte : bytes)
        if (fallback_[static_cast<unsigned char>(byte)] < 0) return false;
    for (const char byte : bytes) symbols.push_back(fallback_[static_cast<unsigned char>(byte)]);
    return true;
  };
  for (std::size_t at = 0; at < part.size();) {
    const Character c = character_at(part, at);
    const std::string_view text = part.substr(at, c.bytes);
    at += c.bytes;
    if (c.symbol >= 0) {
      if (waiting) symbols.push_back(options_.unk);
      waiting = false;
      symbols.push_back(c.symbol);
      continue;
    }
    if (options_.byte_fallback &&
        fall_back(options_.byte_level ? byte_letter(static_cast<std::uint8_t>(text[0])) : text))
      continue;
    if (options_.unk < 0) continue;
    if (waiting && !options_.fuse_unk) symbols.push_back(options_.unk);
    waiting = true;
  }
  if (waiting) symbols.push_back(options_.unk);
}

void Bpe::merge_short(std::vector<std::int32_t>& symbols) const {
  std::size_t n = symbols.size();
  if (n < 2) return;
  std::array<Merge, kShort> next;  // of each symbol with the one after it
  for (std::size_t i = 0; i + 1 < n; ++i) next[i] = merge_of(symbols[i], symbols[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (next[i].rank < next[best].rank) best = i;
    if (next[best].rank == kNever) break;
    symbols[best] = next[best].merged;
    --n;
    for (std::size_t i = best + 1; i < n; ++i) symbols[i] = symbols[i + 1];
    for (std::size_t i = best + 1; i + 1 < n; ++i) next[i] = next[i + 1];
    if (best + 1 < n) next[best] = merge_of(symbols[best], symbols[best + 1]);
    if (best > 0) next[best - 1] = merge_of(symbols[best - 1], symbols[best]);
  }
  symbols.resize(n);
}

// A linked list of symbols and a heap of pairs. A candidate whose symbols have changed since is
// passed over.
void Bpe::merge_long(BpeScratch& scratch) const {
  using Candidate = BpeScratch::Candidate;
  auto& [cache, symbols, nodes, heap, ids, letters] = scratch;
  const std::size_t n = symbols.size();
  check(n < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
        "encode: a word of ", n, " characters; at most 2^31 - 2 are merged");
  const auto candidate = [&](std::int32_t left, std::int32_t right, std::size_t at) {
    const Merge merge = merge_of(left, right);
    return std::pair{merge.rank != kNever,
                     Candidate{static_cast<std::uint64_t>(merge.rank) << 32 | at, left, right}};
  };
  nodes.resize(n);
  heap.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::int32_t>(i);
    nodes[i] = {symbols[i], at - 1, i + 1 < n ? at + 1 : -1};
    if (i + 1 == n) break;
    if (const auto [good, found] = candidate(symbols[i], symbols[i + 1], i); good)
      heap.push_back(found);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  const auto offer = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const auto [good, found] =
        candidate(nodes[static_cast<std::size_t>(left)].id,
                  nodes[static_cast<std::size_t>(right)].id, static_cast<std::size_t>(left));
    if (!good) return;
    heap.push_back(found);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    const auto at = static_cast<std::int32_t>(best.order & 0xFFFFFFFF);
    auto& node = nodes[static_cast<std::size_t>(at)];
    if (node.id != best.left || node.next < 0) continue;
    auto& gone = nodes[static_cast<std::size_t>(node.next)];
    if (gone.id != best.right) continue;
    node.id = merged_of_rank_[static_cast<std::size_t>(best.order >> 32)];
    node.next = gone.next;
    gone.id = -1;
    if (node.next >= 0) nodes[static_cast<std::size_t>(node.next)].previous = at;
    offer(node.previous, at);
    offer(at, node.next);
  }
  symbols.clear();
  for (std::int32_t at = 0; at >= 0; at = nodes[static_cast<std::size_t>(at)].next)
    symbols.push_back(nodes[static_cast<std::size_t>(at)].id);
}

}  // namespace trireme
