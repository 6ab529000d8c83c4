// Questions with known answers, as lines of JSON.
//
//   lambada: {"text": "... the last word"}; the model must say the word, a run of what is no blank,
//            and the blank before it.
//   choice:  {"context": "...", "choices": ["...", ...], "answer": 0}; context and choice are
//   joined
//            as they are, so a choice begins with its blank if there is one.
//
// Other members are passed over, blank lines too. The file may be packed by gzip or zstd.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/data/tokenizer.h"

namespace trireme {

enum class Task : std::uint8_t { kLambada, kChoice };

struct TaskItem {
  std::int64_t line = 0;  // of the file, from 1
  std::string context;
  std::vector<std::string> choices;  // continuations; of lambada one
  std::size_t answer = 0;
};

// Error "FILE:LINE: sentence" for the first bad line, and for a file without any item.
std::vector<TaskItem> read_items(Files& files, const std::string& path, Task task);

// A text of which the last tokens are scored: those from `first` on.
struct ScoredText {
  std::vector<std::int32_t> ids;
  std::size_t first = 1;
};
// The ids of context and continuation as one text; scored are those behind what the ids of the
// context alone begin alike. `start`: ids before the text. Error (without the place) if nothing
// stands before the first scored token, or if there is none.
ScoredText scored_text(Encoder& encoder, const std::vector<std::int32_t>& start,
                       const std::string& context, const std::string& continuation);

}  // namespace trireme
