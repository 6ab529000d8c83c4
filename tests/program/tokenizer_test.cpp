// trireme tokenizer train and show; tokens and a run with what was made.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

TEST(TokenizerCommand, WhatItMakesTrainsAndSpeaks) {
  const TinyRun run;
  const std::string made = run / "made";
  ProgramEnd end = run_to_end({program(), "tokenizer", "train", made, "--data.text=" + run.text(),
                               "--vocab", "280", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto vocabulary = nlohmann::json::parse(end.out)["tokens"].get<int>();
  EXPECT_GT(vocabulary, 257);

  const std::string named = "--data.tokenizer=" + made;
  end = run_to_end({program(), "tokenizer", "show", "a<|endoftext|>", named, "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto shown = nlohmann::json::parse(end.out);
  EXPECT_EQ(shown["pieces"], (std::vector<std::string>{"a", "<|endoftext|>"}));
  EXPECT_EQ(shown["ids"][1], vocabulary - 1);

  end = run_to_end({program(), "tokenize", run.text(), run / "t.h5", named, "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(nlohmann::json::parse(end.out)["vocabulary"], vocabulary);

  end = run_to_end(run.train({named, "--model.vocab=auto"}));
  EXPECT_EQ(end.code, 0) << end.err;
  end = run_to_end(run.train({"--data.text=", "--data.tokens=" + (run / "t.h5")}));
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("was made with the tokenizer \"bpe-"), std::string::npos) << end.err;
}

TEST(TokenizerCommand, LearnsFromRecordsWhatTokenizeEncodes) {
  const TinyRun run;
  const auto made = [&](const std::string& name, const std::string& text,
                        const std::vector<std::string>& more = {}) {
    write_file(run / name, text);
    std::vector<std::string> words{
        program(), "tokenizer", "train", run / "made", "--data.text=" + (run / name),
        "--vocab", "300"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramEnd end = run_to_end(words);
    return end.code == 0 ? text_of_file(run / "made/tokenizer.json") : end.err;
  };
  std::string lines, chat;
  for (int i = 0; i < 40; ++i) {
    const std::string text = "the same words\nagain " + std::to_string(i % 7);
    lines += nlohmann::json{{"id", "unseen unseen"}, {"text", text}}.dump() + "\n";
    chat += nlohmann::json{{"messages", {{{"role", "user"}, {"content", text}}}}}.dump() + "\n";
  }
  const std::string records = made("a.jsonl", lines);
  EXPECT_EQ(made("c.jsonl", chat), records);
  EXPECT_NE(records.find("\"Ġsame\""), std::string::npos) << records;
  EXPECT_EQ(records.find("unseen"), std::string::npos);
  const std::string bad = made("b.jsonl", lines + "{\"text\": 1}\n");
  EXPECT_NE(bad.find("b.jsonl:41:1: "), std::string::npos) << bad;
  EXPECT_EQ(made("b.jsonl", lines + "{\"text\": 1}\n", {"--data.skip_bad=true"}), records);
}

TEST(TokenizerCommand, MistakesAreSentences) {
  const TinyRun run;
  EXPECT_EQ(run_to_end({program(), "tokenizer"}).code, 2);
  const ProgramEnd few = run_to_end(
      {program(), "tokenizer", "train", run / "x", "--data.text=" + run.text(), "--vocab", "100"});
  EXPECT_EQ(few.code, 2);
  EXPECT_NE(few.err.find("--vocab = 100"), std::string::npos) << few.err;
  const ProgramEnd none =
      run_to_end({program(), "tokenizer", "show", "a", "--data.tokenizer=/none"});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("data.tokenizer = /none"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace trireme::testing
