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
