// What `trireme evaluate` measures, of one model; the parts of the command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipes/commands/opened_model.h"
#include "recipes/commands/task_items.h"

namespace trireme {

struct TextOptions {
  std::int64_t stride = 0;  // 0: that of disjoint windows
  bool loss_on = false;     // data.loss_on was given on the command line
};
struct TextResult {
  std::string about;           // of documents
  std::int64_t documents = 0;  // 0: a text
  std::int64_t window = 0, stride = 0, windows = 0;
  std::int64_t tokens = 0, scored = 0;
  std::optional<std::int64_t> words;  // of texts, not of conversations and token files
  double nats = 0;                    // sum over scored tokens
  double seconds = 0;
};
// Makes the work of world rank 0, which the others follow (follow_scores): it measures data.text or
// data.tokens of the source's recipe and fills `result`, which must outlive it.
ModelWork text_work(Process& process, const ModelSource& source, const TextOptions& options,
                    TextResult& result);

struct TaskResult {
  std::int64_t items = 0, scored = 0;
  std::vector<std::string> too_long;  // sentences, one an item that was not scored
  std::int64_t right = 0;             // lambada: greedily; choice: by the sum
  std::int64_t right_by_length = 0;   // choice: by the mean over bytes
  double nats = 0;                    // of the right answers
  double seconds = 0;
};
// The same of the items of `file`.
ModelWork task_work(Process& process, const ModelSource& source, Task task, const std::string& file,
                    TaskResult& result);

}  // namespace trireme
