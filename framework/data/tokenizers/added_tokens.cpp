#include "framework/data/tokenizers/added_tokens.h"

#include <algorithm>

#include "framework/data/tokenizers/unicode.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

std::uint8_t class_before(std::string_view text, std::size_t at) {
  if (at == 0) return 0;
  return unicode_classes().of(code_point_at(text, code_point_before(text, at)).value);
}

std::uint8_t class_at(std::string_view text, std::size_t at) {
  return at == text.size() ? std::uint8_t{0} : unicode_classes().of(code_point_at(text, at).value);
}

std::size_t blanks_begin(std::string_view text, std::size_t at, std::size_t least) {
  while (at > least && (class_before(text, at) & kSpace) != 0) at = code_point_before(text, at);
  return at;
}

std::size_t blanks_end(std::string_view text, std::size_t at) {
  while (at < text.size() && (class_at(text, at) & kSpace) != 0)
    at += code_point_at(text, at).bytes;
  return at;
}

bool is_wanted(const AddedToken& token, AddedTokens wanted) {
  return wanted == AddedTokens::kAll || (wanted == AddedTokens::kOrdinary && !token.special);
}

// Any of these bytes.
bool stranger_wrote(std::string_view strangers, std::size_t at, std::size_t bytes) {
  return !strangers.empty() &&
         strangers.substr(at, bytes).find_first_not_of('\0') != std::string_view::npos;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) {
    bool& starts = starts_[static_cast<unsigned char>(token.content[0])];
    start_count_ += !starts;
    starts = true;
    only_start_ = token.content[0];
    longest_ = std::max(longest_, token.content.size());
  }
}

std::size_t AddedTokenFinder::next_start(std::string_view text, std::size_t from) const {
  if (start_count_ == 0) return text.size();
  if (start_count_ == 1) return std::min(text.find(only_start_, from), text.size());
  while (from < text.size() && !starts_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

// Narrows the sorted list by one byte after the other; a token that ends where the list still holds
// it stands at the front of it.
const AddedToken* AddedTokenFinder::longest_at(std::string_view text, std::size_t at) const {
  const AddedToken* found = nullptr;
  auto begin = tokens_.begin(), end = tokens_.end();
  for (std::size_t depth = 0; at + depth < text.size() && begin != end; ++depth) {
    const auto byte = static_cast<unsigned char>(text[at + depth]);
    const auto byte_of = [&](const AddedToken& token) {
      return token.content.size() <= depth ? -1 : static_cast<unsigned char>(token.content[depth]);
    };
    begin = std::partition_point(begin, end,
                                 [&](const AddedToken& token) { return byte_of(token) < byte; });
    end = std::partition_point(begin, end,
                               [&](const AddedToken& token) { return byte_of(token) <= byte; });
    for (auto token = begin; token != end && token->content.size() == depth + 1; ++token)
      found = &*token;
  }
  return found;
}

void AddedTokenFinder::cut(std::string_view text, AddedTokens wanted, std::vector<TextPart>& parts,
                           std::string_view strangers) const {
  std::size_t done = 0;
  const auto add = [&](std::size_t begin, std::size_t end, std::int32_t id) {
    if (begin < end) parts.push_back({begin, end, id});
  };
  if (wanted == AddedTokens::kNone) return add(0, text.size(), -1);
  for (std::size_t at = next_start(text, 0); at < text.size();) {
    const AddedToken* token = longest_at(text, at);
    if (token == nullptr || stranger_wrote(strangers, at, token->content.size())) {
      at = next_start(text, at + 1);
      continue;
    }
    std::size_t begin = at, end = at + token->content.size();
    at = next_start(text, end);
    const bool beside_word = token->single_word && ((class_before(text, begin) & kWord) != 0 ||
                                                    (class_at(text, end) & kWord) != 0);
    if (!is_wanted(*token, wanted) || beside_word) continue;
    begin = std::max(begin, done);  // the token before may have taken its blanks
    if (token->lstrip) begin = blanks_begin(text, begin, done);
    if (token->rstrip) end = blanks_end(text, end);
    add(done, begin, -1);
    parts.push_back({begin, end, token->id});
    done = end;
  }
  add(done, text.size(), -1);
}

bool AddedTokenFinder::touches(std::string_view text, std::size_t at) const {
  const std::size_t from = at > longest_ + 1 ? at - longest_ - 1 : 0;
  for (std::size_t begin = next_start(text, from); begin <= at && begin < text.size();
       begin = next_start(text, begin + 1)) {
    const AddedToken* token = longest_at(text, begin);
    if (token != nullptr && begin + token->content.size() + 1 >= at) return true;
  }
  return false;
}

}  // namespace trireme
