// Each component of a tokenizer.json, on vocabularies written by hand; ids as the `tokenizers`
// package gives them.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/framework/data/tokenizers/made_tokenizer.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::byte_level;
using testing::ids_of;
using testing::MadeTokenizer;
using testing::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

constexpr const char* kPlainVocab =
    R"({"<unk>": 0, "a": 1, "b": 2, "c": 3, "▁": 4, "ab": 5, "▁a": 6, "abc": 7, "é": 8, " ": 9, "1": 10, "2": 11})";
constexpr const char* kPlainMerges = R"(["a b", ["▁", "a"], "ab c"])";

MadeTokenizer plain() { return {.vocab = kPlainVocab, .merges = kPlainMerges}; }

Ids plain_ids(const MadeTokenizer& made, std::string_view text) {
  return ids_of(*made.load(), text);
}

TEST(Bpe, LowestRankFirstThenLeftmost) {
  EXPECT_EQ(plain_ids(plain(), "abcab"), (Ids{7, 5}));
  const auto made = byte_level({{"b", "c"}, {"a", "b"}, {"x", "x"}, {"xx", "xx"}});
  const auto bytes = made.load();
  EXPECT_EQ(ids_of(*bytes, "abc"), (Ids{'a', 256}));
  EXPECT_EQ(ids_of(*bytes, "xxxxx"), (Ids{259, 'x'}));
}

TEST(Bpe, UnknownCharactersVanishOrBecomeUnkOrBytes) {
  EXPECT_EQ(plain_ids(plain(), "aZZb"), (Ids{5}));  // they vanish, and the rest is joined
  MadeTokenizer made = plain();
  made.model = R"(, "unk_token": "<unk>")";
  EXPECT_EQ(plain_ids(made, "aZZb"), (Ids{1, 0, 0, 2}));
  made.model += R"(, "fuse_unk": true)";
  EXPECT_EQ(plain_ids(made, "aZZb"), (Ids{1, 0, 2}));
  made.vocab = R"({"<unk>": 0, "a": 1, "<0x5A>": 2, "<0xC3>": 3})";
  made.merges = "[]";
  made.model += R"(, "byte_fallback": true)";
  EXPECT_EQ(plain_ids(made, "aZü"), (Ids{1, 2, 0}));
}

TEST(Bpe, IgnoreMergesTakesWholeWords) {
  MadeTokenizer made = byte_level({{"a", "b"}});
  made.vocab.insert(made.vocab.size() - 1, R"(, "abab": 257)");
  EXPECT_EQ(ids_of(*made.load(), "abab"), (Ids{256, 256}));
  made.model = R"(, "ignore_merges": true)";
  EXPECT_EQ(ids_of(*made.load(), "abab"), (Ids{257}));
}

TEST(Normalizers, EachDoesItsPart) {
  MadeTokenizer made = plain();
  const auto with = [&](const char* normalizer) {
    made.normalizer = normalizer;
    return made;
  };
  EXPECT_EQ(plain_ids(with(R"({"type": "NFC"})"), "e\u0301"), (Ids{8}));
  EXPECT_EQ(plain_ids(with(R"({"type": "NFKC"})"), "ⓐ²"), (Ids{1, 11}));
  EXPECT_EQ(plain_ids(with(R"({"type": "NFKD"})"), "１ａ"), (Ids{10, 1}));
  EXPECT_EQ(plain_ids(with(R"({"type": "NFD"})"), "é"), (Ids{}));
  EXPECT_EQ(plain_ids(with(R"({"type": "Lowercase"})"), "ABC É"), (Ids{7, 9, 8}));
  EXPECT_EQ(plain_ids(with(R"({"type": "Strip", "strip_left": true, "strip_right": false})"),
                      " \u3000 b "),
            (Ids{2, 9}));
  EXPECT_EQ(plain_ids(with(R"({"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})"),
                      "a a"),
            (Ids{6, 6}));
  EXPECT_EQ(plain_ids(made, ""), (Ids{}));
}

