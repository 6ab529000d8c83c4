#include "recipes/chat/chat_session.h"

#include <algorithm>
#include <csignal>
#include <ostream>
#include <utility>

#include "framework/base/error.h"
#include "recipes/chat/chat_commands.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"

namespace trireme {

ChatSession::ChatSession(const ChatParts& parts, const ChatOptions& options)
    : parts_(parts), options_(options), encoder_(parts.model.tokenizer.encoder()) {
  log_.system = options.system;
}

void ChatSession::note(const std::string& text) {
  parts_.notes << (options_.dim ? "\033[2m" : "") << printable(text)
               << (options_.dim ? "\033[0m" : "") << "\n"
               << std::flush;
}

void ChatSession::refuse(const std::string& text) {
  note(text);
  failed_ = true;
}

void ChatSession::greet() {
  if (!parts_.model.chat)
    note(join(parts_.model.name, " has no chat template: base model, continuing text"));
  if (options_.live)
    note(join(parts_.model.name, ", context ", parts_.model.context,
              " tokens; /help tells the commands, /quit ends"));
}

int ChatSession::run() {
  greet();
  for (;;) {
    const std::string first = std::move(first_);
    first_.clear();
    const InputRead read = parts_.input.read(reader_.open() ? "... " : "> ", first);
    if (take(read) == Next::kEnd) break;
    if (parts_.interrupts.ending() != 0) {
      code_ = 128 + parts_.interrupts.ending();
      break;
    }
    if (!parts_.out) fail("standard output takes no more text");
  }
  return code_ == 0 && failed_ && !options_.live ? 1 : code_;
}

ChatSession::Next ChatSession::take(const InputRead& read) {
  switch (read.kind) {
    case InputRead::Kind::kLine:
      if (const auto whole = reader_.line(read.text)) return message(*whole);
      return Next::kGoOn;
    case InputRead::Kind::kEnd:
      if (options_.live) parts_.out << "\n" << std::flush;
      if (const auto whole = reader_.end(); whole && !options_.live) message(*whole);
      return Next::kEnd;
    case InputRead::Kind::kInterrupt:
      return interrupted(read);
    case InputRead::Kind::kTerminate:
      code_ = 128 + parts_.interrupts.ending();
      return Next::kEnd;
  }
  return Next::kEnd;
}

// Ctrl-C where nothing is answered: what is typed is thrown away; a second one ends the chat.
ChatSession::Next ChatSession::interrupted(const InputRead& read) {
  const bool typed = reader_.open() || !read.was_empty;
  if (options_.live) parts_.out << "\n" << std::flush;
  reader_.clear();
  editing_ = false;
  if (!options_.live || (armed_ && !typed)) {
    code_ = 128 + SIGINT;
    return Next::kEnd;
  }
  armed_ = true;
  note("Ctrl-C once more, or /quit, ends the chat");
  return Next::kGoOn;
}

ChatSession::Next ChatSession::message(const ChatMessage& message) {
  armed_ = false;
  if (message.text.find_first_not_of(" \t\r\n") == std::string::npos) {
    editing_ = false;
    return Next::kGoOn;
  }
  parts_.input.remember(message.text);
  if (parts_.keep) parts_.keep(message.text);
  const auto words = message.verbatim || editing_ ? std::nullopt : chat_words(message.text);
  if (words) return command(words->name, words->rest);
  const std::string file = std::exchange(before_, {});
  if (!ask(file + message.text, std::exchange(editing_, false)) && !file.empty())
    note("what /read read went with the message");
  return Next::kGoOn;
}

// `instead`: of the last message. What cannot be answered, then false, leaves the conversation as
// it was.
bool ChatSession::ask(const std::string& text, bool instead) {
  const ChatLog earlier = log_;
  if (instead) log_.undo();
  log_.ask(text);
  bool taken = false;
  try {
    taken = reply();
  } catch (const RequestRefused& refused) {
    refuse(refused.what());
  }
  if (!taken) log_ = earlier;
  return taken;
}

std::vector<std::int32_t> ChatSession::prompt_ids() const {
  const ServedModel& model = parts_.model;
  if (model.chat) return model.chat->prompt(log_.messages(), Json(), *encoder_);
  return text_tokens(log_.text(), true, model, *encoder_);
}

// The prompt and what was said of its answer, with room behind: without the oldest exchanges, or
// without the beginning of a text. Empty if there is no way.
std::vector<std::int32_t> ChatSession::make_room(std::span<const std::int32_t> said) {
  const std::int64_t context = parts_.model.context;
  const std::int64_t wanted = options_.settings.tokens > 0 ? options_.settings.tokens
                                                           : std::max<std::int64_t>(1, context / 4);
  const std::int64_t more = std::clamp<std::int64_t>(wanted - std::ssize(said), 1,
                                                     std::max<std::int64_t>(1, context / 2));
  std::vector<std::int32_t> ids = prompt_ids();
  const auto with_said = [&] { ids.insert(ids.end(), said.begin(), said.end()); };
  if (!parts_.model.chat) {
    const bool start = parts_.model.start && !ids.empty() && ids[0] == *parts_.model.start;
    with_said();
    const auto size = ids.size();
    ids = last_tokens(ids, context, more, start ? 1 : 0);
    if (ids.size() < size)
      note(join("[context full: ", context, " tokens; the first ", size - ids.size(),
                " are forgotten]"));
    return ids;
  }
  std::size_t forgotten = 0;
  while (std::ssize(ids) + std::ssize(said) + more > context && log_.turns().size() > 1) {
    log_.forget_oldest();
    ++forgotten;
    ids = prompt_ids();
  }
  if (forgotten > 0)
    note(join("[context full: ", context, " tokens; the oldest ", forgotten,
              forgotten == 1 ? " exchange is" : " exchanges are", " forgotten]"));
  with_said();
  return std::ssize(ids) < context ? ids : std::vector<std::int32_t>();
}

// False if the message cannot be answered, which is said.
bool ChatSession::prepare(AnswerJob& job) {
  const std::int64_t context = parts_.model.context;
  try {
    job.prompt = prompt_ids();
  } catch (const Error& error) {  // of the template
    refuse(join(
        error.what(),
        log_.system.empty() ? "" : "; /system alone takes the system message back, if it is that"));
    return false;
  }
  if (options_.slides)
    if (auto fitting = make_room({}); !fitting.empty()) job.prompt = std::move(fitting);
  if (job.prompt.empty()) {
    refuse("the message has no tokens");
    return false;
  }
  if (std::ssize(job.prompt) < context) return true;
  refuse(join("[context full: this message needs ", job.prompt.size(), " tokens with all before ",
              "it, the context has ", context, "; it was not taken. /new begins anew, /undo takes ",
              "the last exchange back",
              options_.slides ? "" : ", --overflow=slide forgets the oldest", "]"));
  return false;
}

// False if there is no answer, which is said.
bool ChatSession::reply() {
  AnswerJob job{.settings = options_.settings,
                .ends = parts_.model.chat ? parts_.model.answer_ends : parts_.model.ends};
  if (!prepare(job)) return false;
  if (options_.slides)
    job.slide = [this](std::span<const std::int32_t> said) {
      parts_.out << (options_.live ? "\n" : "") << std::flush;
      return make_room(said);
    };
  job.say = [this](const std::string& text) { parts_.out << printable(text) << std::flush; };
  job.interrupted = [this] { return parts_.interrupts.pending() || !parts_.out; };
  const AnswerEnd end = answer(parts_.engine, parts_.model, job);
  parts_.out << "\n" << std::flush;
  if (end.reason == FinishReason::kError) {
    refuse(join("[", end.error, "; the message was taken back]"));
    return false;
  }
  used_ = end.used;
  log_.answer(end.text);
  tell(end);
  return true;
}

void ChatSession::tell(const AnswerEnd& end) {
  if (end.reason == FinishReason::kCancelled) {
    parts_.interrupts.take();
    armed_ = true;
    note("[stopped]");
  }
  if (end.context_full)
    refuse(join("[context full: ", parts_.model.context, " of ", parts_.model.context,
                " tokens; the answer is cut off. /new begins anew, /undo takes it back",
                options_.slides ? "" : ", --overflow=slide forgets the oldest", "]"));
  const auto rate = [](std::int64_t count, double seconds) {
    return seconds > 0 ? fixed(static_cast<double>(count) / seconds, 1) : std::string("-");
  };
  const std::int64_t said = std::ssize(end.ids);
  std::string cached;
  if (end.cached_tokens > 0) cached = join(" (", end.cached_tokens, " cached)");
  note(join("prompt ", end.prompt_tokens, " tok", cached, " @ ",
            rate(end.prompt_tokens - end.cached_tokens, end.first_seconds), "/s, reply ", said,
            " tok @ ", rate(said - 1, end.reply_seconds), "/s, ttft ",
            fixed(end.first_seconds * 1e3, 0), " ms, context ", used_, "/", parts_.model.context,
            ", seed ", options_.settings.sampling.seed));
}

}  // namespace trireme
