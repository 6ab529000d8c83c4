// Tokenizers for tests: small ones written by hand, and the real ones of ../shared where they are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/tokenizer.h"

namespace trireme::testing {

// What a tokenizer.json says; members are JSON text.
struct MadeTokenizer {
  std::string vocab;  // {"a": 0, ...}
  std::string merges = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";
  std::string added = "[]";
  std::string model = "";   // more members of the model: ", \"byte_fallback\": true"
  std::string more = "";    // more members of the file
  std::string config = "";  // tokenizer_config.json

  std::string json() const;
  // Error as load_tokenizer gives it, with the folder's name cut off.
  std::unique_ptr<Tokenizer> load() const;
};

// The 256 letters of the byte alphabet as ids 0 to 255 (in the order of bytes), then `merged`: each
// the two tokens of a merge, as the alphabet spells them.
MadeTokenizer byte_level(const std::vector<std::pair<std::string, std::string>>& merged = {},
                         const std::string& pre_tokenizer = "");

// The sentence of load(), without the name of the folder; empty if it loads.
std::string refusal(const MadeTokenizer& made);

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text,
                                 const EncodeOptions& options = {});

// Null where ../shared/data/tokenizers has it not.
std::unique_ptr<Tokenizer> real_tokenizer(const std::string& name);

}  // namespace trireme::testing
