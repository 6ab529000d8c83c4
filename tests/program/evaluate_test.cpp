// trireme evaluate, and generate from a model folder, as a user calls them: losses against those of
// pieces and of `transformers`, under layouts; strides, last words, choices, bad input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tests/framework/data/gzip.h"
#include "tests/program/checkpoints/run_columns.h"

namespace trireme::testing {
namespace {

using Object = nlohmann::json;

const Words kLayouts[] = {{"--parallel.data=3"},
                          {"--parallel.tensor=2", "--parallel.sequence=true"},
                          {"--parallel.pipeline=2", "--parallel.data=2", "--zero.stage=3"},
                          {"--parallel.pipeline=2", "--parallel.tensor=2", "--batch.micro=1"}};

// A model that has learned to go on with "ab ab ab ...".
class Evaluate : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    run_ = new TinyRun();
    std::string text;
    for (int i = 0; i < 1000; ++i) text += i % 50 == 49 ? "xyz " : "ab ";
    write_file(run_->text(), text);
    const ProgramEnd end = run_to_end(run_->train(
        {"--model.layers=2", "--model.dropout=0", "--precision.compute=f32", "--train.steps=150",
         "--optimizer.lr=3e-2", "--optimizer.warmup=5", "--model.tie_embeddings=false",
         "--data.validation=0", "--train.checkpoint_every=150"}));
    ASSERT_EQ(end.code, 0) << end.err;
  }
  static void TearDownTestSuite() {
    delete run_;
    run_ = nullptr;
  }

  static Object evaluate(const Words& words, const std::string& model = run_->folder()) {
    const ProgramEnd end = run_to_end(Words{program(), "evaluate", model, "--json"} + words);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.code == 0 ? Object::parse(end.out) : Object();
  }
  static Object of_text(const std::string& text, const Words& more = {}) {
    write_file(*run_ / "piece.txt", text);
    return evaluate(Words{"--data.text=" + *run_ / "piece.txt"} + more);
  }
  // Of a text's scored bytes, their sum.
  static double nats(const std::string& text) {
    const Object told = of_text(text);
    return told["loss"].get<double>() * told["tokens_scored"].get<double>();
  }
  static std::string items(const std::string& lines) {
    write_file(*run_ / "items.jsonl", lines);
    return *run_ / "items.jsonl";
  }
  static void expect_refused(const Words& words, int code, const std::string& part) {
    const ProgramEnd end = run_to_end(Words{program(), "evaluate"} + words);
    EXPECT_EQ(end.code, code) << end.err;
    EXPECT_NE(end.err.find(part), std::string::npos) << end.err;
    EXPECT_EQ(end.out, "");
  }

  static TinyRun* run_;
};
TinyRun* Evaluate::run_ = nullptr;

std::string some_text(std::size_t bytes) {
  std::string text;
  for (unsigned i = 0; text.size() < bytes; ++i) text += join("ab xyz", i * i % 31, " ab\n");
  return text.substr(0, bytes);
}

