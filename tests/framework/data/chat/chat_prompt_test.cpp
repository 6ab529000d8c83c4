// What a chat model is asked, and what ends its answer.
#include "framework/data/chat_prompt.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/data/conversation.h"
#include "tests/framework/data/tokenizers/made_tokenizer.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

constexpr char kChatMl[] =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr char kPlain[] =
    "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}";
constexpr std::int32_t kEos = 257, kStart = 258, kEnd = 259;

std::unique_ptr<Tokenizer> tokenizer_with(const std::string& source, bool eos = true,
                                          const std::string& post_processor = "null") {
  MadeTokenizer made = byte_level();
  Json::Array added;
  int id = 256;
  for (const char* token : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"})
    added.push_back(
        Json::Object{{"id", id++}, {"content", token}, {"normalized", false}, {"special", true}});
  made.added = to_text(Json(added));
  made.post_processor = post_processor;
  Json::Object config{{"bos_token", "<s>"}};
  if (eos) config.emplace_back("eos_token", "</s>");
  if (!source.empty()) config.emplace_back("chat_template", source);
  made.config = to_text(Json(config));
  return made.load();
}

TEST(ChatPrompt, IsWhatStandsBeforeTheAnswerInTraining) {
  const auto tokenizer = tokenizer_with(kChatMl);
  const auto encoder = tokenizer->encoder();
  const std::string question = "Is <|im_end|> one?";
  const auto said = [](const char* role, const std::string& content) {
    return Json(Json::Object{{"role", role}, {"content", content}});
  };
  const DocumentTokens trained =
      ConversationEncoder(*tokenizer, LossOn::kAssistant)
          .encode(Json::Array{said("user", question), said("assistant", "No.")}, Json(), *encoder);
  std::vector<std::int32_t> before;
  for (std::size_t i = 0; trained.trained[i] == 0; ++i) before.push_back(trained.ids[i]);
  const std::vector<std::int32_t> prompt = chat_prompt(*tokenizer, question);
  EXPECT_EQ(prompt, before);
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), kEnd), 1);  // the template's, not the user's
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), kStart), 2);
}

TEST(ChatPrompt, TheTemplateTellsTheEnd) {
  EXPECT_EQ(answer_end(*tokenizer_with(kChatMl)), kEnd);
  EXPECT_EQ(learned_ends(*tokenizer_with(kChatMl)), (std::vector<std::int32_t>{kEos, kEnd}));
  // Without a control token there, a conversation is followed by the end of text.
  EXPECT_EQ(answer_end(*tokenizer_with(kPlain)), kEos);
  EXPECT_EQ(learned_ends(*tokenizer_with(kPlain)), (std::vector<std::int32_t>{kEos}));
  EXPECT_EQ(answer_end(*tokenizer_with(kPlain, false)), std::nullopt);
  EXPECT_EQ(learned_ends(*tokenizer_with("", false)), (std::vector<std::int32_t>{}));
  EXPECT_EQ(answer_end(*tokenizer_with("{{ raise_exception('no') }}")), std::nullopt);
}

// The template writes <s>; what the tokenizer puts before a text must not stand there, too.
TEST(ChatPrompt, BeginsOnce) {
  const auto tokenizer = tokenizer_with(std::string("{{ bos_token }}") + kChatMl, true,
                                        R"({"type": "TemplateProcessing", "single": [
         {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}})");
  EXPECT_EQ(ids_of(*tokenizer, "a", {.ends = true}), (std::vector<std::int32_t>{256, 97}));
  const std::vector<std::int32_t> prompt = chat_prompt(*tokenizer, "a");
  EXPECT_EQ(prompt[0], 256);
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), 256), 1);
}

TEST(ChatPrompt, NeedsATemplate) {
  EXPECT_FALSE(has_chat_template(*tokenizer_with("")));
  EXPECT_NE(sentence_of([] { chat_prompt(*tokenizer_with(""), "Hi"); }).find("no chat template"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme::testing
