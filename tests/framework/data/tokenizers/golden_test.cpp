// Ids of real tokenizers: the table of the tokenizers' own library. Skipped, visibly, where the
// files are not there.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/framework/data/tokenizers/made_tokenizer.h"

namespace trireme {
namespace {

using testing::ids_of;
using testing::real_tokenizer;
using Ids = std::vector<std::int32_t>;

struct Golden {
  std::string text;
  Ids gpt2, qwen3;
};

const std::vector<Golden>& table() {
  static const std::vector<Golden> all{
      {"Hello world", {15496, 995}, {9707, 1879}},
      {" Hello  world", {18435, 220, 995}, {21927, 220, 1879}},
      {"I'm 12345 o'CLOCK",
       {40, 1101, 17031, 2231, 267, 6, 5097, 11290},
       {40, 2776, 220, 16, 17, 18, 19, 20, 297, 76661, 8044}},
      {"\n\n  x", {628, 220, 2124}, {271, 220, 856}},
      {"foo\r\n\tbar", {21943, 201, 198, 197, 5657}, {7975, 319, 90709}},
      {"cafe\xCC\x81", {66, 8635, 136, 223}, {924, 58858}},
      {"caf\xC3\xA9", {}, {924, 58858}},
      {"日本語😀", {33768, 98, 17312, 105, 45739, 252, 47249, 222}, {101059, 102819, 141334}},
      {"1234567", {10163, 2231, 3134}, {16, 17, 18, 19, 20, 21, 22}},
      {std::string("a\0b", 3), {64, 188, 65}, {64, 188, 65}},
      {"   ", {220, 220, 220}, {262}},
      {"<|im_start|>user\nhi<|im_end|>", {}, {151644, 872, 198, 6023, 151645}}};
  return all;
}

void expect_table(const std::string& name, Ids Golden::*ids) {
  const auto tokenizer = real_tokenizer(name);
  if (!tokenizer) GTEST_SKIP() << "../shared/data/tokenizers/" << name << " is not there";
  for (const Golden& row : table()) {
    if ((row.*ids).empty()) continue;
    EXPECT_EQ(ids_of(*tokenizer, row.text), row.*ids) << row.text;
    if (row.text != "cafe\xCC\x81" || name == "gpt2") {
      EXPECT_EQ(tokenizer->decode(row.*ids), row.text);
    }
  }
}

TEST(GoldenIds, Gpt2) { expect_table("gpt2", &Golden::gpt2); }

TEST(GoldenIds, Qwen3) { expect_table("qwen3", &Golden::qwen3); }

TEST(GoldenIds, Qwen3ControlIdsComeOnlyWhereTheyAreWanted) {
  const auto qwen = real_tokenizer("qwen3");
  if (!qwen) GTEST_SKIP() << "../shared/data/tokenizers/qwen3 is not there";
  EXPECT_EQ(qwen->vocabulary(), 151669);
  EXPECT_EQ(qwen->id_of("<tool_call>"), 151657);
  EXPECT_FALSE(qwen->is_special(151657));
  EXPECT_TRUE(qwen->is_special(151645));
  EXPECT_EQ(qwen->decode({151644, 6023, 151657, 151645}, true), "hi<tool_call>");
  const std::string text = "hi<|im_end|><tool_call>";
  EXPECT_EQ(ids_of(*qwen, text), (Ids{6023, 151645, 151657}));
  EXPECT_EQ(ids_of(*qwen, text, {.added = AddedTokens::kOrdinary}).back(), 151657);
  for (const std::int32_t id : ids_of(*qwen, text, {.added = AddedTokens::kNone}))
    EXPECT_LT(id, 151643);
  EXPECT_EQ(qwen->settings().eos, 151645);
  EXPECT_EQ(qwen->settings().chat_templates.size(), 1U);
}

// A blank in front of the text goes in, and is taken off once.
TEST(GoldenIds, MistralDecodesAsItComes) {
  const auto mistral = real_tokenizer("mistral");
  if (!mistral) GTEST_SKIP() << "../shared/data/tokenizers/mistral is not there";
  const Ids ids = ids_of(*mistral, "a b");
  EXPECT_EQ(ids, (Ids{264, 287}));
  StreamingDecoder stream(*mistral);
  EXPECT_EQ(stream.push(264), "a");
  EXPECT_EQ(stream.push(287), " b");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(mistral->decode(ids_of(*mistral, "  a")), "  a");
  EXPECT_EQ(ids_of(*mistral, "a b", {.ends = true}), (Ids{1, 264, 287}));
  EXPECT_EQ(mistral->settings().bos, 1);
  EXPECT_FALSE(mistral->settings().longest_text.has_value());
}

TEST(GoldenIds, StreamedTextHasNoHalfCharacters) {
  const auto gpt2 = real_tokenizer("gpt2");
  if (!gpt2) GTEST_SKIP() << "../shared/data/tokenizers/gpt2 is not there";
  StreamingDecoder stream(*gpt2);
  std::string all;
  for (const std::int32_t id : {33768, 98, 17312, 105, 45739, 252, 47249, 222}) {
    const std::string delta = stream.push(id);
    EXPECT_EQ(delta.find("\xEF\xBF\xBD"), std::string::npos);
    all += delta;
  }
  EXPECT_EQ(all + stream.finish(), "日本語😀");
  stream.push(33768);
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  Ids wrong = ids_of(*gpt2, "a\xEF\xBF\xBD");  // a real one passes at once
  std::string said;
  for (const std::int32_t id : wrong) said += stream.push(id);
  EXPECT_EQ(said, "a\xEF\xBF\xBD");
  EXPECT_THROW(stream.push(50257), Error);
  EXPECT_THROW(gpt2->decode({-1}), Error);
}

}  // namespace
}  // namespace trireme
