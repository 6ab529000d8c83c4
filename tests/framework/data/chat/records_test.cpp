// Files of records: what they are taken for, what is wrong with a line, and the token files made of
// them.
#include "framework/data/records.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/data/samples.h"
#include "framework/data/text_tokens.h"
#include "tests/framework/data/gzip.h"
#include "tests/framework/data/tokenizers/made_tokenizer.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

class Records : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    write_whole_atomically(*files_, folder_ / name, bytes);
    return folder_ / name;
  }
  RecordForm form(const std::string& name, const std::string& bytes) {
    return record_form(*files_, write(name, bytes));
  }
  std::string complaint(const std::string& name, const std::string& bytes,
                        const TokenizeOptions& options = {}) {
    const std::string path = write(name, bytes);
    std::string sentence =
        sentence_of([&] { tokenize_file(*files_, path, folder_ / "t.h5", *tokenizer_, options); });
    const std::size_t at = sentence.find(path);
    if (at != std::string::npos) sentence.replace(at, path.size(), name);
    return sentence;
  }
  static std::unique_ptr<Tokenizer> tokenizer(const std::string& end) {
    MadeTokenizer made = byte_level();
    made.added = R"([{"id": 256, "content": "</s>", "normalized": false, "special": true}])";
    made.config = R"({"eos_token": "</s>", "chat_template": )"
                  R"("{% for m in messages %}{{ m.role + ':' + m.content }}</s>)" +
                  end + R"({% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"})";
    return made.load();
  }
  std::string cache_name(const Tokenizer& by, const TokenizeOptions& options) {
    return cached_tokens(*files_, folder_ / "c.jsonl", folder_ / "cache", by, options).path;
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<Files> files_ = real_files();
  const std::unique_ptr<Tokenizer> tokenizer_ = tokenizer("");
};

constexpr char kChat[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Q\"}, "
    "{\"role\": \"assistant\", \"content\": \"A\"}]}\n";

TEST_F(Records, AreToldByTheirFirstLines) {
  EXPECT_EQ(form("a.txt", "Once upon a time"), RecordForm::kPlain);
  EXPECT_EQ(form("a.txt", "{ int x; }\n{\"text\": 1}"), RecordForm::kPlain);
  EXPECT_EQ(form("a.txt", "{\"other\": 1}\n"), RecordForm::kPlain);
  EXPECT_EQ(form("a.txt", "\n{\"text\": \"x\"}\n"), RecordForm::kText);
  EXPECT_EQ(form("a.jsonl", kChat), RecordForm::kMessages);
  EXPECT_EQ(form("a.jsonl", "broken\n{\"instruction\": \"x\", \"output\": \"y\"}"),
            RecordForm::kAlpaca);
  EXPECT_EQ(form("a.jsonl", "{\"id\": 1, \"conversations\": []}"), RecordForm::kShareGpt);
  EXPECT_NE(complaint("a.jsonl", "{\"prompt\": 1, \"answer\": 2}").find("prompt, answer"),
            std::string::npos);
  EXPECT_TRUE(complaint("a.jsonl", "{\"messages\": [\n]}\n").starts_with("a.jsonl:1:15: "));
  EXPECT_NE(complaint("a.jsonl", "{\n}\n").find("each holds a whole object"), std::string::npos);
  EXPECT_EQ(complaint("a.jsonl", "\n \n"), "a.jsonl: all lines are blank");
  EXPECT_NE(complaint("a.json", "[{\"text\": 1}]").find("jq -c"), std::string::npos);
}

TEST_F(Records, OfThreeShapesAreOneConversation) {
  const auto messages = [&](const std::string& line, RecordForm form) {
    return record_of({line, 1}, form, "f").messages;
  };
  const Json expected = messages(
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q\nI"},
          {"role": "assistant", "content": "A"}]})",
      RecordForm::kMessages);
  EXPECT_EQ(messages(R"({"system": "S", "instruction": "Q", "input": "I", "output": "A"})",
                     RecordForm::kAlpaca),
            expected);
  EXPECT_EQ(messages(R"({"conversations": [{"from": "system", "value": "S"},
                         {"from": "human", "value": "Q\nI"}, {"from": "gpt", "value": "A"}]})",
                     RecordForm::kShareGpt),
            expected);
  EXPECT_EQ(messages(R"({"system": "S", "conversations": [{"role": "user", "content": "Q\nI"},
                         {"role": "assistant", "content": "A", "name": null}]})",
                     RecordForm::kShareGpt),
            expected);
}

