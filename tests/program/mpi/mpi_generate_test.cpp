// trireme generate, chat and bench as ranks of mpirun: rank 0 speaks, in the words of one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "tests/program/harness/trained_run.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;

class MpiGenerate : public TrainedRun {
 protected:
  static ProgramEnd command(int ranks, const Words& words, const std::string& input = "/dev/null") {
    Words argv = {program()};
    argv.insert(argv.end(), words.begin(), words.end());
    return run_to_end(under_mpirun(ranks, argv), {.input = input});
  }
};

TEST_F(MpiGenerate, TheSameWordsAsOneRank) {
  const Words asked = {"generate", run_->folder(),    "--prompt=ab", "--tokens=12",
                       "--json",   "--temperature=0", "--seed=1"};
  const ProgramEnd alone = command(1, asked);
  ASSERT_EQ(alone.code, 0) << alone.err;
  ASSERT_NE(alone.out.find("\"tokens\": ["), std::string::npos) << alone.out;
  for (const Words& layout :
       {Words{"--parallel.tensor=2"}, Words{"--parallel.pipeline=2"}, Words{"--parallel.data=2"},
        Words{"--parallel.data=2", "--zero.stage=3"}}) {
    Words words = asked;
    words.insert(words.end(), layout.begin(), layout.end());
    const ProgramEnd end = command(2, words);
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_EQ(end.out, alone.out) << layout.back();  // once, by rank 0
  }
}

TEST_F(MpiGenerate, BenchPrintsOneTable) {
  const ProgramEnd end = command(2, {"bench", run_->folder(), "--pp=4", "--tg=2", "--repeat=1",
                                     "-o", "csv", "--parallel.tensor=2"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(lines_of(end.out).size(), 3) << end.out;  // names, pp4, tg2
}

TEST_F(MpiGenerate, ASignalEndsABench) {
  auto words = endless_bench();
  words.emplace_back("--parallel.pipeline=2");
  StartedProgram bench(under_mpirun(2, words));
  ASSERT_TRUE(bench.wait_until([&] { return bench.out_so_far().ends_with("\n"); }))
      << bench.err_so_far();
  // The launcher itself would kill them a second later.
  const std::vector<pid_t> ranks = ranks_with(run_->folder());
  ASSERT_EQ(ranks.size(), 2u);
  for (const pid_t rank : ranks) kill(rank, SIGTERM);
  expect_rows_that_were_done(bench.end());
}

TEST_F(MpiGenerate, AChatIsReadByRankZero) {
  const std::string lines = *run_ / "lines.txt";
  write_file(lines, "ab\n/set tokens 3\nc\n");
  const Words asked = {"chat", run_->folder(), "--tokens=8", "--temperature=0"};
  const ProgramEnd alone = command(1, asked, lines);
  ASSERT_EQ(alone.code, 0) << alone.err;
  ASSERT_GE(lines_of(alone.out).size(), 2u) << alone.out;
  for (const char* layout : {"--parallel.tensor=2", "--parallel.pipeline=2"}) {
    Words words = asked;
    words.emplace_back(layout);
    const ProgramEnd end = command(2, words, lines);
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_EQ(end.out, alone.out) << layout;  // once
    EXPECT_NE(end.err.find("each line is a message"), std::string::npos) << end.err;
  }
}

// Only the process of rank 0 reads lines and writes answers.
TEST_F(MpiGenerate, LinesAreAnsweredAsByOneRank) {
  const std::string lines = *run_ / "lines.jsonl";
  write_file(
      lines,
      "{\"prompt\": \"ab\", \"max_tokens\": 5, \"id\": 7}\n\n"
      "{\"prompt\": \"b a\", \"max_tokens\": 3}\n{\"prompt\": \"cd ab\", \"max_tokens\": 1}\n");
  const Words asked = {"generate", run_->folder(), "--input", lines, "--temperature=0"};
  const ProgramEnd alone = command(1, asked);
  ASSERT_EQ(alone.code, 0) << alone.err;
  ASSERT_EQ(lines_of(alone.out).size(), 3u) << alone.out;
  for (const char* layout : {"--parallel.tensor=2", "--parallel.pipeline=2", "--parallel.data=2"}) {
    Words words = asked;
    words.emplace_back(layout);
    EXPECT_EQ(command(2, words).out, alone.out) << layout;
    words[3] = "-";
    EXPECT_EQ(command(2, words, lines).out, alone.out) << layout;
  }
  Words words = asked;
  words.insert(words.end(), {"--parallel.data=2", "--output", *run_ / "answers.jsonl"});
  EXPECT_EQ(command(2, words).code, 0);
  EXPECT_EQ(text_of_file(*run_ / "answers.jsonl"), alone.out);
  const ProgramEnd again = command(2, words);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("--overwrite replaces it"), std::string::npos) << again.err;
  // All was answered before it was interrupted: nothing is left to run.
  write_file(*run_ / "whole.jsonl.partial", alone.out);
  words.back() = *run_ / "whole.jsonl";
  words.emplace_back("--resume");
  const ProgramEnd end = command(2, words);
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(text_of_file(*run_ / "whole.jsonl"), alone.out);
}

TEST_F(MpiGenerate, StandardInputOfSeveralProcessesIsNoPrompt) {
  const ProgramEnd end = command(2, {"generate", run_->folder(), "-", "--parallel.tensor=2"});
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("give --prompt-file FILE"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace trireme::testing
