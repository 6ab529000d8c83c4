// A conversation as tokens: what the chat template of the tokenizer's folder makes of it, and which
// of its tokens are to be learned.
//
// - Only what the template wrote can become control tokens (EncodeOptions::strangers); else the ids
//   are those of the whole text, cut where an answer begins and ends. A model that is asked gets
//   its prompt cut there, too.
// - Where answers lie is found without the template's help: it renders the messages before an
//   answer, with add_generation_prompt, and the messages with it. Each must be the beginning of the
//   text with one message more, which must be that of the whole. Where only the first is so (Qwen 3
//   writes <think> only into the newest answer), an answer ends with the first control token behind
//   its content. A template for which neither holds is refused for loss_on = assistant and last.
// - A conversation with tools is written by the template called "tool_use", where the folder has
// one.
// - An answer ends with its last control token: a line end behind that is not learned. A template
//   that writes none there leaves it open how the model ends: then the tokenizer's end-of-text
//   token follows a conversation.
// - strftime_now() is 26 July 2024 at noon, so that the same file gives the same tokens tomorrow.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/json/json.h"
#include "framework/data/jinja/chat_template.h"
#include "framework/data/tokenizer.h"

namespace trireme {

enum class LossOn : std::uint8_t {
  kAll,        // every token
  kAssistant,  // all answers
  kLast,       // the last answer
};

struct DocumentTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> trained;  // a byte a token; 0: it does not count as a label
  std::int64_t turns = 0;             // messages; 0: no conversation
  std::int64_t line = 0;              // of the file it is from, from 1
};

class ConversationEncoder {
 public:
  // Error if the tokenizer's folder has no chat template. `tokenizer` must outlive it.
  ConversationEncoder(const Tokenizer& tokenizer, LossOn loss_on);

  // Error for what the template refuses, and if answers cannot be found. From any thread, each with
  // an encoder of its own.
  DocumentTokens encode(const Json& messages, const Json& tools, Encoder& encoder) const;

  // What stands before the answer to these messages; as in encode(), if it is the first answer.
  std::vector<std::int32_t> prompt(const Json& messages, const Json& tools, Encoder& encoder) const;

  // What decides the tokens beside the name of the tokenizer: its templates and what they can name.
  // For cache keys. Error if there is no chat template.
  static std::string key_of(const Tokenizer& tokenizer);

 private:
  struct Span {
    std::size_t begin = 0, end = 0;  // bytes of the text
  };
  struct Text {
    std::string bytes, strangers;
  };
  Text render(const Json& messages, const Json& tools, std::size_t count, bool prompt) const;
  std::vector<Span> answers(const Text& text, const Json& messages, const Json& tools) const;
  std::size_t end_token_behind(const Text& text, std::size_t begin, const Json& message) const;
  Span answer(const Text& text, const Json& messages, const Json& tools, std::size_t index) const;
  void append(const Text& text, Span part, bool trained, Encoder& encoder,
              DocumentTokens& tokens) const;
  void forget_tail(DocumentTokens& tokens, std::size_t from) const;
  void end_document(DocumentTokens& tokens, bool answered) const;

  const ChatTemplate& template_for(const Json& tools) const;

  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  std::optional<ChatTemplate> tool_template_;
  std::string tool_problem_;  // why there is none, where the folder has one
  LossOn loss_on_;
  std::vector<TemplateVariable> constants_;
  std::vector<std::string> controls_;  // how special tokens are spelled
};

}  // namespace trireme
