// The parts of `trireme generate`: its options as values, one text, many lines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipes/chat/answer_settings.h"
#include "recipes/commands/opened_model.h"

namespace trireme {

struct GenerateWishes {
  std::string folder;
  AnswerSettings settings{.tokens = 200};
  bool chat = false;  // the prompt is a user's message, and an answer is wanted
  bool json = false;
  std::string prompt = "\n";
  // Many: JSON lines to JSON lines, "-" for standard input and output.
  std::string input, output = "-";
  bool skip_bad = false, resume = false, overwrite = false;
  std::int64_t sequences = 32;
  std::int64_t kv_bytes = std::int64_t{1} << 30;
};

// Reads the prompt, where it is in a file or on standard input. Throws UsageError and Error.
GenerateWishes generate_wishes(Process& process, const CommandLine& line);

// Return exit codes.
int generate_text(Process& process, const CommandLine& line, const GenerateWishes& wishes);
int generate_lines(Process& process, const CommandLine& line, const GenerateWishes& wishes);

// `count` tokens after `prompt` by model.family = mlp, which sees the last batch.sequence tokens
// and keeps nothing between them: not for the engine. Draws are those of the engine. All ranks of a
// data coordinate call it, at ZeRO stage 3 all ranks; `say` gets each token there.
std::vector<std::int32_t> generate_by_window(const OpenedModel& model,
                                             std::vector<std::int32_t> prompt, std::int64_t count,
                                             const Sampling& sampling,
                                             const std::function<void(std::int32_t)>& say);

}  // namespace trireme
