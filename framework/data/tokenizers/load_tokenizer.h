// Reads the tokenizer.json of a Hugging Face model folder, and what lies beside it.
#pragma once

#include <memory>
#include <string>

#include "framework/base/files.h"
#include "framework/base/json/json.h"
#include "framework/data/tokenizer.h"
#include "framework/data/tokenizers/json_tokenizer.h"

namespace trireme {

// `file` is the tokenizer.json; tokenizer_config.json, special_tokens_map.json and
// chat_template.jinja are taken from its folder if they are there. What is not supported, or
// contradicts itself, is refused with a sentence that names file and key.
std::unique_ptr<Tokenizer> load_tokenizer(Files& files, const std::string& file);

// The pieces of the above. All but `settings`, of the text of a tokenizer.json called `name`.
TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name);
// Adds the settings of the files in `folder`, and added tokens that only they name.
void read_tokenizer_settings(Files& files, const std::string& folder, TokenizerParts& parts);

// The "added_tokens" of a tokenizer.json, or one entry of "added_tokens_decoder". Nothing happens
// for a token that is there already; Error if it has another id there, or the id another token.
void add_token(const AddedToken& token, const std::string& what, TokenizerParts& parts);
AddedToken read_added_token(const Json& json, const std::string& what, std::int32_t id);

}  // namespace trireme
