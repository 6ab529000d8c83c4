#include "framework/data/tokenizers/json_tokenizer.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

constexpr std::size_t kCutReach = std::size_t{1} << 16;  // bytes that are looked at for a cut

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

std::vector<AddedToken> some_of(const std::vector<AddedToken>& all, const Normalizer* normalizer) {
  std::vector<AddedToken> some;
  std::string buffers[2];
  for (AddedToken token : all) {
    if (token.normalized != (normalizer != nullptr)) continue;
    if (normalizer) token.content = std::string(normalizer->apply(token.content, false, buffers));
    some.push_back(std::move(token));
  }
  return some;
}

}  // namespace

class JsonEncoder final : public Encoder, private WordSink {
 public:
  explicit JsonEncoder(const JsonTokenizer& all) : all_(all) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids,
              const EncodeOptions& options) override {
    ids_ = &ids;
    const TokenizerParts& parts = all_.parts_;
    if (options.ends) ids.insert(ids.end(), parts.before.begin(), parts.before.end());
    found_.clear();
    check(options.strangers.empty() || options.strangers.size() == text.size(),
          "encode: ", options.strangers.size(), " marks of strangers for a text of ", text.size(),
          " bytes");
    all_.raw_.cut(text, options.added, found_, options.strangers);
    for (const TextPart& part : found_) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        section(text, part, options);
    }
    if (options.ends) ids.insert(ids.end(), parts.after.begin(), parts.after.end());
  }

 private:
  void section(std::string_view whole, const TextPart& of, const EncodeOptions& options) {
    const TokenizerParts& parts = all_.parts_;
    std::string_view text = whole.substr(of.begin, of.end - of.begin);
    const bool start = of.begin == 0;
    const bool continues = options.continues && start;
    text = parts.normalizer.apply(text, continues, buffers_);
    if (!all_.has_normalized_)
      return parts.pre_tokenizer.cut(text, start, continues, scratch_, *this);
    inner_.clear();
    // Who wrote which byte of a normalized text is not known: where a stranger did, none is found.
    const std::string_view strangers = options.strangers.empty()
                                           ? options.strangers
                                           : options.strangers.substr(of.begin, of.end - of.begin);
    const bool strange = strangers.find_first_not_of('\0') != std::string_view::npos;
    all_.normalized_.cut(text, strange ? AddedTokens::kNone : options.added, inner_);
    for (const TextPart& part : inner_) {
      const bool first = part.begin == 0;
      if (part.id >= 0)
        ids_->push_back(part.id);
      else
        parts.pre_tokenizer.cut(text.substr(part.begin, part.end - part.begin), start && first,
                                continues && first, scratch_, *this);
    }
  }

  void take(std::string_view word) override { all_.bpe_.encode(word, bpe_scratch_, *ids_); }

  const JsonTokenizer& all_;
  std::vector<std::int32_t>* ids_ = nullptr;
  std::vector<TextPart> found_, inner_;
  std::string buffers_[2];
  std::vector<std::string> scratch_;
  BpeScratch bpe_scratch_;
};

JsonTokenizer::JsonTokenizer(TokenizerParts parts)
    : parts_(std::move(parts)),
      bpe_(parts_.tokens, parts_.merges, parts_.model),
      vocabulary_(parts_.tokens.end()),
      raw_(some_of(parts_.added, nullptr)),
      normalized_(some_of(parts_.added, &parts_.normalizer)) {
  parts_.merges = {};
  for (const AddedToken& token : parts_.added) {
    vocabulary_ = std::max<std::int64_t>(vocabulary_, token.id + 1);
    has_normalized_ = has_normalized_ || token.normalized;
  }
  make_pieces(false, pieces_);
  if (parts_.decoder.first_differs()) make_pieces(true, first_pieces_);
  find_cuts();
}

void JsonTokenizer::make_pieces(bool first, std::vector<Piece>& pieces) {
  pieces.resize(static_cast<std::size_t>(vocabulary_));
  said_.reserve(said_.size() + pieces.size() * 7);
  for (std::int64_t id = 0; id < vocabulary_; ++id) {
    const std::string_view text = text_of(id);
    if (text.empty()) continue;
    Piece& piece = pieces[static_cast<std::size_t>(id)];
    const std::size_t begin = said_.size();
    piece.kind = parts_.decoder.append_piece(text, first, said_);
    check(said_.size() < std::uint32_t{0xFFFFFFFF}, "the texts of a vocabulary exceed 4 GiB");
    piece.begin = static_cast<std::uint32_t>(begin);
    piece.size = static_cast<std::uint32_t>(said_.size() - begin);
  }
  for (const AddedToken& token : parts_.added)
    pieces[static_cast<std::size_t>(token.id)].special = token.special;
}

std::unique_ptr<Encoder> JsonTokenizer::encoder() const {
  return std::make_unique<JsonEncoder>(*this);
}

