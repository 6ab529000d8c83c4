#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

TEST(Help, ListsSubcommandsAndCommonKeys) {
  const ProgramEnd end = run_to_end({program(), "--help"});
  EXPECT_EQ(end.code, 0);
  for (const char* word : {"train", "tokenize", "doctor", "parallel.tensor", "data.text"})
    EXPECT_TRUE(contains(end.out, word)) << word;
  EXPECT_FALSE(contains(end.out, "cpu, cuda]")) << "not in this version";
  EXPECT_EQ(end.err, "");
}

TEST(Help, OfASectionNamesItsKeysWithDefaults) {
  const ProgramEnd end = run_to_end({program(), "--help", "pipeline"});
  EXPECT_EQ(end.code, 0);
  for (const char* word : {"pipeline.schedule", "zb-h1", "pipeline.chunks", "default"})
    EXPECT_TRUE(contains(end.out, word)) << word;
  EXPECT_FALSE(contains(end.out, "optimizer.lr"));
}

// Options with what stands for their values, defaults, examples, and where more is told.
TEST(Help, OfASubcommandTellsItsOptions) {
  const std::map<std::string, std::vector<const char*>> known{
      {"serve", {"--port N", "[8000]", "--kv-cache SIZE", "--api-key-file", "docs/serve.md"}},
      {"chat", {"--system TEXT", "--overflow", "--temperature T", "--no-history"}},
      {"generate", {"--prompt TEXT", "--input FILE.jsonl", "--tokens N", "[200]"}},
      {"bench", {"-p, --pp N,...", "  -o FORMAT", "-d, --depth", "-t, --threads N"}},
      {"bench-serve", {"--base-url URL", "--goodput", "--ready-wait SECONDS"}},
      {"checkpoint", {"--dtype", "--shard_size", "usage: trireme checkpoint"}}};
  for (const auto& [command, words] : known) {
    const ProgramEnd end = run_to_end({program(), command, "--help"});
    EXPECT_EQ(end.code, 0) << command;
    for (const char* word : words) EXPECT_TRUE(contains(end.out, word)) << word << "\n" << end.out;
    for (const std::string& line : lines_of(end.out)) EXPECT_LE(line.size(), 100u) << line;
    EXPECT_FALSE(contains(end.out, "optimizer.lr")) << command;
    EXPECT_EQ(run_to_end({program(), "--help", command}).out, end.out) << command;
  }
  EXPECT_TRUE(
      contains(run_to_end({program(), "serve", "--help", "parallel"}).out, "--parallel.tensor"));
}

TEST(Help, ASlipIsToldWithTheNearestOption) {
  const ProgramEnd end = run_to_end({program(), "serve", "/nowhere", "--prot=8000"});
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(contains(end.err, "--prot: no option of serve; nearest: --port")) << end.err;
}

TEST(Help, FlagsOfLlamaBenchAreToldWhatThereIsInstead) {
  for (const auto& [flag, instead] : std::map<std::string, std::string>{
           {"-ngl", "--ngl: no option of bench: there are no GPUs"},
           {"-b", "-b: no option of bench: a pass takes up to 512 tokens"},
           {"-pg", "--tg N --depth N"},
           {"-x", "-x: no option of bench; trireme bench --help tells all"}}) {
    const ProgramEnd end = run_to_end({program(), "bench", "/nowhere", flag, "1"});
    EXPECT_EQ(end.code, 2);
    EXPECT_TRUE(contains(end.err, instead)) << end.err;
  }
}

TEST(Help, WithoutASubcommandIsAnError) {
  const ProgramEnd end = run_to_end({program()});
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(contains(end.out, "doctor"));
}

TEST(Help, UnknownSubcommandsAreRefused) {
  const ProgramEnd end = run_to_end({program(), "trian"});
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(contains(end.err, "unknown subcommand \"trian\"")) << end.err;
  EXPECT_EQ(end.out, "");
}

TEST(Doctor, SaysWhatItFinds) {
  const ProgramEnd end = run_to_end({program(), "doctor"});
  EXPECT_EQ(end.code, 0) << end.out << end.err;
  for (const char* word : {"cpu ", "cores ", "memory ", "disk ", "mpi ", "oneDNN", "HDF5",
                           "2 thread ranks: all_reduce is right", "ready to train"})
    EXPECT_TRUE(contains(end.out, word)) << word << "\n" << end.out;
}

TEST(Doctor, TellsItInJson) {
  const ProgramEnd end = run_to_end({program(), "doctor", "--json"});
  EXPECT_EQ(end.code, 0);
  const nlohmann::json json = nlohmann::json::parse(end.out);
  EXPECT_EQ(json["ok"], true);
  EXPECT_GE(json["findings"].size(), 10u);
  for (const auto& finding : json["findings"]) {
    EXPECT_NE(finding["state"], "broken") << finding;
    EXPECT_EQ(finding["state"] == "ok", finding["advice"] == "") << finding;
  }
}

TEST(Doctor, TakesNoFile) { EXPECT_EQ(run_to_end({program(), "doctor", "me"}).code, 2); }

}  // namespace
}  // namespace trireme::testing