TEST_F(Evaluate, TheSameLossUnderEveryLayout) {
  const std::string text = some_text(203);
  const Object one = of_text(text, {"--stride=7"});
  EXPECT_EQ(one["tokens"], 203);
  EXPECT_EQ(one["tokens_scored"], 202);
  EXPECT_EQ(one["window"], 16);
  EXPECT_EQ(one["windows"], 1 + (202 - 16 + 6) / 7);
  const double loss = one["loss"];
  EXPECT_NEAR(one["perplexity"].get<double>(), std::exp(loss), 1e-9 * std::exp(loss));
  const double words = one["words"];
  EXPECT_NEAR(std::log(one["word_perplexity"].get<double>()), loss * 202 / words, 1e-9);
  for (const Words& layout : kLayouts)
    EXPECT_NEAR(of_text(text, Words{"--stride=7"} + layout)["loss"].get<double>(), loss, 1e-5)
        << ::testing::PrintToString(layout);
  EXPECT_EQ(of_text(" one  two\nthree\t")["words"], 3);
  write_file(*run_ / "piece.txt.gz", testing::gzip(text));
  const Object packed = evaluate({"--data.text=" + *run_ / "piece.txt.gz", "--stride=7"});
  EXPECT_EQ(packed["loss"], one["loss"]);
  EXPECT_EQ(packed["words"], one["words"]);
  // Windows and batches are cut alike everywhere, so in f64 only the order of sums is left.
  const Words exact = {"--data.text=" + *run_ / "piece.txt.gz", "--stride=7",
                       "--precision.compute=f64"};
  const Object serial = evaluate(exact);
  EXPECT_NEAR(serial["loss"].get<double>(), loss, 1e-5);
  for (const Words& layout : kLayouts) {
    const Object told = evaluate(exact + layout);
    EXPECT_NEAR(told["loss"].get<double>(), serial["loss"].get<double>(), 1e-12)
        << ::testing::PrintToString(layout);
    EXPECT_EQ(told["windows"], serial["windows"]);
    EXPECT_EQ(told["tokens_scored"], serial["tokens_scored"]);
  }
}

// Lines of JSON are what they are in training: one document behind the other, here of bytes, with
// nothing between them.
TEST_F(Evaluate, DocumentsFollowEachOther) {
  const std::string texts[] = {some_text(90), "ab ab xyz", some_text(104)};
  std::string whole, lines;
  for (const std::string& text : texts) {
    whole += text;
    lines += Object{{"text", text}}.dump() + "\n";
  }
  const Object expected = of_text(whole, {"--stride=7"});
  const auto documents = [&](const std::string& name, const std::string& bytes) {
    write_file(*run_ / name, bytes);
    return evaluate({"--data.text=" + *run_ / name, "--stride=7"});
  };
  const Object told = documents("documents.jsonl", lines);
  EXPECT_EQ(told["loss"], expected["loss"]);
  EXPECT_EQ(told["documents"], 3);
  EXPECT_FALSE(expected.contains("documents"));
  EXPECT_EQ(told["tokens_scored"], 202);
  int words = 0;
  for (const std::string& text : texts) words += of_text(text)["words"].get<int>();
  EXPECT_EQ(told["words"], words);
  for (const Words& layout : kLayouts)
    EXPECT_NEAR(
        evaluate(Words{"--data.text=" + *run_ / "documents.jsonl", "--stride=7"} + layout)["loss"]
            .get<double>(),
        expected["loss"].get<double>(), 1e-5);
  EXPECT_EQ(documents("documents.jsonl.gz", testing::gzip(lines))["loss"], expected["loss"]);
  const ProgramEnd table = run_to_end(
      {program(), "evaluate", run_->folder(), "--data.text=" + *run_ / "documents.jsonl"});
  EXPECT_NE(table.out.find("documents.jsonl (JSON lines, 3 documents)\n"), std::string::npos)
      << table.out;

  const std::string bad = *run_ / "bad.jsonl";
  write_file(bad, "{\"text\": \"ab ab\"}\n{\"txt\": \"ab\"}\n");
  expect_refused({run_->folder(), "--data.text=" + bad}, 1, bad + ":2:1: ");
  EXPECT_EQ(evaluate({"--data.text=" + bad, "--data.skip_bad=true"})["tokens"], 5);
  EXPECT_EQ(evaluate({"--data.text=" + bad, "--skip-bad"})["words"], 2);
  expect_refused(
      {run_->folder(), "--data.text=" + *run_ / "documents.jsonl", "--data.loss_on=last"}, 1,
      "which has no answers");
  write_file(bad, R"({"messages": [{"role": "user", "content": "ab"}]})");
  expect_refused({run_->folder(), "--data.text=" + bad}, 1, "has no chat template");
}

