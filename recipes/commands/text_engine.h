// The serving engine over an opened model, for commands that answer where they were called
// (generate, chat). Prompts, ends and draws are the server's, so equal requests have equal answers.
#pragma once

#include <functional>
#include <string>

#include "recipes/api/api_request.h"
#include "recipes/commands/opened_model.h"

namespace trireme {

// Most tokens of a text: what a model folder says, or a run was trained with.
std::int64_t trained_context(Files& files, const ModelSource& source);

// Sets `model.chat`, or `model.chat_problem`, of the tokenizer's chat template.
void read_chat_template(const ModelSource& source, ServedModel& model);

// What prompts are read with; `source` must outlive it.
ServedModel served_model(Files& files, const ModelSource& source, const std::string& name);

// The last part of a path, of "." and ".." too: what a model is called.
std::string folder_name(const std::string& path);

struct TextEngineWishes {
  std::int64_t sequences = 1;                     // at a time
  std::int64_t tokens = 0;                        // of the cache; 0: `sequences` whole contexts
  std::int64_t kv_bytes = std::int64_t{1} << 30;  // of the cache, at most, on each rank
};

struct TextEngine {
  ServeEngine& engine;
  ModelRunner& runner;
  const ServedModel& model;  // its context is what the cache has room for, at most
};

// Runs `work` on world rank 0, while the others follow its passes; all ranks call it. `model` is
// rank 0's.
void with_text_engine(const OpenedModel& opened, const ServedModel& model,
                      const TextEngineWishes& wishes,
                      const std::function<void(const TextEngine&)>& work);

}  // namespace trireme