TEST(PreTokenizers, SplitBehaviours) {
  MadeTokenizer made = plain();  // "ab" is joined only inside a word
  const auto with = [&](const char* behavior, const char* invert = "false") {
    made.pre_tokenizer =
        std::string(R"({"type": "Split", "pattern": {"String": "1"}, "behavior": ")") + behavior +
        R"(", "invert": )" + invert + "}";
    return plain_ids(made, "a1b11ab");
  };
  EXPECT_EQ(with("Isolated"), (Ids{1, 10, 2, 10, 10, 5}));
  EXPECT_EQ(with("Removed"), (Ids{1, 2, 5}));
  EXPECT_EQ(with("Removed", "true"), (Ids{10, 10, 10}));
  EXPECT_EQ(with("MergedWithPrevious"), (Ids{1, 10, 2, 10, 10, 5}));
  EXPECT_EQ(with("MergedWithNext"), (Ids{1, 10, 2, 10, 10, 5}));
  EXPECT_EQ(with("Contiguous"), (Ids{1, 10, 2, 10, 10, 5}));
}

TEST(PreTokenizers, MetaspaceAndDigits) {
  MadeTokenizer made = plain();
  const auto with = [&](const char* options) {
    made.pre_tokenizer =
        std::string(R"({"type": "Metaspace", "replacement": "▁", )") + options + "}";
    return plain_ids(made, "a a");
  };
  EXPECT_EQ(with(R"("prepend_scheme": "always", "split": true)"), (Ids{6, 6}));
  EXPECT_EQ(with(R"("prepend_scheme": "never", "split": false)"), (Ids{1, 6}));
  EXPECT_EQ(with(R"("add_prefix_space": true)"), (Ids{6, 6}));
  made.added = R"([{"id": 12, "content": "<x>", "normalized": false, "special": true}])";
  made.pre_tokenizer =
      R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})";
  EXPECT_EQ(plain_ids(made, "a<x>a"), (Ids{6, 12, 1}));
  const auto digits = byte_level({{"1", "2"}}, R"({"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true},
      {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}]})");
  EXPECT_EQ(ids_of(*digits.load(), "a12"), (Ids{' ', 'a', ' ', '1', ' ', '2'}));
}

TEST(AddedTokens, TwoPassesBlanksAndWords) {
  MadeTokenizer made = plain();
  made.normalizer = R"({"type": "Lowercase"})";
  made.added = R"([{"id": 20, "content": "AB", "normalized": false},
                   {"id": 21, "content": "Ba", "normalized": true},
                   {"id": 22, "content": "ABC", "normalized": false, "rstrip": true},
                   {"id": 23, "content": "<s>", "normalized": false, "lstrip": true, "special": true},
                   {"id": 24, "content": "cc", "normalized": false, "single_word": true}])";
  const auto tokenizer = made.load();
  EXPECT_EQ(tokenizer->vocabulary(), 25);
  EXPECT_EQ(ids_of(*tokenizer, "ABa"), (Ids{20, 1}));
  EXPECT_EQ(ids_of(*tokenizer, "bAa"), (Ids{21, 1}));
  EXPECT_EQ(ids_of(*tokenizer, "ABC \t a"), (Ids{22, 1}));
  EXPECT_EQ(ids_of(*tokenizer, "a  <s> a"), (Ids{1, 23, 9, 1}));
  EXPECT_EQ(ids_of(*tokenizer, "cc acc cc"), (Ids{24, 9, 1, 3, 3, 9, 24}));
  EXPECT_EQ(ids_of(*tokenizer, "<s>AB", {.added = AddedTokens::kOrdinary}), (Ids{20}));
  EXPECT_EQ(ids_of(*tokenizer, "<s>AB", {.added = AddedTokens::kNone}), (Ids{5}));
  EXPECT_EQ(tokenizer->decode({1, 23, 2}, true), "a b");  // no decoder: a blank between tokens
}

TEST(PostProcessors, EndsAreAskedFor) {
  MadeTokenizer made = plain();
  made.post_processor = R"({"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "b", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "c", "type_id": 0}}], "pair": [], "special_tokens": {
      "b": {"id": "b", "ids": [2], "tokens": ["b"]}, "c": {"id": "c", "ids": [3, 3], "tokens": []}}})";
  EXPECT_EQ(plain_ids(made, "a"), (Ids{1}));
  EXPECT_EQ(ids_of(*made.load(), "a", {.ends = true}), (Ids{2, 1, 3, 3}));
  made.config = R"({"tokenizer_class": "LlamaTokenizer", "bos_token": "a", "add_bos_token": true,
                    "add_eos_token": false, "eos_token": {"content": "b"}})";
  EXPECT_EQ(ids_of(*made.load(), "a", {.ends = true}), (Ids{1, 1}));
  EXPECT_EQ(made.load()->settings().eos, 2);
}

