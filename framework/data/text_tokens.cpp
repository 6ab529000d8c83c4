#include "framework/data/text_tokens.h"

#include <string_view>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "framework/data/parallel_encoder.h"
#include "framework/data/record_tokens.h"
#include "framework/data/text_files.h"
#include "framework/data/text_stream.h"
#include "framework/data/token_file.h"

namespace trireme {

namespace {

// Counted up when the same options give other tokens.
constexpr int kRecordVersion = 2;

// What counts, where that is a question.
LossOn loss_of(RecordForm form, const std::string& path, const TokenizeOptions& options) {
  const LossOn loss = options.loss_on.value_or(is_chat(form) ? LossOn::kAssistant : LossOn::kAll);
  check(is_chat(form) || loss == LossOn::kAll, "data.loss_on: ", path, " is ", name_of(form),
        ", which has no answers; use auto or all");
  return loss;
}

// Bytes of all files, for progress.
std::int64_t bytes_of(Files& files, const std::vector<std::string>& paths) {
  std::int64_t bytes = 0;
  for (const std::string& path : paths) bytes += files.status(path).bytes;
  return bytes;
}

// The hash of one text is its own.
std::string joint_hash(const std::vector<std::string>& hashes) {
  if (hashes.size() == 1) return hashes[0];
  ContentHash all;
  for (const std::string& hash : hashes) all.update(hash.data(), std::ssize(hash));
  return all.hex();
}

// What comes of one text after the other.
class Tokenizing {
 public:
  Tokenizing(Files& files, const std::vector<std::string>& paths, const Tokenizer& tokenizer,
             const TokenizeOptions& options, TokenWriter& writer)
      : files_(files),
        paths_(paths),
        tokenizer_(tokenizer),
        options_(options),
        writer_(writer),
        all_bytes_(bytes_of(files, paths)) {}

  void plain(TokenizeReport& report) {
    for (const std::string& path : paths_) text(path, report);
    report.text_hash = joint_hash(hashes_);
    report.trained = writer_.count();
    writer_.finish(report.text_hash);
  }

  void records(RecordForm form, TokenizeReport& report) {
    RecordCounts counts;
    for (const std::string& path : paths_) {
      counts.add(
          encode_records(files_, path, tokenizer_,
                         {.form = form,
                          .loss_on = loss_of(form, path, options_),
                          .skip_bad = options_.skip_bad,
                          .threads = options_.threads,
                          .progress = [&](std::int64_t done, std::int64_t) { tell(done); }},
                         [&](const DocumentTokens& made) { writer_.add(made.ids, made.trained); }));
      hashes_.push_back(counts.text_hash);
      read_ += files_.status(path).bytes;
    }
    report.text_hash = joint_hash(hashes_);
    report.text_bytes = counts.text_bytes;
    report.trained = writer_.trained();
    report.about = about_records(form, counts);
    report.first_bad = counts.first_bad;
    writer_.finish(report.text_hash, report.about, counts.documents);
  }

 private:
  void text(const std::string& path, TokenizeReport& report) {
    TextStream stream(files_, path);
    ParallelEncoder encoder(tokenizer_, options_.threads);
    std::vector<std::int32_t> ids;
    for (std::string_view piece; !(piece = stream.next()).empty();) {
      encoder.add(piece, ids);
      writer_.add(ids);
      ids.clear();
      tell(stream.file_read());
    }
    encoder.finish(ids);
    const auto eos = tokenizer_.settings().eos;
    if (paths_.size() > 1 && eos) ids.push_back(*eos);
    writer_.add(ids);
    report.text_bytes += stream.text_bytes();
    hashes_.push_back(stream.hash());
    read_ += stream.file_bytes();
  }

  void tell(std::int64_t done) const {
    if (options_.progress) options_.progress(read_ + done, all_bytes_);
  }

