#include "framework/data/text_tokens.h"

#include <string_view>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "framework/data/parallel_encoder.h"
#include "framework/data/record_tokens.h"
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

void write_text(TextStream& stream, const Tokenizer& tokenizer, const TokenizeOptions& options,
                TokenWriter& writer, TokenizeReport& report) {
  ParallelEncoder encoder(tokenizer, options.threads);
  std::vector<std::int32_t> ids;
  for (std::string_view piece; !(piece = stream.next()).empty();) {
    encoder.add(piece, ids);
    writer.add(ids);
    ids.clear();
    if (options.progress) options.progress(stream.file_read(), stream.file_bytes());
  }
  encoder.finish(ids);
  writer.add(ids);
  report.text_hash = stream.hash();
  report.text_bytes = stream.text_bytes();
  report.trained = writer.count();
  writer.finish(report.text_hash);
}

void write_records(Files& files, RecordForm form, const Tokenizer& tokenizer,
                   const TokenizeOptions& options, TokenWriter& writer, TokenizeReport& report) {
  const RecordOptions records{.form = form,
                              .loss_on = loss_of(form, report.input, options),
                              .skip_bad = options.skip_bad,
                              .threads = options.threads,
                              .progress = options.progress};
  const RecordCounts counts =
      encode_records(files, report.input, tokenizer, records,
                     [&](const DocumentTokens& made) { writer.add(made.ids, made.trained); });
  report.text_hash = counts.text_hash;
  report.text_bytes = counts.text_bytes;
  report.trained = writer.trained();
  report.about = about_records(form, counts);
  report.first_bad = counts.first_bad;
  writer.finish(counts.text_hash, report.about, counts.documents);
}

// Of what makes other tokens out of the same text.
std::string options_hash(RecordForm form, const std::string& path, const Tokenizer& tokenizer,
                         const TokenizeOptions& options) {
  const LossOn loss = loss_of(form, path, options);
  std::string all = join(kRecordVersion, " ", name_of(form), " ", static_cast<int>(loss), " ",
                         options.skip_bad ? "skip" : "");
  if (is_chat(form)) all += "\n" + ConversationEncoder::template_of(tokenizer);
  ContentHash hash;
  hash.update(all.data(), std::ssize(all));
  return hash.hex().substr(0, 16);
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

TokenizeReport tokenize_file(Files& files, const std::string& input, const std::string& output,
                             const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const RecordForm form = record_form(files, input);
  loss_of(form, input, options);
  TokenizeReport report;
  report.input = input;
  report.output = output;
  report.tokenizer = tokenizer.name();
  report.vocabulary = tokenizer.vocabulary();
  report.type = token_type_name(token_width(report.vocabulary));
  TokenWriter writer(files, output, tokenizer.name(), tokenizer.vocabulary(),
                     form == RecordForm::kPlain ? TokensOf::kText : TokensOf::kDocuments);
  if (form == RecordForm::kPlain) {
    TextStream stream(files, input);
    write_text(stream, tokenizer, options, writer, report);
  } else {
    write_records(files, form, tokenizer, options, writer, report);
  }
  report.tokens = writer.count();
  return report;
}

CachedTokens cached_tokens(Files& files, const std::string& text, const std::string& cache_folder,
                           const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::string text_hash = hash_text(files, text);
  const RecordForm form = record_form(files, text);
  const std::string others =
      form == RecordForm::kPlain ? "" : "-" + options_hash(form, text, tokenizer, options);
  if (form == RecordForm::kPlain) loss_of(form, text, options);
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
  const TokenizeReport report = tokenize_file(files, text, cached.path, tokenizer, options);
  check(report.text_hash == text_hash, "text ", text, " changed while it was read; try again");
  if (!report.first_bad.empty())
    cached.note +=
        join(cached.note.empty() ? "" : "\n", "the first line passed over: ", report.first_bad);
  return cached;
}

}  // namespace trireme
