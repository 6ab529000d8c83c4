// What a run asks its model while it trains, and what the model said: prompts of the user's, the
// questions that conversations hold out, or the beginning of the held-out text.
//
// Asking changes nothing of the training: no state, no order of data, no random number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/data/samples.h"
#include "framework/data/tokenizer.h"
#include "recipes/cli/recipe.h"
#include "recipes/report/answer.h"

namespace trireme {

struct SamplePrompt {
  std::string text;  // as it was given, or its tokens decoded
  std::vector<std::int32_t> ids;
};

// Of a process; all ranks share it.
struct SamplePlan {
  // Answered by the likeliest tokens. Empty: the held-out text goes on, by chance.
  std::vector<SamplePrompt> prompts;
  std::vector<std::int32_t> ends;  // of answers
};

// For train.sample_prompts, else for what `data` is. Prompts are users' messages if `data` are
// conversations. Throws UsageError for a file without prompts, with too many (kMostPrompts), or
// with one that is longer than batch.sequence, and Error if the chat template refuses one.
inline constexpr int kMostPrompts = 64;
SamplePlan sample_plan(Files& files, const Recipe& recipe, const TokenDataset& data,
                       const Tokenizer& tokenizer);

// What `text` adds to the text of `prompt`: at the beginning of a text a blank may be lost.
std::string added_text(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt,
                       const std::vector<std::int32_t>& text, bool skip_special);

}  // namespace trireme
