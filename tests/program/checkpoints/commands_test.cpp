// generate and checkpoint, as a user calls them.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/checkpoints/run_columns.h"

namespace trireme::testing {
namespace {

class Commands : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProgramEnd end = run_to_end(
        run_.train({"--train.steps=4", "--train.checkpoint_every=2", "--parallel.data=2",
                    "--parallel.tensor=2", "--zero.stage=3", "--precision.compute=f32"}));
    ASSERT_EQ(end.code, 0) << end.err;
  }
  ProgramEnd call(const Words& words) const { return run_to_end(Words{program()} + words); }
  std::string step(int n) const {
    return run_.folder() + "/checkpoints/step-00000" + std::to_string(n);
  }
  const TinyRun run_;
};

TEST_F(Commands, GenerateIsTheSameTextUnderEveryLayout) {
  const Words ask = {"generate", run_.folder(), "--prompt", "the oars", "--tokens=30", "--json"};
  const ProgramEnd one = call(ask);
  ASSERT_EQ(one.code, 0) << one.err;
  const auto told = nlohmann::json::parse(one.out);
  EXPECT_EQ(told["step"], 4);
  EXPECT_EQ(told["prompt"], "the oars");
  EXPECT_FALSE(told["text"].get<std::string>().empty());
  EXPECT_EQ(call(ask).out, one.out);
  EXPECT_NE(call(ask + Words{"--seed=2"}).out, one.out);
  const Words greedy = ask + Words{"--temperature=0"};
  const auto tokens = [&](const Words& words) {
    return nlohmann::json::parse(call(words).out)["tokens"];
  };
  const auto likeliest = tokens(greedy);
  EXPECT_EQ(tokens(greedy + Words{"--seed=2"}), likeliest);
  EXPECT_EQ(tokens(greedy + Words{"--parallel.tensor=2", "--parallel.pipeline=2"}), likeliest);
  EXPECT_EQ(
      call({"generate", run_.folder(), "--prompt=the oars", "--tokens=3"}).out.rfind("the oars", 0),
      0u);
}

// Said as it comes, and at once, it is the same text.
TEST_F(Commands, GenerateSaysWhatItTellsAsJson) {
  for (const char* temperature : {"--temperature=0", "--temperature=0.7"}) {
    const Words ask = {"generate", run_.folder(), "--prompt",
                       "the oars", "--tokens=12", temperature};
    const ProgramEnd said = call(ask);
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.err, "");
    const auto told = nlohmann::json::parse(call(ask + Words{"--json"}).out);
    EXPECT_EQ(told["tokens"].size(), 12u);
    EXPECT_EQ(said.out, "the oars" + told["text"].get<std::string>() + "\n");
  }
}