// Inputs of second matrices are cut by tensor ranks: 8 bits have a scale for all of them.
TEST_F(Evaluate, WeightsOfEightAndFourBits) {
  const std::string text = some_text(203);
  const double full = of_text(text)["loss"];
  for (const auto& [format, near] : {std::pair{"int8", 0.02}, {"int4", 0.5}}) {
    const std::string key = std::string("--inference.weights=") + format;
    const double loss = of_text(text, {key})["loss"];
    EXPECT_NE(loss, full);
    EXPECT_NEAR(loss, full, near * full) << format;
    for (const Words& layout :
         {Words{"--parallel.pipeline=2"}, Words{"--parallel.data=2", "--zero.stage=3"},
          Words{"--offload.parameters=host"}})
      EXPECT_NEAR(of_text(text, Words{key} + layout)["loss"].get<double>(), loss, 1e-9);
    const ProgramEnd end = run_to_end(
        Words{program(), "evaluate", run_->folder(), key, "--data.text=" + *run_ / "piece.txt"});
    EXPECT_NE(end.err.find(std::string("weights ") + format), std::string::npos) << end.err;
    const ProgramEnd trained = run_to_end(run_->train({key, "--train.restart=true"}));
    EXPECT_EQ(trained.code, 2);
    EXPECT_NE(trained.err.find("quantized weights cannot be trained"), std::string::npos)
        << trained.err;
    const ProgramEnd told = run_to_end({program(), "memory", run_->folder(), key});
    EXPECT_EQ(told.code, 2);
    EXPECT_NE(told.err.find("inference.weights"), std::string::npos) << told.err;
  }
  EXPECT_NEAR(
      of_text(text, {"--inference.weights=int8", "--parallel.tensor=2"})["loss"].get<double>(),
      of_text(text, {"--inference.weights=int8"})["loss"].get<double>(), 1e-5);
  const std::string piece = "--data.text=" + *run_ / "piece.txt";
  expect_refused({run_->folder(), piece, "--inference.weights=int4", "--parallel.tensor=2"}, 1,
                 "int4 has one scale for 64 inputs");
  expect_refused({run_->folder(), piece, "--inference.weights=int3"}, 2, "full, int8");
}

TEST_F(Evaluate, SlidingWindowsScoreEachTokenOnceWithWhatStandsBeforeIt) {
  const std::string text = some_text(20);
  double sliding = nats(text.substr(0, 17)), disjoint = sliding;
  for (std::size_t i = 17; i < 20; ++i)
    sliding += nats(text.substr(i - 16, 17)) - nats(text.substr(i - 16, 16));
  disjoint += nats(text.substr(16));
  EXPECT_NEAR(of_text(text, {"--stride=1"})["loss"].get<double>() * 19, sliding, 1e-4);
  EXPECT_NEAR(of_text(text)["loss"].get<double>() * 19, disjoint, 1e-4);
  EXPECT_EQ(of_text(text)["windows"], 2);
  EXPECT_GT(std::abs(sliding - disjoint), 1e-3);  // so the difference can be seen
}

TEST_F(Evaluate, TokensAreScoredLikeTheirText) {
  const std::string text = some_text(60), tokens = *run_ / "piece.h5";
  const Object of = of_text(text);
  ASSERT_EQ(run_to_end({program(), "tokenize", *run_ / "piece.txt", tokens}).code, 0);
  const Object told = evaluate({"--data.tokens=" + tokens});
  EXPECT_EQ(told["loss"], of["loss"]);
  EXPECT_FALSE(told.contains("words"));
}

TEST_F(Evaluate, LastWords) {
  const std::string file = items(R"({"text": "ab ab ab ab"}
{"text": "ab ab ab qx\n", "id": 7}

{"text": "b ab ab ab ab"}
)");
  const Object one = evaluate({"--task", "lambada", file});
  EXPECT_EQ(one["items"], 3);
  EXPECT_EQ(one["right"], 2);
  write_file(*run_ / "items.jsonl.gz", testing::gzip(text_of_file(file)));
  const Object packed = evaluate({"--task=lambada", *run_ / "items.jsonl.gz"});
  EXPECT_EQ(packed["word_perplexity"], one["word_perplexity"]);
  EXPECT_NEAR(one["accuracy"].get<double>(), 2.0 / 3, 1e-12);
  double sum = 0;
  for (const std::string text : {"ab ab ab ab", "ab ab ab qx", "b ab ab ab ab"})
    sum += nats(text) - nats(text.substr(0, text.size() - 3));
  EXPECT_NEAR(std::log(one["word_perplexity"].get<double>()), sum / 3, 1e-4);
  for (const Words& layout : kLayouts) {
    const Object told = evaluate(Words{"--task", "lambada", file} + layout);
    EXPECT_EQ(told["right"], 2);
    EXPECT_NEAR(std::log(told["word_perplexity"].get<double>()), sum / 3, 1e-4);
  }
}

