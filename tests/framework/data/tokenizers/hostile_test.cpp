// Files that contradict themselves or ask for what is not there: a sentence that names the key.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/data/tokenizers/load_tokenizer.h"
#include "tests/framework/data/tokenizers/made_tokenizer.h"

namespace trireme {
namespace {

using testing::MadeTokenizer;
using testing::refusal;

struct Mutant {
  std::string MadeTokenizer::*part;
  std::string text;
  std::string sentence;  // a part of it
};

TEST(HostileTokenizer, EachMutantIsASentence) {
  using M = MadeTokenizer;
  const std::string added = R"([{"content": "<x>", "id": )";
  const std::vector<Mutant> mutants{
      {&M::vocab, R"({"a": -1})", "model.vocab.\"a\" = -1 is no token id"},
      {&M::vocab, R"({"a": 1000000000})", "model.vocab.\"a\" = 1000000000 is no token id"},
      {&M::vocab, R"({"a": 9223372036854775807})", "is no token id"},
      {&M::vocab, R"({"a": 3.7})", "model.vocab.\"a\": an integer is expected, here is 3.7"},
      {&M::vocab, R"({"a": "0x5"})", "an integer is expected"},
      {&M::vocab, R"({"a": 0, "b": 0})", "model.vocab: id 0 is that of \"a\" and of \"b\""},
      {&M::vocab, R"({"a": 0, "a": 1})", "comes twice"},
      {&M::vocab, R"({"": 0})", "the token of id 0 is empty"},
      {&M::vocab, "{}", "model.vocab is empty"},
      {&M::vocab, "[]", "model.vocab: an object is expected"},
      {&M::merges, R"(["a z"])", "model.merges[0]: \"z\" is not in model.vocab"},
      {&M::merges, R"(["b a"])", "model.merges[0]: \"ba\" is not in model.vocab"},
      {&M::merges, R"(["ab"])", "is not two tokens with a blank between them"},
      {&M::merges, R"([["a", "b", "a"]])", "two tokens are expected"},
      {&M::merges, R"([["a", 1]])", "model.merges[0]: a string is expected"},
      {&M::merges, "[\"" + std::string(5000, 'a') + " b\"]", "is not in model.vocab"},
      {&M::model, R"(, "continuing_subword_prefix": "##")", "= the string \"##\" is not supported"},
      {&M::model, R"(, "dropout": 0.1)", "model.dropout = 0.1 is not supported"},
      {&M::model, R"(, "unk_token": "<unk>")", "model.unk_token = \"<unk>\" is not in"},
      {&M::model, R"(, "wings": true)", "the option \"wings\" = true is not supported"},
      {&M::added, added + "-1}]", "added_tokens[0].id = -1 is no token id"},
      {&M::added, added + "1000000000}]", "added_tokens[0].id = 1000000000 is no token id"},
      {&M::added, added + "0}]", "id 0 of \"<x>\" is that of \"a\" in model.vocab"},
      {&M::added, R"([{"id": 7, "content": "a"}])", "\"a\" has id 7, but in model.vocab 0"},
      {&M::added, R"([{"id": 7, "content": "x"}, {"id": 7, "content": "y"}])",
       "id 7 is that of \"x\" and of \"y\""},
      {&M::normalizer, R"({"type": "Nmt"})", "the normalizer \"Nmt\" is not supported"},
      {&M::normalizer, R"({"type": "Replace", "pattern": {"Regex": " +"}, "content": " "})",
       "the regular expression the string \" +\" is not supported"},
      {&M::pre_tokenizer, R"({"type": "Whitespace"})", "the pre-tokenizer \"Whitespace\""},
      {&M::pre_tokenizer,
       R"({"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated", "invert": false})",
       "pre_tokenizer.pattern.Regex = \"\\w+\" is not supported"},
      {&M::pre_tokenizer, R"({"type": "ByteLevel", "speed": 9})", "the option \"speed\" = 9"},
      {&M::post_processor, R"({"type": "BertProcessing"})",
       "the post-processor \"BertProcessing\""},
      {&M::decoder, R"({"type": "CTC"})", "the decoder \"CTC\" is not supported"},
      {&M::decoder, R"({"type": "Strip", "content": " ", "start": -2, "stop": 0})",
       "decoder.start = -2"},
      {&M::more, R"(, "extra": {})", "the option \"extra\""},
      {&M::config, R"({"eos_token": "</s>"})",
       "tokenizer_config.json: eos_token = \"</s>\" is no token of tokenizer.json"},
      {&M::config, R"({"added_tokens_decoder": {"-1": {"content": "x"}}})",
       "the key \"-1\" is no token id"},
      {&M::config, R"({"model_max_length": 0})", "model_max_length = 0 is below 1"},
      {&M::config, R"({"add_bos_token": "yes"})", "add_bos_token: true or false is expected"},
  };
  for (const Mutant& mutant : mutants) {
    MadeTokenizer made{.vocab = R"({"a": 0, "b": 1, "ab": 2})", .merges = R"(["a b"])"};
    if (mutant.part == &M::vocab) made.merges = "[]";
    made.*mutant.part = mutant.text;
    EXPECT_NE(refusal(made).find(mutant.sentence), std::string::npos) << mutant.sentence << "\n"
                                                                      << refusal(made);
  }
}

TEST(HostileTokenizer, StandInsAreBytes) {
  for (const char* token : {"<0x-1>", "<0xZZ>", "<0x+5>", "<0x 5>"}) {
    MadeTokenizer made{.vocab = std::string("{\"") + token + "\": 0}",
                       .model = R"(, "byte_fallback": true)"};
    EXPECT_NE(refusal(made).find("stands for no byte"), std::string::npos) << token;
  }
}

TEST(HostileTokenizer, SequencesInSequencesEnd) {
  std::string normalizer = R"({"type": "NFC"})";
  for (int i = 0; i < 20; ++i)
    normalizer = R"({"type": "Sequence", "normalizers": [)" + normalizer + "]}";
  MadeTokenizer made{.vocab = R"({"a": 0})", .normalizer = normalizer};
  EXPECT_NE(refusal(made).find("more than 8 sequences"), std::string::npos);
}

TEST(HostileTokenizer, AVocabularyOfOneIsOne) {
  const auto one = MadeTokenizer{.vocab = R"({"a": 0})"}.load();
  EXPECT_EQ(one->vocabulary(), 1);
  EXPECT_FALSE(one->settings().eos.has_value());
  EXPECT_THROW(one->decode({1}), Error);
  EXPECT_EQ(one->token_of(5), "");
  EXPECT_FALSE(one->is_special(-1));
}

// Every cut and every flipped byte of a small file: an Error or a tokenizer, nothing else.
TEST(HostileTokenizer, AnyDamageIsAnErrorOrATokenizer) {
  const MadeTokenizer made{.vocab = R"({"a": 0, "b": 1, "ab": 2})", .merges = R"(["a b"])"};
  const std::string text = made.json();
  int refused = 0, loaded = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const std::string& changed :
         {text.substr(0, at),
          text.substr(0, at) + static_cast<char>(text[at] ^ 1) + text.substr(at + 1)}) {
      try {
        const JsonTokenizer damaged(read_tokenizer_json(changed, "t.json"));
        damaged.decode(testing::ids_of(damaged, "ab a"), false);
        ++loaded;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace trireme
