// Conversations of real folders with the ids of transformers' apply_chat_template(tokenize=True),
// as bench/compare_chat.py --golden wrote them. Skipped, visibly, where the folders are not there.
#include <gtest/gtest.h>

#include "framework/data/conversation.h"
#include "framework/data/records.h"
#include "tests/framework/data/tokenizers/made_tokenizer.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

TEST(GoldenConversations, HaveTheIdsOfTransformers) {
  const std::string path = "tests/framework/data/chat/golden.json";
  const Json golden = parse_json(read_whole(*real_files(), path), path);
  int compared = 0;
  for (const auto& [name, all] : golden.object(path)) {
    const auto tokenizer = real_tokenizer(name);
    if (!tokenizer) continue;
    const ConversationEncoder conversations(*tokenizer, LossOn::kAll);
    const auto encoder = tokenizer->encoder();
    for (const Json& one : all.array(name)) {
      const Record record = record_of({to_text(one), 1}, RecordForm::kMessages, path);
      std::vector<std::int32_t> expected;
      for (const Json& id : one.at("ids", name).array(name))
        expected.push_back(static_cast<std::int32_t>(id.integer(name)));
      EXPECT_EQ(conversations.encode(record.messages, record.tools, *encoder).ids, expected)
          << name << ": " << to_text(one.at("messages", name));
      ++compared;
    }
  }
  if (compared == 0) GTEST_SKIP() << "../shared/data/tokenizers is not there";
  EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace trireme::testing