// Losses of the choices told the answers apart; the long one wins only a byte at a time.
TEST_F(Evaluate, Choices) {
  const std::string context = "ab ab";
  const std::string choices[] = {" q", " ab ab ab a", " ab"};
  double by_sum[3], by_length[3];
  for (int i = 0; i < 3; ++i) {
    by_sum[i] = nats(context + choices[i]) - nats(context);
    by_length[i] = by_sum[i] / static_cast<double>(choices[i].size() - 1);
  }
  const auto best = [](const double* losses) {
    return std::min_element(losses, losses + 3) - losses;
  };
  const auto sum = best(by_sum), length = best(by_length);
  std::string lines;
  for (const auto answer : {0L, 1L, 2L})
    lines += Object{{"context", context}, {"choices", choices}, {"answer", answer}}.dump() + "\n";
  const std::string file = items(lines + lines.substr(0, lines.find('\n') + 1));
  for (const Words& layout : {Words{}, kLayouts[0], kLayouts[2]}) {
    const Object told = evaluate(Words{"--task=choice", file} + layout);
    EXPECT_EQ(told["items"], 4);
    EXPECT_EQ(told["right"], sum == 0 ? 2 : 1);
    EXPECT_EQ(told["right_by_length"], length == 0 ? 2 : 1);
    EXPECT_NEAR(told["answer_loss"].get<double>(), (2 * by_sum[0] + by_sum[1] + by_sum[2]) / 4,
                1e-4);
  }
  // One whose answers differ: the first choice of one line is right by one of the two only.
  const Object which =
      evaluate({"--task=choice",
                items(Object{{"context", context}, {"choices", choices}, {"answer", sum}}.dump())});
  EXPECT_EQ(which["right"], 1);
  EXPECT_EQ(which["right_by_length"], sum == length ? 1 : 0);
}

