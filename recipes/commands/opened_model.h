// One way to a model that is looked at, not trained: the newest good checkpoint of a run, one
// checkpoint, or a Hugging Face model folder (config.json, safetensors, tokenizer.json).
//
// On one rank, whatever layout saved it; flags of a recipe on the command line give another
// (--parallel.tensor=2, --zero.stage=3). Holds weights in the compute type and nothing else.
// Damaged checkpoints are told on standard error and passed over.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "recipes/cli/recipe.h"
#include "recipes/commands/inference_room.h"
#include "recipes/commands/process.h"
#include "recipes/huggingface/generation_config.h"
#include "recipes/models/engine.h"
#include "recipes/serve/sampling.h"

namespace trireme {

// What is known before any rank starts.
struct ModelSource {
  std::string place;      // of the checkpoint, or the model folder
  std::int64_t step = 0;  // that saved it; 0 for a model folder
  Recipe recipe;          // resolved for the machine
  std::unique_ptr<Tokenizer> tokenizer;
  // The model is a Hugging Face folder, or began in one (model.from).
  bool from_folder = false;
  std::optional<std::int32_t> start;  // what the tokenizer puts before a text, if from_folder
  // End a text, as the folder says, and for a run that began in one as its export will say; empty
  // if it says nothing.
  std::vector<std::int32_t> ends;
  // How tokens are drawn where neither a request nor the command line says so, if from_folder.
  DrawingDefaults drawing;
  // End an answer to a chat prompt: these, the tokenizer's end of text, and that of the template.
  std::vector<std::int32_t> answer_ends;
  // To stream the weights from disk takes a copy: they lie nowhere as they are wanted.
  bool copied = false;
};

// One rank's; all ranks do the same work.
struct OpenedModel {
  const ModelSource& source;
  Engine& engine;  // forward only
  Mesh& mesh;
  Backend& backend;
  std::int64_t cache_bytes = 0;  // that memory is left for, of keys and values
};
using ModelWork = std::function<void(const OpenedModel&)>;

// Opens the model in `folder` and runs what `prepare` returns on every rank. `prepare` runs first,
// on the calling thread, once for each checkpoint that looks good. Flags of `line` are recipe keys;
// data.text and data.tokens are what they say, never those of the run. Throws UsageError and Error.
//
// With offload.parameters weights are streamed, at zero.stage = 3 unless a flag says otherwise;
// `cache` is what memory is left for then. How that went is told on standard error.
void open_model(Process& process, const CommandLine& line, const std::string& folder,
                const std::function<ModelWork(const ModelSource&)>& prepare,
                const CacheWish& cache = {});

// Draws as the folder wants it, but for settings that are options of `line`.
void use_defaults(const DrawingDefaults& folder, const CommandLine& line, Sampling& s);

// Has a signal asked any rank to end? The same on all of them, which all ask.
bool asked_to_end(const Process& process, const OpenedModel& model);

// Whether this process has rank 0: it is alone, or the launcher's first.
bool leads(Process& process);

// The id that the tokenizer puts before a text, if it puts one.
std::optional<std::int32_t> start_id_of(const Tokenizer& tokenizer);

}  // namespace trireme
