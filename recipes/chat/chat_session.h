// A chat: messages and commands in, answers out, until its end. docs/chat.md tells a user
// everything.
//
// With a chat template, each answer is asked for with all that was said (the engine finds the
// tokens it knows in its cache); without one, the texts of both sides are one text that goes on.
// What does not fit the context is said where the answer stands, and never left out in silence: an
// exchange that has no room is an error, unless the chat slides, and then forgets its oldest
// exchanges. One thread, that of the engine.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <set>
#include <string>

#include "framework/base/files.h"
#include "recipes/chat/answer_run.h"
#include "recipes/chat/chat_log.h"
#include "recipes/chat/line_input.h"
#include "recipes/chat/message_reader.h"

namespace trireme {

struct ChatOptions {
  AnswerSettings settings = {};
  std::string system;
  bool slides = false;  // --overflow
  bool live = false;    // a person types: greetings, prompts, [stopped]
  bool dim = false;     // notes may be dimmed by escapes
};

struct ChatParts {
  ServeEngine& engine;
  const ServedModel& model;
  LineInput& input;
  Interrupts& interrupts;
  std::ostream& out;    // answers, nothing else unless live
  std::ostream& notes;  // statistics, refusals
  Files& files;
  // Lets a person change a text; nothing if that failed. Empty: the line editor does it.
  std::function<std::optional<std::string>(const std::string&)> edit = {};
  std::function<void(const std::string&)> keep = {};  // a message, for later chats
};

class ChatSession {
 public:
  ChatSession(const ChatParts& parts, const ChatOptions& options);

  // The exit code: 0; 1 if, off a terminal, something was refused; 130 after Ctrl-C twice, 128 + n
  // after signal n.
  int run();

 private:
  enum class Next : std::uint8_t { kGoOn, kEnd };
  void greet();
  Next take(const InputRead& read);
  Next interrupted(const InputRead& read);
  Next message(const ChatMessage& message);
  Next command(const std::string& name, const std::string& rest);
  bool ask(const std::string& text, bool instead = false);
  bool reply();
  bool prepare(AnswerJob& job);
  std::vector<std::int32_t> prompt_ids() const;
  std::vector<std::int32_t> make_room(std::span<const std::int32_t> said);
  void tell(const AnswerEnd& end);
  void note(const std::string& text);
  void refuse(const std::string& text);

  void set(const std::string& rest);
  void show();
  void retry(const std::string& rest);
  void edit(const std::string& rest);
  void read(const std::string& path);
  void save(const std::string& path);
  void load(const std::string& path);
  std::string exchanges() const;  // "1 exchange"
  void tokens(const std::string& text);

  ChatParts parts_;
  ChatOptions options_;
  std::unique_ptr<Encoder> encoder_;
  MessageReader reader_;
  ChatLog log_;
  std::string before_;  // what /read read
  std::string first_;   // what the line editor begins with
  std::set<std::string> saved_;
  bool editing_ = false;  // the next message replaces the last one
  bool armed_ = false;    // one more Ctrl-C ends the chat
  bool failed_ = false;
  std::int64_t used_ = 0;  // of the context
  int code_ = 0;
};

}  // namespace trireme