TEST_F(Evaluate, ItemsThatDoNotFitAreToldNotCut) {
  const std::string file =
      items("{\"text\": \"ab ab ab ab ab ab\"}\n{\"text\": \"ab ab ab ab ab ab ab\"}\n");
  const ProgramEnd end =
      run_to_end({program(), "evaluate", run_->folder(), "--task", "lambada", file, "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const Object told = Object::parse(end.out);
  EXPECT_EQ(told["scored"], 1);  // 17 bytes: the last is only foretold
  EXPECT_EQ(told["too_long"], 1);
  EXPECT_NE(end.err.find(file + ":2: 20 tokens, but batch.sequence = 16 takes at most 17"),
            std::string::npos)
      << end.err;
  expect_refused({run_->folder(), "--task=lambada",
                  items("{\"text\": \"" + some_text(8) + std::string(30, 'x') + " a\"}")},
                 1, "no item fits");
}

TEST_F(Evaluate, BadInputIsToldWithItsLine) {
  const std::string run = run_->folder();
  const auto bad = [&](const std::string& task, const std::string& lines, const std::string& part) {
    const std::string file = items(lines);
    expect_refused({run, "--task=" + task, file}, 1, file + part);
  };
  bad("lambada", "{\"text\": \"a b\"}\n{\"text\": }\n", ":2:10: ");
  bad("lambada", "\n[1]\n", ":2: an object is expected");
  bad("lambada", "{\"txt\": \"a b\"}", ":1: ");
  bad("lambada", "{\"text\": 5}", ":1: text: ");
  bad("lambada", "{\"text\": \" word \"}", ":1: text: two words");
  bad("lambada", "\n \n", " has no items");
  bad("choice", R"({"context": "a", "choices": ["b"], "answer": 0})", ":1: choices: there are 1");
  bad("choice", R"({"context": "a", "choices": ["b", " "], "answer": 0})",
      ":1: choices: number 1 is blank");
  bad("choice", R"({"context": "a", "choices": ["b", "c"], "answer": 2})", ":1: answer = 2: ");
  bad("choice", R"({"context": "", "choices": ["b", "c"], "answer": 1})",
      ":1: nothing stands before");
  expect_refused({run}, 2, "trireme evaluate FOLDER --data.text=FILE");
  expect_refused({run, "--task=riddle", "x"}, 2, "lambada or choice is expected");
  expect_refused({run, "--task=choice", *run_ / "none.jsonl"}, 1, "none.jsonl");
  expect_refused({run, "--data.text=" + run_->text(), "--stride=17"}, 2, "1 to 16 is expected");
  expect_refused({run, "--data.text=" + run_->text(), "--stride=0"}, 2, "--stride 0");
  expect_refused({run, "--data.text=" + items("{}")}, 1, "items.jsonl");
  expect_refused({*run_ / "none", "--data.text=" + run_->text()}, 1, "there is no such folder");
  write_file(*run_ / "one.txt", "a");
  expect_refused({run, "--data.text=" + *run_ / "one.txt"}, 1, "the text has 1 token(s)");
}

// Tiny folders with the answers of transformers, and a tokenizer that has a letter for each id.
class Folders : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string golden = TRIREME_RECIPES "/../tests/golden/huggingface/" + GetParam() + "/";
    for (const std::string name : {"config.json", "model.safetensors"})
      write_file(folder_ / name, text_of_file(golden + name));
    expected_ = Object::parse(text_of_file(golden + "expected.json"));
    write_tokenizer(nullptr);
  }
  void write_tokenizer(const Object& post_processor) {
    Object vocab;
    for (std::size_t i = 0; i < kLetters.size(); ++i) vocab[kLetters.substr(i, 1)] = i;
    const Object bytes = {{"type", "ByteLevel"},
                          {"add_prefix_space", false},
                          {"trim_offsets", true},
                          {"use_regex", true}};
    write_file(folder_ / "tokenizer.json",
               Object{{"version", "1.0"},
                      {"added_tokens", Object::array()},
                      {"normalizer", nullptr},
                      {"pre_tokenizer", bytes},
                      {"post_processor", post_processor},
                      {"decoder", bytes},
                      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Object::array()}}}}
                   .dump());
  }
  std::string letters(const std::vector<int>& ids) const {
    std::string text;
    for (const int id : ids) text += kLetters[static_cast<std::size_t>(id)];
    return text;
  }
  Object told(const Words& words) const {
    const ProgramEnd end = run_to_end(Words{program()} + words);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.code == 0 ? Object::parse(end.out) : Object();
  }
  Object generated(const Words& more = {}) const {
    const std::vector<int> greedy = expected_["greedy"];
    return told(Words{"generate", folder_ / "", "--prompt",
                      letters({greedy.begin(), greedy.begin() + 3}), "--tokens=5",
                      "--temperature=0", "--precision.compute=f32", "--json"} +
                more);
  }

  const std::string kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz012345678";
  TemporaryFolder folder_;
  Object expected_;
};

TEST_P(Folders, SayAndScoreWhatTransformersDoes) {
  const std::vector<int> greedy = expected_["greedy"];
  const std::vector<int> tail(greedy.begin() + 3, greedy.end());
  EXPECT_EQ(generated()["tokens"], Object(tail));
  EXPECT_EQ(generated()["text"], letters(tail));
  EXPECT_EQ(generated({"--parallel.data=2", "--parallel.pipeline=2", "--zero.stage=3"})["tokens"],
            Object(tail));
  double loss = 0;
  for (const std::vector<int> ids : expected_["ids"]) {
    write_file(folder_ / "text.txt", letters(ids));
    const Object one = told({"evaluate", folder_ / "", "--data.text=" + folder_ / "text.txt",
                             "--precision.compute=f32", "--json"});
    EXPECT_EQ(one["tokens_scored"], ids.size() - 1);
    loss += one["loss"].get<double>() / 2;
  }
  EXPECT_NEAR(loss, expected_["loss"].get<double>(), 1e-5 * loss);
}

