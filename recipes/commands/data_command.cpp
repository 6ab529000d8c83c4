// trireme data show RECIPE [-n 3], or trireme data show --data.text=FILE [--data.tokenizer=PATH]:
// training samples, with what is learned marked.
// trireme data info FILE [--data.tokenizer=PATH] [--json]: what a text or a token file holds.
#include <algorithm>
#include <optional>
#include <ostream>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/data/record_tokens.h"
#include "recipes/commands/document_statistics.h"
#include "recipes/commands/process.h"
#include "recipes/commands/tokenizing.h"
#include "recipes/commands/trained_marks.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"

namespace trireme {

namespace {

constexpr char kUsage[] =
    "trireme data show RECIPE|--data.text=FILE [-n 3], or trireme data info FILE "
    "[--data.tokenizer=PATH] [--json]";

std::int64_t samples_wanted(const CommandLine& line) {
  const auto given = line.options.find("n");
  if (given == line.options.end()) return 3;
  const std::string& text = given->second;
  const bool number = !text.empty() && text.size() < 10 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (!number || std::stoll(text) < 1)
    throw UsageError(join("data show: -n ", text, " is no number of samples; use 1 or more"));
  return std::stoll(text);
}

int show(Process& process, const CommandLine& line) {
  const std::int64_t wanted = samples_wanted(line);
  CommandLine of = line;
  of.names.erase(of.names.begin());
  const Recipe recipe = recipe_of(process, of, false);
  if (recipe.data.text.empty() && recipe.data.tokens.empty())
    throw UsageError(join("data show: neither data.text nor data.tokens is given; ", kUsage));
  const auto tokenizer = make_tokenizer(recipe.data.tokenizer, process.files);
  const OpenedData opened = open_data(process, recipe, *tokenizer);
  const TokenHeader& header = opened.tokens->header();
  check(header.count > 1, "data show: ", opened.tokens->path(),
        " has one token, which is no sample");
  // In the order of the file: documents are read, not drawn.
  const std::int64_t length = std::min(recipe.batch.sequence, header.count - 1);
  const TokenDataset data(opened.tokens,
                          {.sequence = length, .shuffle = false, .vocabulary = header.vocabulary});
  const TrainedMarks marks =
      process.color_out ? TrainedMarks{"\x1b[30;42m", "\x1b[0m"} : TrainedMarks{};
  if (!opened.note.empty()) process.err << opened.note << "\n";
  for (std::int64_t i = 0; i < std::min(wanted, data.train().size()); ++i)
    process.out << "sample " << i + 1 << " of " << grouped(data.train().size()) << ": " << length
                << " tokens, " << trained_labels(data, i) << " learned\n"
                << marked_sample(data, i, *tokenizer, marks) << "\n\n";
  process.out << (header.about.empty() ? "text" : printable(header.about)) << ": "
              << grouped(header.count) << " tokens, "
              << (header.masked ? grouped(header.trained) + " of them learned"
                                : std::string("all of them learned"))
              << "\n";
  return 0;
}

struct Info {
  std::string about;
  std::int64_t documents = 1, tokens = 0, trained = 0, bytes = 0;
  std::optional<DocumentStatistics> statistics = {};  // where documents are known
  std::string unit = "document";                      // that they are counted by
};

bool is_token_file(Files& files, const std::string& path) {
  if (files.status(path).kind != FileKind::kFile) return false;
  char begin[4] = {};
  files.open(path, OpenMode::kRead)->read_some(begin, 4, 0);
  return std::string_view(begin, 4) == "\x89HDF";
}

// Of a file that marks where they begin.
DocumentStatistics statistics_of(const TokenFile& file, std::int64_t sequence) {
  DocumentStatistics statistics(sequence);
  std::vector<std::int32_t> ids;
  for (std::int64_t begin = 0, number = 1; begin < file.count(); ++number) {
    std::int64_t end = begin + 1, trained = file.trained(begin) ? 1 : 0;
    for (; end < file.count() && !file.begins_document(end); ++end)
      trained += file.trained(end) ? 1 : 0;
    ids.resize(static_cast<std::size_t>(end - begin));
    file.copy(begin, end - begin, file.header().vocabulary, ids.data());
    statistics.add({.ids = ids, .trained = trained, .line = number});
    begin = end;
  }
  return statistics;
}

Info info_of_tokens(const TokenFile& file, std::int64_t sequence) {
  const TokenHeader& header = file.header();
  Info info{.about = printable(header.about), .tokens = header.count, .trained = header.trained};
  if (info.about.empty()) {
    info.about = "text";
    info.trained = header.count;
  } else {
    info.documents = header.documents;
  }
  if (header.bounded) info.statistics = statistics_of(file, sequence);
  return info;
}

// Documents of JSON lines; of one file they are told by their lines, of several counted.
Info info_of_records(Process& process, const Recipe& recipe, const std::vector<std::string>& texts,
                     RecordForm form) {
  const auto tokenizer = make_tokenizer(recipe.data.tokenizer, process.files);
  TokenizingBar bar(process);
  const TokenizeOptions options = bar.options(recipe);
  const bool several = texts.size() > 1;
  Info info{.unit = several ? "document" : "line"};
  info.statistics.emplace(recipe.batch.sequence);
  RecordCounts counts;
  for (const std::string& text : texts)
    counts.add(encode_records(
        process.files, text, *tokenizer,
        {.form = form,
         .loss_on = options.loss_on.value_or(is_chat(form) ? LossOn::kAssistant : LossOn::kAll),
         .skip_bad = options.skip_bad,
         .threads = options.threads,
         .progress = options.progress},
        [&](const DocumentTokens& made) {
          info.statistics->add({.ids = made.ids,
                                .trained = std::count(made.trained.begin(), made.trained.end(), 1),
                                .turns = made.turns,
                                .line = several ? info.statistics->documents() + 1 : made.line});
        }));
  info.about = about_records(form, counts);
  info.documents = counts.documents;
  info.tokens = info.statistics->tokens();
  info.trained = info.statistics->trained();
  info.bytes = counts.text_bytes;
  if (!counts.first_bad.empty())
    process.err << "the first line passed over: " << counts.first_bad << "\n";
  return info;
}

Info info_of_text(Process& process, const Recipe& recipe, const std::string& path) {
  const std::vector<std::string> texts = texts_of(process, path);
  const RecordForm form = form_of(process.files, texts);
  if (form != RecordForm::kPlain) return info_of_records(process, recipe, texts, form);
  Recipe of = recipe;
  of.data.text = path;
  const auto tokenizer = make_tokenizer(recipe.data.tokenizer, process.files);
  const OpenedData opened = open_data(process, of, *tokenizer);
  if (!opened.note.empty()) process.err << opened.note << "\n";
  Info info = info_of_tokens(*opened.tokens, recipe.batch.sequence);
  info.documents = std::ssize(texts);
  for (const std::string& text : texts) info.bytes += process.files.status(text).bytes;
  return info;
}

int info(Process& process, const CommandLine& line) {
  if (line.names.size() != 2) throw UsageError(join("data info: ", kUsage));
  const std::string& path = line.names[1];
  const Recipe recipe = recipe_of(process, {.command = line.command, .flags = line.flags}, false);
  const Info found =
      is_token_file(process.files, path)
          ? info_of_tokens(*TokenFile::open(process.files, path), recipe.batch.sequence)
          : info_of_text(process, recipe, path);
  if (line.options.contains("json")) {
    Json::Object all{
        {"file", path},           {"about", found.about},     {"documents", found.documents},
        {"tokens", found.tokens}, {"trained", found.trained}, {"bytes", found.bytes}};
    if (found.statistics)
      for (Json::Member& member : found.statistics->json(found.unit))
        all.push_back(std::move(member));
    process.out << to_text(Json(std::move(all))) << "\n";
    return 0;
  }
  process.out << path << ": " << found.about << "\n"
              << "tokens     " << grouped(found.tokens) << "\n"
              << "learned    " << grouped(found.trained) << " ("
              << percent_text(static_cast<double>(found.trained) /
                              static_cast<double>(found.tokens))
              << ")\n";
  if (found.bytes > 0)
    process.out << "bytes      " << grouped(found.bytes) << ", "
                << fixed(static_cast<double>(found.bytes) / static_cast<double>(found.tokens), 2)
                << " a token\n";
  if (found.statistics) process.out << found.statistics->text(found.unit);
  return 0;
}

}  // namespace

int data_command(Process& process, const CommandLine& line) {
  if (!line.names.empty() && line.names[0] == "show") return show(process, line);
  if (!line.names.empty() && line.names[0] == "info") return info(process, line);
  throw UsageError(join("data: ", kUsage));
}

}  // namespace trireme
