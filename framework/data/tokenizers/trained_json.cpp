#include "framework/base/json/json.h"
#include "framework/data/tokenizers/bpe_trainer.h"

namespace trireme {

namespace {

Json byte_level(bool use_regex) {
  return Json::Object{{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", use_regex}};
}

Json pre_tokenizer(const KnownPattern& pattern) {
  if (pattern.match == gpt2_pattern().match) return byte_level(true);
  const Json split = Json::Object{{"type", "Split"},
                                  {"pattern", Json::Object{{"Regex", std::string(pattern.regex)}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}};
  return Json::Object{{"type", "Sequence"},
                      {"pretokenizers", Json::Array{split, byte_level(false)}}};
}

Json added_token(std::int64_t id, const std::string& content) {
  return Json::Object{{"id", id},        {"content", content}, {"single_word", false},
                      {"lstrip", false}, {"rstrip", false},    {"normalized", false},
                      {"special", true}};
}

}  // namespace

std::string tokenizer_json(const TrainedTokenizer& trained, const KnownPattern& pattern,
                           const std::vector<std::string>& special) {
  Json::Object vocab;
  Json::Array merges, added;
  for (const std::string& token : trained.tokens)
    vocab.emplace_back(token, static_cast<std::int64_t>(vocab.size()));
  for (const std::string& token : special) {
    added.push_back(added_token(static_cast<std::int64_t>(vocab.size()), token));
    vocab.emplace_back(token, static_cast<std::int64_t>(vocab.size()));
  }
  for (const auto& [left, right] : trained.merges)
    merges.emplace_back(trained.tokens[static_cast<std::size_t>(left)] + " " +
                        trained.tokens[static_cast<std::size_t>(right)]);
  const Json model = Json::Object{{"type", "BPE"},
                                  {"dropout", Json()},
                                  {"unk_token", Json()},
                                  {"continuing_subword_prefix", Json()},
                                  {"end_of_word_suffix", Json()},
                                  {"fuse_unk", false},
                                  {"byte_fallback", false},
                                  {"ignore_merges", false},
                                  {"vocab", std::move(vocab)},
                                  {"merges", std::move(merges)}};
  return to_text(Json::Object{{"version", "1.0"},
                              {"truncation", Json()},
                              {"padding", Json()},
                              {"added_tokens", std::move(added)},
                              {"normalizer", Json()},
                              {"pre_tokenizer", pre_tokenizer(pattern)},
                              {"post_processor", Json()},
                              {"decoder", byte_level(true)},
                              {"model", model}},
                 2) +
         "\n";
}

std::string tokenizer_config_json(const std::string& end) {
  return to_text(Json::Object{{"add_prefix_space", false},
                              {"bos_token", end},
                              {"clean_up_tokenization_spaces", false},
                              {"eos_token", end},
                              {"tokenizer_class", "PreTrainedTokenizerFast"}},
                 2) +
         "\n";
}

}  // namespace trireme