TEST_F(Records, ContentsAreTextsOrPartsOrCalls) {
  const auto record = [&](const std::string& message) {
    return sentence_of([&] {
      record_of({R"({"messages": [{"role": "assistant", )" + message + "}]}", 1},
                RecordForm::kMessages, "f");
    });
  };
  EXPECT_EQ(record(R"("content": "a")"), "");
  EXPECT_EQ(record(R"("content": [{"type": "text", "text": "a"}])"), "");
  EXPECT_EQ(record(R"("content": null, "tool_calls": [{"function": {"name": "f"}}])"), "");
  EXPECT_EQ(record(R"("tool_calls": [{"function": {"name": "f"}}])"), "");
  for (const std::string none : {R"("content": null)", R"("content": 3)", R"("name": "x")",
                                 R"("content": null, "tool_calls": [])", R"("content": [])",
                                 R"("content": ["a"])", R"("content": [{"type": "text"}])"})
    EXPECT_NE(record(none), "") << none;
  for (const std::string type : {"image_url", "image", "input_audio", "video"})
    EXPECT_NE(record(R"("content": [{"type": ")" + type + R"(", "text": "a"}])")
                  .find("\"type\": \"" + type + "\", which is not read"),
              std::string::npos);
  const Record calls =
      record_of({R"({"messages": [{"role": "tool", "content": [{"type": "text", "text": "a"},
          {"type": "text", "text": "b"}]}]})",
                 1},
                RecordForm::kMessages, "f");
  EXPECT_EQ(said_by(calls.messages.array("m")[0]), (std::vector<std::string>{"a", "b"}));
  const Record nulls = record_of(
      {R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [1], "name": null}]})",
       1},
      RecordForm::kMessages, "f");
  EXPECT_EQ(nulls.messages.array("m")[0].object("m").size(), 2u);
  EXPECT_EQ(said_by(nulls.messages.array("m")[0]), std::vector<std::string>());
}

TEST_F(Records, BadLinesHaveAPlace) {
  const std::string two = std::string(kChat) + "\n{\"messages\": nope}\n" + kChat;
  const std::string sentence = complaint("a.jsonl", two);
  EXPECT_TRUE(sentence.starts_with("a.jsonl:3:15: ")) << sentence;
  EXPECT_NE(sentence.find("the line begins: {\"messages\": nope}"), std::string::npos) << sentence;
  EXPECT_NE(complaint("a.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}")
                .find("a.jsonl:2:1: record: \"text\" is missing; there is txt"),
            std::string::npos);
  EXPECT_NE(complaint("b.jsonl", "{\"conversations\": [{\"from\": \"ghost\", \"value\": \"\"}]}")
                .find("\"ghost\" is no speaker"),
            std::string::npos);
  EXPECT_NE(complaint("a.jsonl", std::string(kChat).insert(1, "\"tools\": \"[]\", "))
                .find("a.jsonl:1:1: \"tools\": an array is expected, here is "),
            std::string::npos);
  EXPECT_EQ(complaint("a.jsonl", std::string(kChat).insert(1, "\"tools\": null, ")), "");
  EXPECT_EQ(complaint("a.jsonl", "{\"text\": \"a\"}\n\x1b[2J").find('\x1b'), std::string::npos);
  EXPECT_EQ(complaint("a.jsonl", two, {.skip_bad = true}), "");
  const auto tokens = TokenFile::open(*files_, folder_ / "t.h5");
  EXPECT_EQ(tokens->header().about,
            "chat (messages), 2 conversations, roles user/assistant, 1 bad line passed over");
  EXPECT_EQ(tokens->header().documents, 2);
  EXPECT_NE(complaint("a.jsonl", "{\"text\": 1}", {.skip_bad = true}).find("has no document"),
            std::string::npos);
}

TEST_F(Records, ForeignFormatsAreRefused) {
  EXPECT_NE(complaint("a.zst", "\x28\xb5\x2f\xfd\xff\xff\xff").find("zstd"), std::string::npos);
  EXPECT_NE(complaint("a.parquet", "PAR1....").find("is Parquet"), std::string::npos);
  EXPECT_NE(complaint("a.csv", "a,b").find("is a table (.csv)"), std::string::npos);
  const std::string packed = gzip(kChat);
  EXPECT_NE(complaint("a.gz", packed.substr(0, packed.size() - 9)).find("cut off"),
            std::string::npos);
  std::string damaged = packed;
  damaged[packed.size() / 2] ^= 0x55;
  EXPECT_NE(complaint("a.gz", damaged).find("damaged gzip"), std::string::npos);
}

TEST_F(Records, TextsEndWithTheEndOfText) {
  const std::string lines = "{\"text\": \"ab\"}\n{\"text\": \"c\"}";
  EXPECT_EQ(complaint("a.jsonl", lines), "");
  const auto tokens = TokenFile::open(*files_, folder_ / "t.h5");
  std::vector<std::int32_t> ids(5);
  tokens->copy(0, 5, 257, ids.data());
  EXPECT_EQ(ids, (std::vector<std::int32_t>{'a', 'b', 256, 'c', 256}));
  EXPECT_FALSE(tokens->header().masked);
  EXPECT_EQ(complaint("a.jsonl.gz", gzip(lines)), "");
  EXPECT_EQ(TokenFile::open(*files_, folder_ / "t.h5")->header().token_hash,
            tokens->header().token_hash);
  EXPECT_NE(complaint("a.jsonl", lines, {.loss_on = LossOn::kLast}).find("has no answers"),
            std::string::npos);
}

