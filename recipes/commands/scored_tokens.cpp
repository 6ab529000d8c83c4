#include "recipes/commands/scored_tokens.h"

#include <algorithm>
#include <ostream>

#include "framework/base/error.h"
#include "framework/data/records.h"
#include "framework/data/text_files.h"
#include "framework/data/text_stream.h"
#include "recipes/commands/tokenizing.h"

namespace trireme {

namespace {

class WordCount {
 public:
  void add(std::string_view piece) {
    for (const char c : piece) {
      const bool blank = c == ' ' || (c >= '\t' && c <= '\r');
      words_ += !blank && !inside_ ? 1 : 0;
      inside_ = !blank;
    }
  }
  void end_document() { inside_ = false; }
  std::int64_t words() const { return words_; }

 private:
  std::int64_t words_ = 0;
  bool inside_ = false;
};

// Bad lines are those that the tokens have passed over.
void add_words(Files& files, const std::string& path, RecordForm form, WordCount& count) {
  TextStream text(files, path);
  if (form == RecordForm::kPlain) {
    for (std::string_view piece = text.next(); !piece.empty(); piece = text.next())
      count.add(piece);
    return count.end_document();
  }
  LineReader lines(text);
  for (Line line; lines.next(line);) {
    try {
      count.add(record_of(line, form, path).text);
      count.end_document();
    } catch (const BadLine&) {
    }
  }
}

std::shared_ptr<const TokenFile> open_tokens(Process& process, const ModelSource& source) {
  const std::string& path = source.recipe.data.tokens;
  auto tokens = TokenFile::open(process.files, path);
  if (tokens->header().tokenizer != source.tokenizer->name())
    throw UsageError(join("data.tokens = ", path, " was made with the tokenizer \"",
                          tokens->header().tokenizer, "\", but the model's is \"",
                          source.tokenizer->name(), "\""));
  return tokens;
}

}  // namespace

ScoredTokens::ScoredTokens(Process& process, const ModelSource& source, bool loss_on)
    : vocabulary_(source.recipe.model.vocab) {
  if (source.recipe.data.tokens.empty())
    open_text(process, source, loss_on);
  else
    file_ = open_tokens(process, source);
  check(count() >= 2, "evaluate: the text has ", count(),
        " token(s); the first is never scored, so 2 are needed");
  const TokenHeader& header = file_->header();
  scored_ = header.masked ? header.trained - (file_->trained(0) ? 1 : 0) : count() - 1;
  check(scored_ > 0, "evaluate: no token of ", about(),
        " is learned, so there is nothing to score; data.loss_on = all scores everything");
  end_of_text_ = source.tokenizer->settings().eos;
  apart_ = source.recipe.data.reset_attention_mask && (header.bounded || end_of_text_.has_value());
}

void ScoredTokens::open_text(Process& process, const ModelSource& source, bool loss_on) {
  const std::vector<std::string> texts = texts_of(process, source.recipe.data.text);
  const RecordForm form = form_of(process.files, texts);
  TokenizingBar bar(process);
  TokenizeOptions options = bar.options(source.recipe);
  if (!is_chat(form) && !loss_on) options.loss_on.reset();
  const CachedTokens cached =
      cached_tokens(process.files, texts, process.cache_folder(), *source.tokenizer, options);
  if (texts.size() > 1) process.err << "data.text: " << name_of(texts) << "\n";
  if (!cached.note.empty()) process.err << cached.note << "\n";
  file_ = TokenFile::open(process.files, cached.path, false);
  if (form == RecordForm::kPlain) start_ = source.start;
  if (is_chat(form)) return;
  WordCount count;
  for (const std::string& text : texts) add_words(process.files, text, form, count);
  words_ = count.words();
}

std::vector<std::int32_t> ScoredTokens::range(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int32_t> ids;
  if (start_ && begin == 0) ids.push_back(*start_);
  const std::int64_t from = std::max<std::int64_t>(0, begin - before()), to = end - before();
  const std::size_t had = ids.size();
  ids.resize(static_cast<std::size_t>(end - begin));
  if (to > from) file_->copy(from, to - from, vocabulary_, ids.data() + had);
  return ids;
}

bool ScoredTokens::scored(std::int64_t position) const {
  return position > 0 && (position < before() || file_->trained(position - before()));
}

void ScoredTokens::document_starts(std::int64_t begin, std::span<std::int32_t> starts) const {
  const bool marked = file_->header().bounded;
  const std::vector<std::int32_t> seen =
      marked ? std::vector<std::int32_t>{} : range(begin, begin + std::ssize(starts));
  std::int32_t start = 0;
  for (std::size_t t = 0; t < starts.size(); ++t) {
    const std::int64_t position = begin + static_cast<std::int64_t>(t) - before();
    const bool begins = marked ? position >= 0 && file_->begins_document(position)
                               : t > 0 && seen[t - 1] == *end_of_text_;
    if (begins) start = static_cast<std::int32_t>(t);
    starts[t] = start;
  }
}

}  // namespace trireme
