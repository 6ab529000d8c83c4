// The chat template of a model folder: from messages to the text that a model is asked with. A
// small interpreter of Jinja, with what public templates use (transformers' dialect: trim_blocks,
// lstrip_blocks, tojson without ASCII escapes, raise_exception, strftime_now).
//
// A stranger wrote the template: it can only make text, within a budget of steps, bytes and depth;
// it sees no file, no environment and no other request. A user wrote the messages: what they say is
// told apart from what the template says, so that control tokens come only from the latter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/json/json.h"

namespace trireme {

// The template itself refused these messages: raise_exception's text.
class TemplateRefusal : public Error {
 public:
  using Error::Error;
};

// A run of text of one origin.
struct TemplatePiece {
  std::string text;
  bool control = false;  // the template wrote it: tokens of control may be in it
};

struct TemplateVariable {
  std::string name;
  Json value;
  bool control = false;  // counts as written by the template (bos_token, eos_token)
};

struct TemplateLimits {
  std::int64_t steps = 1'000'000;
  std::int64_t output = std::int64_t{4} << 20;  // bytes
  int depth = 100;
};

// Immutable; may be used from any thread.
class ChatTemplate {
 public:
  // Error "NAME:LINE: ..." if the source is no template, or uses what is not supported.
  ChatTemplate(std::string_view source, std::string name);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `now` gives the time in strftime's format; empty: strftime_now is refused. Neighbouring pieces
  // differ in origin.
  std::vector<TemplatePiece> render(
      const std::vector<TemplateVariable>& variables,
      const std::function<std::string(const std::string& format)>& now = {},
      const TemplateLimits& limits = {}) const;

 private:
  struct Parsed;
  std::string name_;
  std::unique_ptr<Parsed> parsed_;
};

// The whole text of the pieces.
std::string text_of(const std::vector<TemplatePiece>& pieces);

}  // namespace trireme
