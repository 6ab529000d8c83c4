// What a chat model is asked, and how it ends its answer: both by the chat template of the
// tokenizer's folder, so that a model is asked as it was trained (conversation.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/tokenizer.h"

namespace trireme {

bool has_chat_template(const Tokenizer& tokenizer);

// The ids before the answer to one message of a user. Error if the tokenizer has no chat template,
// or if that refuses the message. Nothing that the message spells becomes a control token.
std::vector<std::int32_t> chat_prompt(const Tokenizer& tokenizer, const std::string& message);

// The control token that ends an answer as conversations are trained: the last one that the
// template writes with it, else the tokenizer's end of text. Empty without a template, and for one
// that does not tell.
std::optional<std::int32_t> answer_end(const Tokenizer& tokenizer);

// All that training with this tokenizer teaches to end with: its end-of-text token, which stands
// behind documents, and the end of an answer.
std::vector<std::int32_t> learned_ends(const Tokenizer& tokenizer);

}  // namespace trireme