TEST_F(Records, TheMaskReachesTheLabels) {
  ASSERT_EQ(complaint("a.jsonl", std::string(kChat) + kChat), "");
  const auto tokens = TokenFile::open(*files_, folder_ / "t.h5");
  // user:Q</s>assistant:A</s>
  const std::string each = std::string(17, '0') + "11";
  ASSERT_EQ(tokens->count(), 2 * std::ssize(each));
  EXPECT_EQ(tokens->header().trained, 4);
  for (std::int64_t i = 0; i < tokens->count(); ++i)
    EXPECT_EQ(tokens->trained(i), each[static_cast<std::size_t>(i) % each.size()] == '1') << i;
  const SampleSet set(tokens, 0, tokens->count(),
                      {.sequence = 12, .shuffle = false, .vocabulary = 257});
  std::vector<std::int32_t> ids, labels;
  set.fill(1, 1, ids, labels);
  for (std::int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(labels[static_cast<std::size_t>(i)], i == 4 ? 'A' : i == 5 ? 256 : -1) << i;
}

TEST_F(Records, ThreadsChangeNothing) {
  std::string lines;
  for (int i = 0; i < 500; ++i) lines += kChat;
  ASSERT_EQ(complaint("a.jsonl", lines, {.threads = 1}), "");
  const std::string one = read_whole(*files_, folder_ / "t.h5");
  ASSERT_EQ(complaint("a.jsonl", lines, {.threads = 4}), "");
  EXPECT_EQ(read_whole(*files_, folder_ / "t.h5"), one);
}

TEST_F(Records, TheCacheKnowsTemplateAndOptions) {
  write("c.jsonl", kChat);
  const auto other = tokenizer(" ");
  const std::string first = cache_name(*tokenizer_, {});
  EXPECT_EQ(cache_name(*tokenizer_, {.loss_on = LossOn::kAssistant}), first);
  EXPECT_NE(cache_name(*tokenizer_, {.loss_on = LossOn::kAll}), first);
  EXPECT_NE(cache_name(*tokenizer_, {.loss_on = LossOn::kLast}), first);
  EXPECT_NE(cache_name(*other, {}), first);
  EXPECT_TRUE(
      cached_tokens(*files_, folder_ / "c.jsonl", folder_ / "cache", *tokenizer_, {}).reused);
}

// What tokenizer_config.json says beside the tokens decides which tokens come out, too.
TEST_F(Records, TheCacheKnowsWhichTokensAreSpecial) {
  const auto made = [](const std::string& config) {
    MadeTokenizer tokenizer = byte_level();
    tokenizer.added = R"([{"id": 256, "content": "<a>"}, {"id": 257, "content": "<b>"}])";
    tokenizer.config =
        R"({"chat_template": "{% for m in messages %}{{ m.content + bos_token }}{% endfor %}")" +
        config + "}";
    return tokenizer.load();
  };
  write("c.jsonl", kChat);
  write("t.jsonl", "{\"text\": \"x\"}\n");
  write("one", "x");
  write("two", "y");
  const auto a = made(R"(, "eos_token": "<a>", "bos_token": "<a>")");
  const auto b = made(R"(, "eos_token": "<b>", "bos_token": "<a>")");
  const auto c = made(R"(, "eos_token": "<a>", "bos_token": "<b>")");
  ASSERT_EQ(a->name(), b->name());
  const auto name = [&](const std::vector<std::string>& texts, const Tokenizer& by) {
    std::vector<std::string> paths;
    for (const std::string& text : texts) paths.push_back(folder_ / text);
    return cached_tokens(*files_, paths, folder_ / "cache", by, {}).path;
  };
  EXPECT_NE(name({"c.jsonl"}, *a), name({"c.jsonl"}, *b));
  EXPECT_NE(name({"c.jsonl"}, *a), name({"c.jsonl"}, *c));
  EXPECT_NE(name({"t.jsonl"}, *a), name({"t.jsonl"}, *b));
  EXPECT_EQ(name({"t.jsonl"}, *a), name({"t.jsonl"}, *c));
  EXPECT_NE(name({"one", "two"}, *a), name({"one", "two"}, *b));
  EXPECT_EQ(name({"one"}, *a), name({"one"}, *b));  // no token stands behind a single text
}

// Every byte of a file with a mask is under its seal or its hash.
TEST_F(Records, DamageBesideAndInAMaskIsNoticed) {
  ASSERT_EQ(complaint("a.jsonl", std::string(kChat) + kChat), "");
  const std::string whole = read_whole(*files_, folder_ / "t.h5");
  for (std::size_t at = 0; at < whole.size(); at += 1 + (whole[at] == 0 ? 37 : 0)) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write("d.h5", damaged);
    EXPECT_NE(sentence_of([&] { TokenFile::open(*files_, folder_ / "d.h5"); }), "") << at;
  }
}

}  // namespace
}  // namespace trireme::testing