  Files& files_;
  const std::vector<std::string>& paths_;
  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  TokenWriter& writer_;
  std::int64_t all_bytes_, read_ = 0;
  std::vector<std::string> hashes_;
};

// Of what makes other tokens out of the same texts. Empty where nothing else does: of one plain
// text.
std::string options_hash(RecordForm form, const std::vector<std::string>& texts,
                         const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const LossOn loss = loss_of(form, texts.at(0), options);
  if (form == RecordForm::kPlain && texts.size() == 1) return {};
  std::string all =
      join(kRecordVersion, " ", name_of(form), " ", static_cast<int>(loss), " ",
           options.skip_bad ? "skip" : "", " ", tokenizer.settings().eos.value_or(-1));
  if (is_chat(form)) all += "\n" + ConversationEncoder::key_of(tokenizer);
  ContentHash hash;
  hash.update(all.data(), std::ssize(all));
  return "-" + hash.hex().substr(0, 16);
}

// Empty if the file is whole and belongs to this text; else what is wrong with it.
std::string damage_of(Files& files, const std::string& path, const std::string& text_hash,
                      const Tokenizer& tokenizer) {
  try {
    const auto tokens = TokenFile::open(files, path);
    const TokenHeader& header = tokens->header();
    if (header.text_hash != text_hash || header.tokenizer != tokenizer.name() ||
        header.vocabulary != tokenizer.vocabulary())
      return join("token file ", path, " belongs to another text or tokenizer");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string hash_text(Files& files, const std::string& path) {
  TextStream stream(files, path);
  while (!stream.next().empty()) {
  }
  return stream.hash();
}

RecordForm form_of(Files& files, const std::vector<std::string>& texts) {
  const RecordForm form = record_form(files, texts.at(0));
  for (const std::string& text : texts) {
    const RecordForm other = record_form(files, text);
    check(other == form, "data.text: ", texts[0], " is ", name_of(form), ", but ", text, " is ",
          name_of(other), "; give files of one kind, by a pattern such as FOLDER/*.jsonl");
  }
  return form;
}

TokenizeReport tokenize_files(Files& files, const std::vector<std::string>& inputs,
                              const std::string& output, const Tokenizer& tokenizer,
                              const TokenizeOptions& options) {
  const RecordForm form = form_of(files, inputs);
  loss_of(form, inputs[0], options);
  TokenizeReport report;
  report.input = name_of(inputs);
  report.output = output;
  report.tokenizer = tokenizer.name();
  report.vocabulary = tokenizer.vocabulary();
  report.type = token_type_name(token_width(report.vocabulary));
  TokenWriter writer(files, output, tokenizer.name(), tokenizer.vocabulary(),
                     form == RecordForm::kPlain ? TokensOf::kText : TokensOf::kDocuments);
  Tokenizing tokenizing(files, inputs, tokenizer, options, writer);
  if (form == RecordForm::kPlain)
    tokenizing.plain(report);
  else
    tokenizing.records(form, report);
  report.tokens = writer.count();
  return report;
}

TokenizeReport tokenize_file(Files& files, const std::string& input, const std::string& output,
                             const Tokenizer& tokenizer, const TokenizeOptions& options) {
  return tokenize_files(files, std::vector{input}, output, tokenizer, options);
}

CachedTokens cached_tokens(Files& files, const std::vector<std::string>& texts,
                           const std::string& cache_folder, const Tokenizer& tokenizer,
                           const TokenizeOptions& options) {
  std::vector<std::string> hashes;
  for (const std::string& text : texts) hashes.push_back(hash_text(files, text));
  const std::string text_hash = joint_hash(hashes);
  const RecordForm form = form_of(files, texts);
  const std::string others = options_hash(form, texts, tokenizer, options);
  CachedTokens cached;
  cached.path =
      path_join(cache_folder, join("tokens-", text_hash, "-", tokenizer.name(), others, ".h5"));
  if (files.exists(cached.path)) {
    const std::string damage = damage_of(files, cached.path, text_hash, tokenizer);
    cached.reused = damage.empty();
    if (cached.reused) return cached;
    cached.note = join("the token cache was rebuilt: ", damage);
  }
  files.make_directories(cache_folder);
  const TokenizeReport report = tokenize_files(files, texts, cached.path, tokenizer, options);
  check(report.text_hash == text_hash, "text ", name_of(texts),
        " changed while it was read; try again");
  if (!report.first_bad.empty())
    cached.note +=
        join(cached.note.empty() ? "" : "\n", "the first line passed over: ", report.first_bad);
  return cached;
}

CachedTokens cached_tokens(Files& files, const std::string& text, const std::string& cache_folder,
                           const Tokenizer& tokenizer, const TokenizeOptions& options) {
  return cached_tokens(files, std::vector{text}, cache_folder, tokenizer, options);
}

}  // namespace trireme
