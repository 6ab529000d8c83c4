#include "tests/framework/data/tokenizers/made_tokenizer.h"

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/data/tokenizers/byte_alphabet.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {

std::string MadeTokenizer::json() const {
  return join("{\"version\": \"1.0\", \"added_tokens\": ", added, ", \"normalizer\": ", normalizer,
              ", \"pre_tokenizer\": ", pre_tokenizer, ", \"post_processor\": ", post_processor,
              ", \"decoder\": ", decoder, more,
              ", \"model\": {\"type\": \"BPE\", \"vocab\": ", vocab, ", \"merges\": ", merges,
              model, "}}");
}

std::unique_ptr<Tokenizer> MadeTokenizer::load() const {
  const TemporaryFolder folder;
  const auto files = real_files();
  write_whole_atomically(*files, folder / "tokenizer.json", json());
  if (!config.empty()) write_whole_atomically(*files, folder / "tokenizer_config.json", config);
  return make_tokenizer(folder.path(), *files);
}

MadeTokenizer byte_level(const std::vector<std::pair<std::string, std::string>>& merged,
                         const std::string& pre_tokenizer) {
  Json::Object vocab;
  Json::Array merges;
  for (int byte = 0; byte < 256; ++byte)
    vocab.emplace_back(std::string(byte_letter(static_cast<std::uint8_t>(byte))), byte);
  for (const auto& [left, right] : merged) {
    vocab.emplace_back(left + right, static_cast<int>(vocab.size()));
    merges.emplace_back(left + " " + right);
  }
  const std::string byte_part =
      R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
  return {.vocab = to_text(Json(vocab)),
          .merges = to_text(Json(merges)),
          .pre_tokenizer = pre_tokenizer.empty() ? byte_part : pre_tokenizer,
          .decoder = byte_part};
}

std::string refusal(const MadeTokenizer& made) {
  const std::string sentence = sentence_of([&] { made.load(); });
  const std::size_t at = sentence.find("/tokenizer");
  return at == std::string::npos ? sentence : sentence.substr(at + 1);
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text,
                                 const EncodeOptions& options) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids, options);
  return ids;
}

std::unique_ptr<Tokenizer> real_tokenizer(const std::string& name) {
  const auto files = real_files();
  const std::string folder = "../shared/data/tokenizers/" + name;
  return files->exists(folder) ? make_tokenizer(folder, *files) : nullptr;
}

}  // namespace trireme::testing
