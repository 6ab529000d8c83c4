// trireme generate and bench as ranks of mpirun: rank 0 speaks, in the words of one rank; what only
// runs in one process says so.
#include <gtest/gtest.h>

#include <algorithm>

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

TEST_F(MpiGenerate, WhatRunsInOneProcessSaysWhatToDo) {
  const Words commands[] = {{"evaluate", run_->folder(), "--data.text=" + run_->text()},
                            {"generate", run_->folder(), "--input=" + run_->text()}};
  for (Words words : commands) {
    words.push_back("--parallel.tensor=2");
    const ProgramEnd end = command(2, words);
    EXPECT_EQ(end.code, 2) << words[0];
    EXPECT_NE(end.err.find("without a launcher, with the same flags"), std::string::npos)
        << end.err;
  }
}

}  // namespace
}  // namespace trireme::testing