TEST(Decoders, EachDoesItsPart) {
  MadeTokenizer made = plain();
  made.vocab = R"({"▁a": 0, "▁": 1, "<0xE2>": 2, "<0x82>": 3, "<0xAC>": 4, "b": 5})";
  made.merges = "[]";
  made.decoder = R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
  const auto tokenizer = made.load();
  EXPECT_EQ(tokenizer->decode({1, 0, 2, 3, 4, 5}), " a€b");
  EXPECT_EQ(tokenizer->decode({2, 3, 5}), "\uFFFD\uFFFDb");
  EXPECT_EQ(tokenizer->decode({0, 4}), "a\uFFFD");
  StreamingDecoder stream(*tokenizer);
  std::string said;
  for (const std::int32_t id : {1, 0, 2, 3}) said += stream.push(id);
  EXPECT_EQ(said, " a");
  EXPECT_EQ(stream.push(4), "€");
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.push(5), "\uFFFDb");
  made.decoder = R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})";
  EXPECT_EQ(made.load()->decode({0, 0, 1}), "a a ");
}

TEST(Settings, NameFollowsTheContent) {
  MadeTokenizer made = plain();
  const std::string name = made.load()->name();
  EXPECT_TRUE(name.starts_with("bpe-"));
  EXPECT_EQ(made.load()->name(), name);
  made.merges = R"(["a b"])";
  EXPECT_NE(made.load()->name(), name);
  made.config = R"({"model_max_length": 1e30, "chat_template": [
      {"name": "default", "template": "x"}, {"name": "tool_use", "template": "y"}]})";
  EXPECT_FALSE(made.load()->settings().longest_text.has_value());
  EXPECT_EQ(made.load()->settings().chat_templates[1].second, "y");
  const auto with = [&](const std::string& flags) {
    made.config = R"({"added_tokens_decoder": {"256": {"content": "<x>")" + flags + "}}}";
    return made.load()->name();
  };
  EXPECT_NE(with(""), with(R"(, "special": true)"));
  EXPECT_NE(with(""), with(R"(, "lstrip": true)"));
}

TEST(Settings, AddedTokensAreWhatTheConfigSaysOfThem) {
  MadeTokenizer made = byte_level();
  made.added = R"([{"id": 256, "content": "<a>"}, {"id": 257, "content": "<b>", "special": true}])";
  const auto with = [&](const std::string& flags) {
    made.config = R"({"eos_token": "<b>", "added_tokens_decoder": )"
                  R"({"256": {"content": "<a>")" +
                  flags + R"(}, "257": {"content": "<b>", "special": false}}})";
    return made.load();
  };
  EXPECT_EQ(ids_of(*with(""), "x <a>"), (Ids{'x', ' ', 256}));
  EXPECT_EQ(ids_of(*with(R"(, "lstrip": true)"), "x <a>"), (Ids{'x', 256}));
  EXPECT_FALSE(with("")->is_special(256));
  EXPECT_TRUE(with(R"(, "special": true)")->is_special(256));
  EXPECT_TRUE(with("")->is_special(257));  // it ends texts
}

TEST(Settings, TemplatesInFilesOfTheirOwnCountAlone) {
  const TemporaryFolder folder;
  const auto files = real_files();
  const auto write = [&](const std::string& name, const std::string& text) {
    write_whole_atomically(*files, folder / name, text);
  };
  write("tokenizer.json", byte_level().json());
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "old"},
                                                       {"name": "rag", "template": "old"}]})");
  using Templates = std::vector<std::pair<std::string, std::string>>;
  const auto templates = [&] {
    return make_tokenizer(folder.path(), *files)->settings().chat_templates;
  };
  EXPECT_EQ(templates(), (Templates{{"default", "old"}, {"rag", "old"}}));
  write("chat_template.jinja", "new");
  EXPECT_EQ(templates(), (Templates{{"default", "new"}}));
  files->make_directories(folder / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "tools");
  write("additional_chat_templates/notes.txt", "none");
  EXPECT_EQ(templates(), (Templates{{"default", "new"}, {"tool_use", "tools"}}));
}

TEST(WrongBytes, GoThrough) {
  const auto tokenizer = byte_level().load();
  EXPECT_EQ(ids_of(*tokenizer, "a\xFF\xC3 b"), (Ids{'a', 0xFF, 0xC3, ' ', 'b'}));
  EXPECT_EQ(tokenizer->decode({'a', 0xFF}), "a\uFFFD");
}

}  // namespace
}  // namespace trireme
