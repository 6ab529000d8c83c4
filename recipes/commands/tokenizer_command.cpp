// trireme tokenizer train OUT_FOLDER --data.text=FILE [--data.text=FILE ...] --vocab N
//                         [--split gpt2|llama3] [--skip-bad] [--json]: learns a
// byte-level BPE tokenizer from texts, JSON lines and conversations, packed or not.
// trireme tokenizer show TEXT [--data.tokenizer=PATH] [--json]: the tokens of a text.
#include <algorithm>
#include <ostream>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/data/records.h"
#include "framework/data/tokenizer.h"
#include "framework/data/tokenizers/bpe_trainer.h"
#include "recipes/cli/values.h"
#include "recipes/commands/process.h"
#include "recipes/commands/tokenizing.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"

namespace trireme {

namespace {

constexpr const char* kUsage =
    "trireme tokenizer train OUT_FOLDER --data.text=FILE [--data.text=FILE ...] --vocab N "
    "[--split gpt2|llama3] [--skip-bad] [--json], or trireme tokenizer show TEXT "
    "[--data.tokenizer=PATH] "
    "[--json]";
constexpr const char* kEnd = "<|endoftext|>";

void expect_only(const CommandLine& line, std::initializer_list<std::string_view> keys) {
  for (const Flag& flag : line.flags)
    if (std::find(keys.begin(), keys.end(), flag.name) == keys.end())
      throw UsageError(
          join("tokenizer ", line.names[0], ": --", flag.name, " is no option of it: ", kUsage));
}

std::int64_t wanted_tokens(const CommandLine& line) {
  const auto given = line.options.find("vocab");
  if (given == line.options.end())
    throw UsageError("tokenizer train: --vocab N says how many tokens there shall be");
  const auto tokens = parse_count(given->second);
  if (!tokens || *tokens < 257 || *tokens > 10'000'000)
    throw UsageError(join("--vocab = ", given->second,
                          ": expected a whole number, 257 (256 bytes and ", kEnd,
                          ") to 10,000,000"));
  return *tokens;
}

const KnownPattern& wanted_pattern(const CommandLine& line) {
  const auto given = line.options.find("split");
  if (given == line.options.end() || given->second == "gpt2") return gpt2_pattern();
  if (given->second == "llama3") return llama3_pattern();
  throw UsageError(join("--split = ", given->second, ": legal values: gpt2 or llama3"));
}

std::vector<std::string> wanted_texts(Process& process, const CommandLine& line) {
  std::vector<std::string> texts;
  for (const Flag& flag : line.flags) {
    if (flag.name != "data.text") continue;
    if (!flag.value || flag.value->empty()) throw UsageError("--data.text needs a file");
    const std::vector<std::string> some = texts_of(process, *flag.value);
    texts.insert(texts.end(), some.begin(), some.end());
  }
  if (texts.empty()) throw UsageError(join("tokenizer train: ", kUsage));
  return texts;
}

struct CountedText {
  std::int64_t bytes = 0, documents = 0, bad = 0;
  std::string first_bad;
};

// The words of what `tokenize` would encode; of conversations, of what their messages say.
void add_record(const Record& record, RecordForm form, BpeTrainer& trainer) {
  const auto add = [&](const std::string& text) {
    trainer.add(text);
    trainer.end_text();
  };
  if (!is_chat(form)) return add(record.text);
  for (const Json& message : record.messages.array("messages"))
    for (const std::string& text : said_by(message)) add(text);
}

template <typename Tell>
void count_records(TextStream& stream, RecordForm form, bool skip_bad, BpeTrainer& trainer,
                   const Tell& tell, CountedText& counted) {
  LineReader lines(stream);
  for (Line line; lines.next(line); tell(stream.file_read())) {
    try {
      add_record(record_of(line, form, stream.path()), form, trainer);
      ++counted.documents;
    } catch (const BadLine& bad) {
      check(skip_bad, bad.what(), "\ndata.skip_bad = true passes over such lines");
      if (++counted.bad == 1) counted.first_bad = bad.what();
    }
  }
  check(counted.documents > 0, stream.path(), " has no document",
        counted.bad == 0 ? "" : "; the first bad line: ", counted.first_bad);
}

// Reads a text piece by piece; `tell` gets the bytes of the file so far.
template <typename Tell>
CountedText count_words(Files& files, const std::string& path, bool skip_bad, BpeTrainer& trainer,
                        const Tell& tell) {
  const RecordForm form = record_form(files, path);
  TextStream stream(files, path);
  CountedText counted;
  if (form != RecordForm::kPlain) {
    count_records(stream, form, skip_bad, trainer, tell, counted);
  } else {
    for (std::string_view piece; !(piece = stream.next()).empty(); tell(stream.file_read()))
      trainer.add(piece);
    trainer.end_text();
  }
  counted.bytes = stream.text_bytes();
  return counted;
}

// A recipe has one text.
std::vector<Flag> without_texts(const CommandLine& line) {
  std::vector<Flag> flags = line.flags;
  std::erase_if(flags, [](const Flag& flag) { return flag.name == "data.text"; });
  return flags;
}

int train(Process& process, const CommandLine& line) {
  expect_only(line, {"data.text", "data.skip_bad"});
  if (line.names.size() != 2) throw UsageError(join("tokenizer train: ", kUsage));
  const Recipe recipe =
      recipe_of(process, {.command = line.command, .flags = without_texts(line)}, false);
  const std::vector<std::string> texts = wanted_texts(process, line);
  const std::int64_t tokens = wanted_tokens(line);
  const KnownPattern& pattern = wanted_pattern(line);
  BpeTrainer trainer(pattern);
  TokenizingBar bar(process);
  std::int64_t all = 0, read = 0, bytes = 0, bad = 0;
  for (const std::string& text : texts) {
    if (process.files.status(text).kind != FileKind::kFile)
      throw UsageError(join("data.text = ", text, ": there is no such file"));
    all += process.files.status(text).bytes;
  }
  const TokenizeOptions options = bar.options(recipe);
  for (const std::string& text : texts) {
    const CountedText counted =
        count_words(process.files, text, options.skip_bad, trainer,
                    [&](std::int64_t done) { options.progress(read + done, all); });
    read += process.files.status(text).bytes;
    bytes += counted.bytes;
    if (bad == 0 && counted.bad > 0)
      process.err << "the first line passed over: " << counted.first_bad << "\n";
    bad += counted.bad;
  }
  Console console(process.err, process.terminal, nullptr);
  const TrainedTokenizer trained = trainer.train(
      tokens - 1,
      [&](std::int64_t done, std::int64_t wanted) { console.bar(done, wanted, "merges"); });
  console.clear();
  const std::string& folder = line.names[1];
  process.files.make_directories(folder);
  write_whole_atomically(process.files, path_join(folder, "tokenizer.json"),
                         tokenizer_json(trained, pattern, {kEnd}));
  write_whole_atomically(process.files, path_join(folder, "tokenizer_config.json"),
                         tokenizer_config_json(kEnd));
  const auto count = static_cast<std::int64_t>(trained.tokens.size()) + 1;
  if (line.options.contains("json"))
    process.out << to_text(Json(Json::Object{{"folder", folder},
                                             {"tokens", count},
                                             {"merges", std::ssize(trained.merges)},
                                             {"distinct_words", trainer.distinct_words()},
                                             {"text_bytes", bytes},
                                             {"bad_lines", bad}}))
                << "\n";
  else
    process.out << folder << ": " << grouped(count) << " tokens from " << grouped(bytes)
                << " bytes, " << grouped(trainer.distinct_words()) << " distinct words"
                << (bad > 0 ? join(", ", grouped(bad), bad == 1 ? " bad line" : " bad lines",
                                   " passed over")
                            : "")
                << (count < tokens ? "; no pair of tokens is left that occurs twice" : "") << "\n";
  return 0;
}

// Neighbours in different colours, so that blanks show where they belong.
std::string coloured(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i)
    text += join("\x1b[", i % 2 ? "30;46m" : "30;43m",
                 printable(tokenizer.piece(ids[i], i == 0).text), "\x1b[0m");
  return text + "\n";
}

int show(Process& process, const CommandLine& line) {
  expect_only(line, {"data.tokenizer"});
  if (line.names.size() != 2) throw UsageError(join("tokenizer show: ", kUsage));
  const Recipe recipe = recipe_of(process, {.command = line.command, .flags = line.flags}, false);
  const auto tokenizer = make_tokenizer(recipe.data.tokenizer, process.files);
  std::vector<std::int32_t> ids;
  tokenizer->encode(line.names[1], ids);
  if (line.options.contains("json")) {
    Json::Array numbers, tokens, pieces;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      numbers.emplace_back(std::int64_t{ids[i]});
      tokens.emplace_back(printable(tokenizer->token_of(ids[i])));
      pieces.emplace_back(printable(tokenizer->piece(ids[i], i == 0).text));
    }
    process.out << to_text(Json(Json::Object{{"tokenizer", tokenizer->name()},
                                             {"ids", std::move(numbers)},
                                             {"tokens", std::move(tokens)},
                                             {"pieces", std::move(pieces)}}))
                << "\n";
    return 0;
  }
  if (process.color_out) process.out << coloured(*tokenizer, ids);
  for (std::size_t i = 0; i < ids.size(); ++i)
    process.out << join(ids[i], "\t", json_string(printable(tokenizer->piece(ids[i], i == 0).text)),
                        tokenizer->is_special(ids[i]) ? "\tspecial" : "", "\n");
  process.out << ids.size() << (ids.size() == 1 ? " token\n" : " tokens\n");
  return 0;
}

}  // namespace

int tokenizer_command(Process& process, const CommandLine& line) {
  if (!line.names.empty() && line.names[0] == "train") return train(process, line);
  if (!line.names.empty() && line.names[0] == "show") return show(process, line);
  throw UsageError(join("tokenizer: ", kUsage));
}

}  // namespace trireme