TEST_F(Commands, BenchTellsEachTest) {
  const Words ask = {"bench", run_.folder(), "--pp=5", "--tg=3", "--batch=1,4", "--repeat=2"};
  const ProgramEnd end = call(ask + Words{"--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto told = nlohmann::json::parse(end.out);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0]["n_prompt"], 5);
  EXPECT_EQ(told[1]["n_gen"], 3);
  EXPECT_EQ(told[2]["n_parallel"], 4);
  EXPECT_EQ(told[2]["n_batch"], 512);
  for (const auto& test : told) {
    EXPECT_EQ(test["samples_ts"].size(), 2u);
    EXPECT_EQ(test["samples_ns"].size(), 2u);
    EXPECT_GT(test["avg_ts"].get<double>(), 0);
  }
  const ProgramEnd table = call(ask + Words{"--parallel.pipeline=2", "--parallel.tensor=2"});
  ASSERT_EQ(table.code, 0) << table.err;
  for (const char* name : {"| pp5 |", "| tg3 |", "| tg3 x 4 |"})
    EXPECT_NE(table.out.find(name), std::string::npos) << table.out;
  const ProgramEnd lines = call(ask + Words{"-o", "jsonl"});
  EXPECT_EQ(lines_of(lines.out).size(), 3u) << lines.err;
  const ProgramEnd csv = call(ask + Words{"-o", "csv"});
  ASSERT_EQ(lines_of(csv.out).size(), 4u) << csv.err;
  EXPECT_EQ(csv.out.rfind("build_commit,build_number,cpu_info,", 0), 0u) << csv.out;
  for (const Words& bad : {Words{"-o", "sql"}, Words{"-o", "csv", "--json"}, Words{"--batch=0"},
                           Words{"--tg=x"}, Words{"--pp=0", "--tg=0"}, Words{"--repeat=5,6"},
                           Words{"--repeat=1001"}, Words{"--tg=9223372036854775807"}})
    EXPECT_EQ(call(Words{"bench", run_.folder()} + bad).code, 2) << bad[0];
}

TEST_F(Commands, GeneratePassesADamagedCheckpointOver) {
  std::filesystem::resize_file(step(4) + "/ranks-0.h5", 5000);
  const ProgramEnd end = call({"generate", run_.folder(), "--json", "--tokens=2"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(nlohmann::json::parse(end.out)["step"], 2);
  EXPECT_NE(end.err.find("passed over: "), std::string::npos) << end.err;
}

// Also where the damage is in what generate does not need: a damaged checkpoint is never used.
TEST_F(Commands, GenerateFindsDamageWhileItLoads) {
  const std::string file = step(4) + "/ranks-0.h5", whole = text_of_file(file);
  for (std::size_t part = 1; part < 16; ++part) {
    std::string bytes = whole;
    bytes[bytes.size() * part / 16] ^= 1;
    write_file(file, bytes);
    const ProgramEnd end = call({"generate", run_.folder(), "--json", "--tokens=2"});
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_EQ(nlohmann::json::parse(end.out)["step"], 2);
    EXPECT_NE(end.err.find("passed over: checkpoint " + file), std::string::npos) << end.err;
  }
}

TEST_F(Commands, InspectTellsEveryTensor) {
  const ProgramEnd end = call({"checkpoint", "inspect", run_.folder(), "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto told = nlohmann::json::parse(end.out);
  EXPECT_EQ(told["step"], 4);
  EXPECT_EQ(told["scalars"]["samples"], "32");
  bool found = false;
  for (const auto& array : told["arrays"]) {
    EXPECT_EQ(array["nan"], 0);
    if (array["tensor"] != "embedding.table" || array["array"] != "value") continue;
    found = true;
    EXPECT_EQ(array["shape"], (std::vector<int>{256, 16}));
    EXPECT_EQ(array["dtype"], "f32");
    EXPECT_GT(array["norm"], 0.1);
  }
  EXPECT_TRUE(found) << end.out;
  const ProgramEnd text = call({"checkpoint", "inspect", step(2)});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("data 2 x pipeline 1 x tensor 2, ZeRO 3"), std::string::npos) << text.out;
}

TEST_F(Commands, VerifyNamesEveryDamagedFile) {
  EXPECT_EQ(call({"checkpoint", "verify", run_.folder()}).code, 0);
  std::filesystem::resize_file(step(2) + "/ranks-0.h5", 5000);
  std::filesystem::remove(step(2) + "/recipe.cfg");
  std::filesystem::remove(step(4) + "/manifest.json");
  const ProgramEnd end = call({"checkpoint", "verify", run_.folder()});
  EXPECT_EQ(end.code, 1);
  for (const std::string& path :
       {step(2) + "/ranks-0.h5", step(2) + "/recipe.cfg", step(4) + " has no manifest.json"})
    EXPECT_NE(end.out.find(path), std::string::npos) << path << " is not in\n" << end.out;
  EXPECT_NE(end.err.find("2 of 2 checkpoints are damaged"), std::string::npos) << end.err;
}

TEST_F(Commands, DiffOfTwo) {
  const ProgramEnd equal = call({"checkpoint", "diff", run_.folder(), step(4)});
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_NE(equal.out.find("equal"), std::string::npos);
  const ProgramEnd other = call({"checkpoint", "diff", step(2), step(4), "--json"});
  EXPECT_EQ(other.code, 1);
  const auto told = nlohmann::json::parse(other.out);
  EXPECT_EQ(told["equal"], false);
  EXPECT_EQ(told["scalars"]["samples"], (std::vector<std::string>{"16", "32"}));
  EXPECT_GT(told["arrays"].size(), 10u);
}

TEST_F(Commands, BadWordsAreRefused) {
  for (const Words& words : {Words{"checkpoint"}, Words{"checkpoint", "look", run_.folder()},
                             Words{"checkpoint", "diff", run_.folder()}, Words{"generate"},
                             Words{"generate", run_.folder(), "--tokens=0"},
                             Words{"generate", run_.folder(), "--prompt="},
                             Words{"generate", run_.folder(), "--temperature=-1"},
                             Words{"checkpoint", "verify", run_.folder(), "--train.steps=3"}})
    EXPECT_EQ(call(words).code, 2) << nlohmann::json(words).dump();
  for (const Words& words :
       {Words{"checkpoint", "verify", run_ / "nowhere"}, Words{"generate", run_ / "nowhere"},
        Words{"checkpoint", "inspect", run_.recipe()}}) {
    const ProgramEnd end = call(words);
    EXPECT_EQ(end.code, 1) << nlohmann::json(words).dump();
    EXPECT_NE(end.err, "");
  }
}

}  // namespace
}  // namespace trireme::testing
