#include "framework/data/records.h"

#include <algorithm>
#include <array>

namespace trireme {

namespace {

constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr int kLookedAt = 100;  // lines, for the form

struct Shape {
  RecordForm form;
  std::string_view key;  // that tells it
};
constexpr std::array<Shape, 4> kShapes{{{RecordForm::kMessages, "messages"},
                                        {RecordForm::kShareGpt, "conversations"},
                                        {RecordForm::kAlpaca, "instruction"},
                                        {RecordForm::kText, "text"}}};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

// The place in the sentence of parse_json is "NAME:1:COLUMN: what".
Json parse_line(const Line& line, const std::string& path) {
  constexpr std::string_view kName = "line";
  try {
    return parse_json(line.text, kName);
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::size_t column = kName.size() + 3, end = what.find(": ", column);
    const bool placed = what.starts_with("line:1:") && end != std::string::npos;
    throw BadLine(bad_line(path, line, placed ? std::stoll(what.substr(column)) : 1,
                           placed ? what.substr(end + 2) : what));
  }
}

std::optional<RecordForm> form_of(const Json& value) {
  for (const Shape& shape : kShapes)
    if (value.find(shape.key)) return shape.form;
  return std::nullopt;
}

std::string keys_of(const Json& value) {
  if (!value.is(Json::Kind::kObject)) return "it is " + describe(value);
  std::string names;
  for (const auto& [name, member] : value.object("line"))
    names += (names.empty() ? "" : ", ") + name;
  return "its keys are: " + (names.empty() ? "none" : names);
}

Json message(std::string role, std::string content) {
  return Json::Object{{"role", std::move(role)}, {"content", std::move(content)}};
}

std::string role_of(const std::string& from) {
  if (from == "human" || from == "user") return "user";
  if (from == "gpt" || from == "assistant" || from == "model") return "assistant";
  if (from == "system" || from == "tool") return from;
  if (from == "observation" || from == "function_response") return "tool";
  fail("\"from\" = \"", from,
       "\" is no speaker that is known: human, user, gpt, assistant, model, system, tool");
}

std::string text_member(const Json& object, std::string_view key, bool needed = true) {
  const Json* member = object.find(key);
  if (!member || (!needed && member->is_null())) {
    if (needed) object.at(key, "record");
    return {};
  }
  return member->text(join("\"", key, "\""));
}

Json::Array system_of(const Json& value) {
  const std::string system = text_member(value, "system", false);
  return system.empty() ? Json::Array{} : Json::Array{message("system", system)};
}

void expect_text_parts(const Json::Array& parts) {
  check(!parts.empty(), "\"content\" is an empty list; use a text, or parts of type text");
  for (const Json& part : parts) {
    const std::string type = text_member(part, "type");
    check(type == "text", "a part of \"content\" has \"type\": \"", type,
          "\", which is not read; only parts {\"type\": \"text\", \"text\": ...} are");
    text_member(part, "text");
  }
}

// As transformers takes it: what is no text is for the template.
void expect_content(const Json& message) {
  const Json* content = message.find("content");
  if (content && content->is(Json::Kind::kArray))
    return expect_text_parts(content->array("\"content\""));
  const Json* calls = message.find("tool_calls");
  const bool called = calls && calls->is(Json::Kind::kArray) && !calls->array("calls").empty();
  if (!called || (content && !content->is_null())) text_member(message, "content");
}

// As transformers does: templates know what is missing, but write "None" for what is null.
Json without_nulls(const Json& message) {
  Json::Object members;
  for (const auto& [name, member] : message.object("message"))
    if (!member.is_null()) members.emplace_back(name, member);
  return members;
}

Json message_in(const Json& message) {
  text_member(message, "role");
  expect_content(message);
  return without_nulls(message);
}

Json messages_in(const Json& value) {
  Json::Array messages;
  for (const Json& one : value.at("messages", "record").array("\"messages\""))
    messages.push_back(message_in(one));
  return messages;
}

Json alpaca_in(const Json& value) {
  Json::Array messages = system_of(value);
  const std::string input = text_member(value, "input", false);
  messages.push_back(
      message("user", text_member(value, "instruction") + (input.empty() ? "" : "\n" + input)));
  messages.push_back(message("assistant", text_member(value, "output")));
  return messages;
}

Json sharegpt_in(const Json& value) {
  Json::Array messages = system_of(value);
  for (const Json& one : value.at("conversations", "record").array("\"conversations\"")) {
    if (one.find("role") && !one.find("from")) {  // of others than ShareGPT's
      messages.push_back(message_in(one));
      continue;
    }
    const std::string from = text_member(one, "from");
    messages.push_back(message(role_of(from), text_member(one, "value")));
  }
  return messages;
}

Record record_in(const Json& value, RecordForm form) {
  Record record;
  if (form == RecordForm::kText) {
    record.text = text_member(value, "text");
    return record;
  }
  record.messages = form == RecordForm::kMessages ? messages_in(value)
                    : form == RecordForm::kAlpaca ? alpaca_in(value)
                                                  : sharegpt_in(value);
  check(!record.messages.array("messages").empty(), "the conversation is empty");
  if (const Json* tools = value.find("tools"); tools && !tools->is_null()) {
    tools->array("\"tools\"");
    record.tools = *tools;
  }
  return record;
}

}  // namespace

bool is_chat(RecordForm form) { return form != RecordForm::kPlain && form != RecordForm::kText; }

std::string_view name_of(RecordForm form) {
  switch (form) {
    case RecordForm::kPlain:
      return "text";
    case RecordForm::kText:
      return "JSON lines";
    case RecordForm::kMessages:
      return "chat (messages)";
    case RecordForm::kAlpaca:
      return "chat (alpaca)";
    case RecordForm::kShareGpt:
      return "chat (sharegpt)";
  }
  return "";
}

bool LineReader::next(Line& line) {
  for (;;) {
    const std::size_t end = waiting_.find('\n', at_);
    if (end == std::string::npos && !ended_) {
      waiting_.erase(0, at_);
      at_ = 0;
      check(waiting_.size() <= kLongestLine, stream_.path(), ":", lines_ + 1,
            ":1: the line is longer than ", kLongestLine >> 20, " MiB");
      const std::string_view piece = stream_.next();
      waiting_ += piece;
      ended_ = piece.empty();
      continue;
    }
    if (end == std::string::npos && at_ == waiting_.size()) return false;
    ++lines_;
    line.text = waiting_.substr(at_, end == std::string::npos ? end : end - at_);
    line.number = lines_;
    at_ = end == std::string::npos ? waiting_.size() : end + 1;
    if (lines_ == 1 && line.text.starts_with("\xef\xbb\xbf")) line.text.erase(0, 3);
    if (!is_blank(line.text)) return true;
  }
}

namespace {

// A text may be one long line, which nobody wants to read whole for its first letter.
bool begins_with_object(Files& files, const std::string& path) {
  TextStream stream(files, path);
  std::string_view piece = stream.next();
  if (piece.starts_with("\xef\xbb\xbf")) piece.remove_prefix(3);
  const std::size_t first = piece.find_first_not_of(" \t\r\n\v\f");
  return first != std::string_view::npos && piece[first] == '{';
}

}  // namespace

RecordForm record_form(Files& files, const std::string& path) {
  std::string name = path;
  for (const std::string_view packed : {".gz", ".zst"})
    if (path.ends_with(packed)) name.resize(path.size() - packed.size());
  const bool promised =
      name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
  if (!promised && !begins_with_object(files, path)) return RecordForm::kPlain;
  TextStream stream(files, path);
  LineReader lines(stream);
  Line line;
  std::string found, bad;
  for (int seen = 0; seen < kLookedAt && lines.next(line); ++seen) {
    const std::size_t first = line.text.find_first_not_of(" \t");
    check(seen > 0 || !name.ends_with(".json") || line.text[first] != '[', "text ", path,
          " is one JSON array, which is not read; make JSON lines of it: jq -c '.[]' FILE > "
          "FILE.jsonl");
    try {
      const Json value = parse_line(line, path);
      if (const auto form = form_of(value)) return *form;
      if (!promised) return RecordForm::kPlain;
      if (found.empty()) found = keys_of(value);
    } catch (const BadLine& error) {
      if (!promised && seen == 0) return RecordForm::kPlain;
      if (bad.empty()) bad = error.what();
    }
  }
  check(!found.empty() || !bad.empty(), path, ": all lines are blank");
  check(!found.empty(), bad, "\nno line of the first ", kLookedAt,
        " is JSON; each holds a whole object (jq -c . FILE > FILE.jsonl writes them so)");
  fail(path, ":1:1: no record in the first ", kLookedAt,
       " lines has a key that tells what it is: text, messages, instruction (and output) or "
       "conversations; of the first that is JSON, ",
       found);
}

Record record_of(const Line& line, RecordForm form, const std::string& path) {
  const Json value = parse_line(line, path);
  try {
    return record_in(value, form);
  } catch (const Error& error) {
    throw BadLine(bad_line(path, line, 1, error.what()));
  }
}

std::vector<std::string> said_by(const Json& message) {
  const Json* content = message.find("content");
  if (!content || content->is_null()) return {};
  if (!content->is(Json::Kind::kArray)) return {content->text("\"content\"")};
  std::vector<std::string> texts;
  for (const Json& part : content->array("\"content\""))
    texts.push_back(part.at("text", "part").text("\"text\""));
  return texts;
}

std::string without_controls(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::string bad_line(const std::string& path, const Line& line, std::int64_t column,
                     std::string_view what) {
  constexpr std::size_t kShown = 60;
  std::size_t end = std::min(kShown, line.text.size());
  while (end > 0 && end < line.text.size() &&
         (static_cast<unsigned char>(line.text[end]) & 0xC0U) == 0x80U)
    --end;
  return join(path, ":", line.number, ":", column, ": ", without_controls(std::string(what)),
              "; the line begins: ", without_controls(line.text.substr(0, end)),
              end < line.text.size() ? "..." : "");
}

}  // namespace trireme
