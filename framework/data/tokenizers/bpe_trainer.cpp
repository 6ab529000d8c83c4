#include "framework/data/tokenizers/bpe_trainer.h"

#include <algorithm>
#include <queue>

#include "framework/base/error.h"
#include "framework/data/tokenizers/byte_alphabet.h"
#include "framework/data/tokenizers/flat_hash.h"

namespace trireme {

namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20, kMost = std::size_t{64} << 20;  // bytes

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Behind the last line end between two letters or digits; 0: there is none.
std::size_t last_line_cut(std::string_view text) {
  for (std::size_t at = text.size(); at-- > 2;)
    if (text[at - 1] == '\n' && is_plain(text[at - 2]) && is_plain(text[at])) return at;
  return 0;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

struct Word {
  std::vector<std::int32_t> symbols;
  std::int64_t count = 0;
};

// Where a pair may be (some places are out of date), and how often it is.
struct Pair {
  std::uint64_t key = 0;
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;
};

struct Candidate {
  std::int64_t count;
  std::uint64_t key;
  bool operator<(const Candidate& other) const {  // the best one is the largest
    return count != other.count ? count < other.count : key > other.key;
  }
};

class Merger {
 public:
  explicit Merger(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const Word& word = words_[i];
      for (std::size_t at = 0; at + 1 < word.symbols.size(); ++at)
        change(word.symbols[at], word.symbols[at + 1], word.count, static_cast<std::uint32_t>(i));
    }
    for (const Pair& pair : pairs_) queue_.push({pair.count, pair.key});
    touched_.clear();
  }

  // The most frequent pair, if there is one that occurs twice.
  bool best(std::int32_t& left, std::int32_t& right) {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const Pair& pair = pairs_[*places_.find(top.key)];
      if (pair.count != top.count) {
        if (pair.count > 0 && pair.count < top.count) queue_.push({pair.count, pair.key});
        continue;
      }
      if (pair.count < 2) return false;
      left = static_cast<std::int32_t>(top.key >> 32);
      right = static_cast<std::int32_t>(top.key & 0xFFFFFFFF);
      return true;
    }
    return false;
  }

  void merge(std::int32_t left, std::int32_t right, std::int32_t merged) {
    Pair& pair = pairs_[*places_.find(pair_key(left, right))];
    std::vector<std::uint32_t> where = std::move(pair.words);
    pair.words = {};
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    touched_.clear();
    for (const std::uint32_t i : where) merge_word(i, left, right, merged);
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const std::size_t place : touched_)
      if (pairs_[place].count > 0) queue_.push({pairs_[place].count, pairs_[place].key});
  }

 private:
  // New pairs, and those that became more frequent, are offered again; the others are corrected
  // when they come up.
  void change(std::int32_t left, std::int32_t right, std::int64_t by, std::uint32_t word) {
    const std::uint64_t key = pair_key(left, right);
    const std::size_t* known = places_.find(key);
    const std::size_t place = known ? *known : pairs_.size();
    if (!known) {
      places_.set(key, place);
      pairs_.push_back({.key = key});
    }
    pairs_[place].count += by;
    if (by < 0) return;
    pairs_[place].words.push_back(word);
    touched_.push_back(place);
  }

  void merge_word(std::uint32_t i, std::int32_t left, std::int32_t right, std::int32_t merged) {
    Word& word = words_[i];
    std::vector<std::int32_t>& symbols = word.symbols;
    std::size_t to = 0;
    for (std::size_t from = 0; from < symbols.size(); ++from) {
      const bool here =
          from + 1 < symbols.size() && symbols[from] == left && symbols[from + 1] == right;
      if (!here) {
        symbols[to++] = symbols[from];
        continue;
      }
      change(left, right, -word.count, i);
      if (to > 0) {
        change(symbols[to - 1], left, -word.count, i);
        change(symbols[to - 1], merged, word.count, i);
      }
      if (from + 2 < symbols.size()) {
        change(right, symbols[from + 2], -word.count, i);
        change(merged, symbols[from + 2], word.count, i);
      }
      symbols[to++] = merged;
      ++from;
    }
    symbols.resize(to);
  }

  std::vector<Word> words_;
  std::vector<Pair> pairs_;
  FlatMap<std::size_t> places_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::size_t> touched_;
};

// Letters in the order of their code points, as GPT-2 numbers them.
std::vector<std::uint8_t> bytes_in_order() {
  std::vector<std::uint8_t> order;
  for (char32_t letter = 0; letter < 0x144; ++letter)
    if (const int byte = byte_of_letter(letter); byte >= 0)
      order.push_back(static_cast<std::uint8_t>(byte));
  return order;
}

}  // namespace

void BpeTrainer::add(std::string_view piece) {
  waiting_ += piece;
  if (waiting_.size() < kPiece) return;
  std::size_t cut = last_line_cut(waiting_);
  if (cut == 0 && waiting_.size() > kMost) cut = waiting_.size();
  count(std::string_view(waiting_).substr(0, cut));
  waiting_.erase(0, cut);
}

void BpeTrainer::end_text() {
  count(waiting_);
  waiting_.clear();
}

void BpeTrainer::count(std::string_view text) {
  const UnicodeClasses& classes = unicode_classes();
  std::string word;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = pattern_.match(classes, text, at);
    word.assign(text, at, end - at);
    ++counts_[word];
    at = end;
  }
}

TrainedTokenizer BpeTrainer::train(
    std::int64_t tokens, const std::function<void(std::int64_t, std::int64_t)>& progress) const {
  check(tokens >= 256 && tokens <= 10'000'000, "a byte-level vocabulary of ", tokens,
        " tokens; 256 to 10,000,000 are possible");
  const std::vector<std::uint8_t> order = bytes_in_order();
  TrainedTokenizer trained;
  std::vector<std::int32_t> id_of_byte(256);
  for (const std::uint8_t byte : order) {
    id_of_byte[byte] = static_cast<std::int32_t>(trained.tokens.size());
    trained.tokens.emplace_back(byte_letter(byte));
  }
  std::vector<const std::pair<const std::string, std::int64_t>*> sorted;
  for (const auto& entry : counts_) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->first < b->first; });
  std::vector<Word> words;
  words.reserve(sorted.size());
  for (const auto* entry : sorted) {
    words.push_back({.count = entry->second});
    for (const char byte : entry->first)
      words.back().symbols.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
  }
  Merger merger(std::move(words));
  const std::int64_t wanted = tokens - 256;
  std::int32_t left = 0, right = 0;
  // Two ways to one text make one token: the later pair is a merge without a token of its own.
  std::unordered_map<std::string, std::int32_t> known;
  for (std::size_t id = 0; id < trained.tokens.size(); ++id)
    known[trained.tokens[id]] = static_cast<std::int32_t>(id);
  while (static_cast<std::int64_t>(trained.tokens.size()) < tokens && merger.best(left, right)) {
    const std::string text = trained.tokens[static_cast<std::size_t>(left)] +
                             trained.tokens[static_cast<std::size_t>(right)];
    const auto [entry, added] =
        known.try_emplace(text, static_cast<std::int32_t>(trained.tokens.size()));
    if (added) trained.tokens.push_back(text);
    trained.merges.emplace_back(left, right);
    merger.merge(left, right, entry->second);
    const auto done = static_cast<std::int64_t>(trained.tokens.size()) - 256;
    if (progress && trained.merges.size() % 64 == 0) progress(done, wanted);
  }
  return trained;
}

}  // namespace trireme
