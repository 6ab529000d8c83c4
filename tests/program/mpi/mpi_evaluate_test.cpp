// trireme evaluate as ranks of mpirun: the numbers of ranks that are threads, to the last bit, told
// once; only the process of rank 0 reads what is measured; errors end all with one sentence.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/program/checkpoints/run_columns.h"
#include "tests/program/harness/trained_run.h"

namespace trireme::testing {
namespace {

using Object = nlohmann::json;

constexpr const char* kChoices = R"({"context": "ab", "choices": [" a", "b ab ", "x"], "answer": 1}
{"context": "b ab", "choices": ["cd", " a"], "answer": 0}
{"context": "ab ab ab ab ab ab ab ab", "choices": ["cd", " a"], "answer": 0}
)";

const Words kLayouts[] = {{"--parallel.tensor=2"},
                          {"--parallel.pipeline=2"},
                          {"--parallel.data=2"},
                          {"--parallel.data=2", "--zero.stage=3"},
                          {"--parallel.data=2", "--offload.parameters=host"}};

class MpiEvaluate : public TrainedRun {
 protected:
  static Words command(const Words& words) {
    return Words{program(), "evaluate", run_->folder()} + words;
  }
  // What is measured, without how fast.
  static Object told(const ProgramEnd& end) {
    EXPECT_EQ(end.code, 0) << end.err;
    if (end.code != 0) return {};
    Object object = Object::parse(end.out);  // one, or it does not parse
    object.erase("seconds");
    object.erase("tokens_per_second");
    return object;
  }
  // Of 2 ranks, by threads and by processes.
  static void expect_equal(const Words& asked) {
    const Object alone = told(run_to_end(command(asked)));
    for (const Words& layout : kLayouts) {
      const ProgramEnd end = run_to_end(under_mpirun(2, command(asked + layout)));
      EXPECT_EQ(told(end), told(run_to_end(command(asked + layout))))
          << ::testing::PrintToString(layout);
      for (const char* key : {"loss", "answer_loss"})
        if (alone.contains(key))
          EXPECT_NEAR(told(end)[key].get<double>(), alone[key].get<double>(), 1e-12);
    }
  }
  static void expect_one_sentence(const ProgramEnd& end, int code, const std::string& part) {
    EXPECT_EQ(end.code, code) << end.err;
    EXPECT_EQ(end.out, "");
    const std::size_t at = end.err.find(part);
    EXPECT_NE(at, std::string::npos) << end.err;
    if (at != std::string::npos)
      EXPECT_EQ(end.err.find(part, at + 1), std::string::npos) << end.err;
  }
};

TEST_F(MpiEvaluate, TextsAndTasksHaveTheNumbersOfThreads) {
  const std::string text = *run_ / "held.txt", documents = *run_ / "held.jsonl",
                    items = *run_ / "items.jsonl";
  std::string some;
  for (int i = 0; i < 60; ++i) some += "ab " + std::to_string(i * i % 31);
  write_file(text, some);
  write_file(documents, Object{{"text", some.substr(0, 70)}}.dump() + "\n" +
                            Object{{"text", some.substr(70, 41)}}.dump() + "\n");
  write_file(items, kChoices);
  expect_equal({"--data.text=" + text, "--stride=7", "--json"});
  expect_equal({"--data.text=" + documents, "--data.reset_attention_mask=true", "--json"});
  expect_equal({"--task=choice", items, "--json"});
}

// Another process is given a file that nobody has.
TEST_F(MpiEvaluate, OnlyRankZeroReadsTheText) {
  const Words flags = {"--parallel.data=2", "--json"};
  const Words there = command(Words{"--data.text=" + run_->text()} + flags),
              nowhere = command(Words{"--data.text=" + *run_ / "none.txt"} + flags);
  const auto two = [](const Words& first, const Words& second) {
    return under_mpirun(1, first) + Words{":", "-n", "1"} + second;
  };
  EXPECT_EQ(told(run_to_end(two(there, nowhere))), told(run_to_end(there)));
  expect_one_sentence(run_to_end(two(nowhere, there)), 1, "none.txt");
}

TEST_F(MpiEvaluate, ErrorsEndAllRanksWithOneSentence) {
  const std::string items = *run_ / "bad.jsonl";
  write_file(items, "{\"context\": \"a\"}\n");
  const auto refused = [&](const Words& words, int code, const std::string& part) {
    expect_one_sentence(run_to_end(under_mpirun(2, command(words + Words{"--parallel.tensor=2"}))),
                        code, part);
  };
  refused({"--task=choice", items}, 1, "bad.jsonl:1: ");
  refused({"--data.text=" + run_->text(), "--stride=17"}, 2, "1 to 16 is expected");
  const ProgramEnd end = run_to_end(under_mpirun(2, command({"--data.text=" + run_->text()})));
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_NE(end.err.find("= 1 ranks, but the launcher started 2"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace trireme::testing