TEST_P(Folders, TextsEndWhereTheFolderSaysSo) {
  const std::vector<int> greedy = expected_["greedy"];
  write_file(folder_ / "generation_config.json", Object{{"eos_token_id", {2, greedy[4]}}}.dump());
  const Object list = generated();
  const bool at_once = greedy[3] == greedy[4];
  EXPECT_EQ(list["tokens"], at_once ? Object::array() : Object::array({greedy[3]}));
  EXPECT_EQ(list["ended"], true);
  write_file(folder_ / "generation_config.json", Object{{"eos_token_id", greedy[3]}}.dump());
  EXPECT_EQ(generated()["tokens"], Object::array());
}

TEST_P(Folders, IdsThatTheModelHasNotAreRefused) {
  const auto refused = [&](const std::string& part) {
    const ProgramEnd end = run_to_end({program(), "generate", folder_ / "", "--prompt", "abc"});
    EXPECT_NE(end.code, 0);
    EXPECT_NE(end.err.find(part), std::string::npos) << end.err;
  };
  write_file(folder_ / "generation_config.json", Object{{"eos_token_id", {2, 61}}}.dump());
  refused("eos_token_id 61 is no id of the model, which has 61 of them");
  write_file(folder_ / "generation_config.json", "{}");
  Object tokenizer = Object::parse(text_of_file(folder_ / "tokenizer.json"));
  tokenizer["added_tokens"] = {{{"id", 61}, {"content", "<pad>"}, {"special", true}}};
  write_file(folder_ / "tokenizer.json", tokenizer.dump());
  refused("the tokenizer has ids up to 61 (\"<pad>\"), but the model of");
  refused("take what is beyond out of added_tokens");
  const Words train = {program(),
                       "train",
                       "--model.from=" + folder_ / "",
                       "--data.text=" + folder_ / "config.json",
                       "--batch.sequence=8",
                       "--train.steps=1",
                       "--train.folder=" + folder_ / "run"};
  EXPECT_NE(run_to_end(train).err.find("take what is beyond out of added_tokens"),
            std::string::npos);
}

// A template that puts token 1 before each text.
TEST_P(Folders, TextsBeginAsTheTokenizerSays) {
  const auto special = [](const char* id) {
    return Object{{"SpecialToken", {{"id", id}, {"type_id", 0}}}};
  };
  const Object sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Object with_b = {{"id", "B"}, {"ids", {1}}, {"tokens", {"B"}}};
  write_file(folder_ / "text.txt", "0TZaD");
  const Words words = {"evaluate", folder_ / "", "--data.text=" + folder_ / "text.txt",
                       "--precision.compute=f32", "--json"};
  const Object plain = told(words);
  write_file(folder_ / "text.txt", "B0TZaD");
  const Object whole = told(words);
  write_tokenizer({{"type", "TemplateProcessing"},
                   {"single", {special("B"), sequence}},
                   {"pair", {special("B"), sequence}},
                   {"special_tokens", {{"B", with_b}}}});
  write_file(folder_ / "text.txt", "0TZaD");
  const Object begun = told(words);
  EXPECT_EQ(begun["tokens_scored"], 5);
  EXPECT_EQ(plain["tokens_scored"], 4);
  EXPECT_EQ(begun["loss"], whole["loss"]);
}

INSTANTIATE_TEST_SUITE_P(All, Folders, ::testing::Values("gpt2", "llama", "gemma", "mistral"),
                         [](const auto& folder) { return folder.param; });

}  // namespace
}  // namespace trireme::testing
