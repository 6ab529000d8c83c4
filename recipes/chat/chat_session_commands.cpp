// What the commands of a chat do.
#include <ostream>

#include "framework/base/error.h"
#include "recipes/api/api_answer.h"
#include "recipes/chat/chat_commands.h"
#include "recipes/chat/chat_session.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::int64_t kMostRead = std::int64_t{4} << 20;

bool is_utf8(const std::string& text) {
  try {
    parse_json(to_text(Json(text)), "text");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

ChatSession::Next ChatSession::command(const std::string& name, const std::string& rest) {
  if (!is_chat_command(name)) {
    refuse(unknown_command(name) + "; a message that begins with / goes between \"\"\"");
    return Next::kGoOn;
  }
  if (name == "quit" || name == "exit") return Next::kEnd;
  try {
    if (name == "help") note(chat_help());
    if (name == "new") {
      log_.forget();
      before_.clear();
      used_ = 0;
      note("the conversation begins anew");
    }
    if (name == "system") {
      check(parts_.model.chat != nullptr,
            "/system: this is a base model, which continues a text; it has no system message");
      log_.system = rest;
      note(rest.empty() ? "no system message" : "system message set; /new forgets what was said");
    }
    if (name == "set") set(rest);
    if (name == "show") show();
    if (name == "retry") retry(rest);
    if (name == "undo") {
      check(!log_.empty(), "/undo: nothing was said yet");
      log_.undo();
      note("the last message and its answer are taken back");
    }
    if (name == "edit") edit(rest);
    if (name == "read") read(rest);
    if (name == "save") save(rest);
    if (name == "load") load(rest);
    if (name == "tokens") tokens(rest);
  } catch (const Error& error) {
    refuse(error.what());
  }
  return Next::kGoOn;
}

void ChatSession::set(const std::string& rest) {
  const std::size_t end = rest.find_first_of(" \t=");
  const std::string key = rest.substr(0, end);
  const std::size_t begin =
      end == std::string::npos ? std::string::npos : rest.find_first_not_of(" \t=", end);
  check(!key.empty() && (begin != std::string::npos || key == "stop"),
        "/set: a key and a value are expected, as /set temperature 0.7");
  const std::string value = begin == std::string::npos ? "" : rest.substr(begin);
  const std::string wrong = set_answer(options_.settings, key, value);
  check(wrong.empty(), "/set: ", wrong);
  note(join(key, " = ", setting_text(options_.settings, key)));
}

void ChatSession::show() {
  std::string text;
  for (const std::string& name : setting_names())
    text += join(name, " = ", setting_text(options_.settings, name), "\n");
  text +=
      join("overflow = ", options_.slides ? "slide" : "error", "\nmodel = ", parts_.model.name,
           parts_.model.chat ? "" : " (base model, continuing text)",
           "\nsystem = ", log_.system.empty() ? "none" : json_string(log_.system),
           "\nmessages = ", log_.turns().size(), "\ncontext = ", used_, "/", parts_.model.context);
  note(text);
}

void ChatSession::retry(const std::string& rest) {
  check(rest.empty() || rest == "same", "/retry: \"", rest, "\": expected nothing or same");
  check(!log_.empty(), "/retry: nothing was said yet");
  const std::uint64_t next = rest.empty() ? 1 : 0;
  options_.settings.sampling.seed += next;
  if (!ask(std::string(log_.turns().back().user), true)) options_.settings.sampling.seed -= next;
}

void ChatSession::edit(const std::string& rest) {
  check(!log_.empty(), "/edit: nothing was said yet");
  const std::string last = log_.turns().back().user;
  std::optional<std::string> changed;
  if (!rest.empty()) {
    changed = rest;
  } else if (parts_.edit) {
    changed = parts_.edit(last);
    check(changed && changed->find_first_not_of(" \t\r\n") != std::string::npos,
          "/edit: the message stays as it was");
  } else {
    check(options_.live, "/edit: off a terminal the new message is expected behind it");
    editing_ = true;
    first_ = last;
    return;
  }
  ask(*changed, true);
}

void ChatSession::read(const std::string& path) {
  check(!path.empty(), "/read: a file is expected");
  const FileStatus status = parts_.files.status(path);
  check(status.kind == FileKind::kFile, "/read: there is no file ", path);
  check(status.bytes <= kMostRead, "/read: ", path, " has ", bytes_text(status.bytes), ", at most ",
        bytes_text(kMostRead), " are read");
  std::string text = read_whole(parts_.files, path, kMostRead);
  check(is_utf8(text), "/read: ", path, " is no text in UTF-8");
  if (!text.ends_with('\n')) text += '\n';
  before_ += text;
  note(join(bytes_text(std::ssize(text)), " of ", path, " stand before the next message"));
}

void ChatSession::save(const std::string& path) {
  check(!path.empty(), "/save: a file is expected");
  const std::string folder = folder_of(path);
  check(parts_.files.status(folder).kind == FileKind::kDirectory, "/save: there is no folder ",
        folder);
  check(!parts_.files.exists(path) || saved_.contains(path), "/save: ", path,
        " is there already, and is none of this chat's; choose another name");
  Json::Object settings;
  for (const std::string& name : setting_names())
    if (name != "stop" && (name != "tokens" || options_.settings.tokens > 0))
      settings.emplace_back(name, setting_text(options_.settings, name));
  const Json::Array stops(options_.settings.stops.begin(), options_.settings.stops.end());
  const Json all = Json::Object{{"model", parts_.model.name},
                                {"messages", log_.messages()},
                                {"settings", std::move(settings)},
                                {"stop", stops}};
  write_whole_atomically(parts_.files, path, to_text(all, 2) + "\n");
  saved_.insert(path);
  note(join("written to ", path, ": ", exchanges()));
}

std::string ChatSession::exchanges() const {
  const std::size_t count = log_.turns().size();
  return join(count, count == 1 ? " exchange" : " exchanges");
}

void ChatSession::load(const std::string& path) {
  check(!path.empty(), "/load: a file is expected");
  check(parts_.files.status(path).kind == FileKind::kFile, "/load: there is no file ", path);
  const Json all = parse_json(read_whole(parts_.files, path, std::int64_t{64} << 20), path);
  ChatLog log;
  log.take(all.at("messages", path), path);
  check(log.empty() || log.turns().back().answered, path,
        ": the last message has no answer; it would be asked with the next one");
  AnswerSettings settings = options_.settings;
  if (const Json* saved = all.find("settings"))
    for (const auto& [name, value] : saved->object(path + ": settings")) {
      const std::string wrong = set_answer(settings, name, value.text(path + ": " + name));
      check(wrong.empty(), path, ": ", wrong);
    }
  if (const Json* stops = all.find("stop")) {
    settings.stops.clear();
    for (const Json& stop : stops->array(path + ": stop"))
      settings.stops.push_back(stop.text(path + ": stop"));
  }
  log_ = std::move(log);
  options_.settings = std::move(settings);
  note(join(path, ": ", exchanges(), "; the next message goes on"));
}

void ChatSession::tokens(const std::string& text) {
  std::vector<std::int32_t> ids;
  encoder_->encode(text, ids);
  std::string told = join(ids.size(), ids.size() == 1 ? " token:" : " tokens:");
  for (const std::int32_t id : ids)
    told += join(" ", id, " ", json_string(token_text(parts_.model.tokenizer, id)));
  note(told);
}

}  // namespace trireme
