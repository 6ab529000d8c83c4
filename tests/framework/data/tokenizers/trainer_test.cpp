#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "framework/data/tokenizers/bpe_trainer.h"
#include "framework/data/tokenizers/byte_alphabet.h"
#include "framework/data/tokenizers/load_tokenizer.h"
#include "tests/framework/data/tokenizers/made_tokenizer.h"

namespace trireme {
namespace {

std::string some_text(std::size_t bytes) {
  std::string text;
  std::uint32_t state = 3;
  const std::vector<std::string> words{"the ",  "then ", "other\n", "aaaa ",    "aaa\n",
                                       "über ", "12 ",   "banana ", "bandana\n"};
  while (text.size() < bytes) {
    state = state * 1664525 + 1013904223;
    text += words[(state >> 16) % words.size()];
  }
  return text;
}

// The definition, counted anew for each merge.
std::vector<std::string> slow_tokens(const std::string& text, std::size_t tokens) {
  std::map<std::vector<std::string>, std::int64_t> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_pattern().match(unicode_classes(), text, at);
    std::vector<std::string> word;
    for (; at < end; ++at) word.emplace_back(byte_letter(static_cast<std::uint8_t>(text[at])));
    ++words[word];
  }
  std::vector<std::string> all;
  for (char32_t letter = 0; letter < 0x144; ++letter)
    if (const int byte = byte_of_letter(letter); byte >= 0)
      all.emplace_back(byte_letter(static_cast<std::uint8_t>(byte)));
  const auto id = [&](const std::string& t) {
    return std::find(all.begin(), all.end(), t) - all.begin();
  };
  while (all.size() < tokens) {
    std::map<std::pair<std::string, std::string>, std::int64_t> pairs;
    for (const auto& [word, count] : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) pairs[{word[i], word[i + 1]}] += count;
    std::pair<std::string, std::string> best;
    std::int64_t most = 1;
    for (const auto& [pair, count] : pairs)
      if (count > most || (count == most && most > 1 &&
                           std::pair{id(pair.first), id(pair.second)} <
                               std::pair{id(best.first), id(best.second)})) {
        most = count;
        best = pair;
      }
    if (most < 2) break;
    if (id(best.first + best.second) == std::ssize(all)) all.push_back(best.first + best.second);
    std::map<std::vector<std::string>, std::int64_t> merged;
    for (const auto& [word, count] : words) {
      std::vector<std::string> to;
      for (std::size_t i = 0; i < word.size(); ++i) {
        const bool here =
            i + 1 < word.size() && word[i] == best.first && word[i + 1] == best.second;
        to.push_back(here ? best.first + best.second : word[i]);
        i += here;
      }
      merged[to] += count;
    }
    words = std::move(merged);
  }
  return all;
}

TEST(BpeTrainer, LearnsWhatTheDefinitionSays) {
  const std::string text = some_text(3000);
  BpeTrainer trainer(gpt2_pattern());
  trainer.add(text);
  trainer.end_text();
  EXPECT_EQ(trainer.train(290).tokens, slow_tokens(text, 290));
  const TrainedTokenizer all = trainer.train(100000);
  EXPECT_LT(all.tokens.size(), 400U);  // no pair is left that occurs twice
}

TEST(BpeTrainer, PiecesAreJoinedAndTheResultLoads) {
  const std::string text = some_text(9'000'000);
  BpeTrainer whole(llama3_pattern()), pieces(llama3_pattern());
  whole.add(text);
  whole.end_text();
  for (std::size_t at = 0; at < text.size(); at += 1000003) pieces.add(text.substr(at, 1000003));
  pieces.end_text();
  const TrainedTokenizer trained = whole.train(300);
  EXPECT_EQ(trained.tokens, pieces.train(300).tokens);
  const std::string json = tokenizer_json(trained, llama3_pattern(), {"<|endoftext|>"});
  const JsonTokenizer tokenizer(read_tokenizer_json(json, "tokenizer.json"));
  EXPECT_EQ(tokenizer.vocabulary(), static_cast<std::int64_t>(trained.tokens.size()) + 1);
  const auto ids = testing::ids_of(tokenizer, "the banana<|endoftext|>\xFF");
  EXPECT_EQ(ids[ids.size() - 2], tokenizer.vocabulary() - 1);
  EXPECT_EQ(tokenizer.decode(ids, true), "the banana\uFFFD");
  EXPECT_LT(ids.size(), 8U);
}

}  // namespace
}  // namespace trireme
