#include "recipes/serve/output_text.h"

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

struct Said {
  std::vector<std::string> deltas;
  std::string all, stop;
};

Said say(const std::string& bytes, std::vector<std::string> stops = {}, bool include = false) {
  const auto tokenizer = byte_tokenizer();
  OutputText text(*tokenizer, {}, true, std::move(stops), include);
  Said said;
  for (const char c : bytes) {
    said.deltas.push_back(text.push(static_cast<unsigned char>(c)));
    if (text.stopped()) break;
  }
  said.deltas.push_back(text.finish());
  for (const std::string& delta : said.deltas) said.all += delta;
  said.stop = text.stop();
  return said;
}

// Row 1 of the pitfalls: a token may end inside a character.
TEST(OutputText, CharactersComeWhole) {
  const std::string text = "日本語😀";
  const Said said = say(text);
  EXPECT_EQ(said.all, text);
  for (const std::string& delta : said.deltas) {
    EXPECT_EQ(delta.find("\xef\xbf\xbd"), std::string::npos);
    EXPECT_TRUE(delta.empty() || delta.size() >= 3);
  }
}

TEST(OutputText, AStopStringIsCutOffAndNothingOfItIsSaidBefore) {
  const Said said = say("one END two", {"END"});
  EXPECT_EQ(said.all, "one ");
  EXPECT_EQ(said.stop, "END");
  for (const std::string& delta : said.deltas) EXPECT_EQ(delta.find('E'), std::string::npos);
  EXPECT_EQ(say("one END two", {"END"}, true).all, "one END");
}

TEST(OutputText, WhatOnlyBeganAStopStringIsSaid) {
  EXPECT_EQ(say("one EN two E", {"END"}).all, "one EN two E");
  EXPECT_EQ(say("aaab", {"aab"}).all, "a");  // found behind a false start
}

TEST(OutputText, TheFirstOfSeveralStopsCounts) {
  const Said said = say("x\n\ny", {"y", "\n\n", "z"});
  EXPECT_EQ(said.all, "x");
  EXPECT_EQ(said.stop, "\n\n");
}

}  // namespace
}  // namespace trireme::test