// Where a text may be cut is known before there is one: see may_cut.
void JsonTokenizer::find_cuts() {
  const Normalizer& normalizer = parts_.normalizer;
  if (!normalizer.is_local() || (has_normalized_ && !normalizer.empty())) return;
  std::array<char32_t, 128> becomes{};
  bool plain = true;
  for (int c = 0; c < 128; ++c) {
    becomes[static_cast<std::size_t>(c)] = normalizer.ascii(static_cast<char>(c));
    const char32_t to = becomes[static_cast<std::size_t>(c)];
    if (is_plain(static_cast<char>(c)) && !(to < 128 && is_plain(static_cast<char>(to))))
      plain = false;
  }
  if (!plain) return;
  cuts_at_lines_ = parts_.pre_tokenizer.ends_words_at_lines() && becomes['\n'] == '\n';
  const char32_t blank = parts_.pre_tokenizer.seen_for(becomes[' ']);
  if (blank == kNoCodePoint || !parts_.pre_tokenizer.cuts_only_at_blanks(becomes[' '])) return;
  for (std::size_t c = 0; c < 128; ++c)
    cuts_at_blanks_[c] = is_plain(static_cast<char>(c)) && !bpe_.may_join(becomes[c], blank);
}

bool JsonTokenizer::may_cut(std::string_view text, std::size_t at) const {
  if (at < 2 || at + 1 >= text.size()) return false;
  const char before = text[at - 1], here = text[at];
  const bool line = cuts_at_lines_ && before == '\n' && is_plain(text[at - 2]) && is_plain(here);
  const bool blank = here == ' ' && static_cast<unsigned char>(before) < 128 &&
                     cuts_at_blanks_[static_cast<unsigned char>(before)] && is_plain(text[at + 1]);
  return (line || blank) && !raw_.touches(text, at) && !normalized_.touches(text, at);
}

std::size_t JsonTokenizer::cut_before(std::string_view text, std::size_t limit) const {
  limit = std::min(limit, text.size());
  const std::size_t least = limit > kCutReach ? limit - kCutReach : 0;
  while (limit > least && !may_cut(text, limit)) --limit;
  return limit > least ? limit : 0;
}

std::string_view JsonTokenizer::text_of(std::int64_t id) const {
  const auto added = parts_.added_by_id.find(id);
  return added == parts_.added_by_id.end() ? parts_.tokens.text(id)
                                           : std::string_view(parts_.added[added->second].content);
}

std::optional<std::int32_t> JsonTokenizer::id_of(std::string_view token) const {
  if (const auto added = parts_.added_by_text.find(token); added != parts_.added_by_text.end())
    return parts_.added[added->second].id;
  const std::int32_t id = parts_.tokens.find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::string JsonTokenizer::token_of(std::int64_t id) const { return std::string(text_of(id)); }

bool JsonTokenizer::is_special(std::int64_t id) const {
  return id >= 0 && id < vocabulary_ && pieces_[static_cast<std::size_t>(id)].special;
}

TokenPiece JsonTokenizer::piece(std::int64_t id, bool first) const {
  if (id < 0 || id >= vocabulary_) return {};
  const auto& pieces = first && !first_pieces_.empty() ? first_pieces_ : pieces_;
  const Piece& found = pieces[static_cast<std::size_t>(id)];
  return {std::string_view(said_).substr(found.begin, found.size), found.kind};
}

// Stand-ins for bytes are text if a whole row of them is; else each becomes U+FFFD.
std::string JsonTokenizer::decode(const std::vector<std::int32_t>& ids, bool skip_special) const {
  std::string text, row;
  bool first = true;
  const auto end_row = [&] {
    if (is_utf8(row))
      text += row;
    else
      for (std::size_t i = 0; i < row.size(); ++i) text += kReplacement;
    row.clear();
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check(ids[i] >= 0 && ids[i] < vocabulary_, "decode: id ", ids[i], " at position ", i,
          " is outside the vocabulary of ", vocabulary_);
    if ((skip_special && is_special(ids[i])) || text_of(ids[i]).empty()) continue;
    const TokenPiece said = piece(ids[i], first);
    if (said.kind == TokenPiece::Kind::kByte) {
      row += said.text;
    } else {
      if (!row.empty()) end_row();
      if (parts_.decoder.separated() && !first) text += ' ';
      text += said.text;
    }
    first = false;
  }
  end_row();
  if (parts_.decoder.bytes()) return is_utf8(text) ? text : to_utf8(text);
  std::size_t blanks = 0;
  while (blanks < static_cast<std::size_t>(parts_.decoder.leading_blanks_dropped()) &&
         blanks < text.size() && text[blanks] == ' ')
    ++blanks;
  return text.substr(blanks);
}

}  // namespace trireme
