// Lines of JSON that are documents: texts, or conversations in the three shapes that people have.
//
//   {"text": ...}
//   {"messages": [{"role": ..., "content": ...}, ...]}, and "tools" for the template; content may
//     be a list of parts {"type": "text", "text": ...}, and null or left out beside "tool_calls"
//   {"instruction": ..., "input": ..., "output": ..., "system": ...}     (alpaca)
//   {"conversations": [{"from": ..., "value": ...}, ...], "system": ...}  (sharegpt)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/data/text_stream.h"

namespace trireme {

enum class RecordForm : std::uint8_t {
  kPlain,  // no lines of JSON: one text
  kText,
  kMessages,
  kAlpaca,
  kShareGpt,
};
bool is_chat(RecordForm form);
// "text", "JSON lines", "chat (messages)", ...
std::string_view name_of(RecordForm form);

// "FILE:LINE:COLUMN: what; the line begins {...". Lines and columns count from 1.
class BadLine : public Error {
 public:
  using Error::Error;
};

struct Line {
  std::string text;  // without its end
  std::int64_t number = 0;
};

// The lines of a text that are not blank.
class LineReader {
 public:
  explicit LineReader(TextStream& stream) : stream_(stream) {}
  // False at the end. Error for a line above 64 MiB.
  bool next(Line& line);

 private:
  TextStream& stream_;
  std::string waiting_;
  std::size_t at_ = 0;
  std::int64_t lines_ = 0;
  bool ended_ = false;
};

// What the first lines are. JSON lines if the first is an object with keys that are known, or if
// the file is called .jsonl, .ndjson or .json (or that and .gz or .zst): then the first line with
// keys that are known decides; Error if the first 100 have none, and for a .json file that is one
// array.
RecordForm record_form(Files& files, const std::string& path);

// One document. `messages` of a conversation is an array of objects that have a role, a text, and a
// content as above, as chat templates take it; what else they have, nulls aside, is for the
// template.
struct Record {
  std::string text;
  Json messages, tools;
};
// What a message says: its content, or the texts of its parts.
std::vector<std::string> said_by(const Json& message);

// BadLine for what is no JSON, or no record of that form.
Record record_of(const Line& line, RecordForm form, const std::string& path);

// "FILE:LINE:COLUMN: what; the line begins ...", without control characters.
std::string bad_line(const std::string& path, const Line& line, std::int64_t column,
                     std::string_view what);

// What strangers wrote, for sentences: control characters become blanks.
std::string without_controls(std::string text);

}  // namespace trireme
