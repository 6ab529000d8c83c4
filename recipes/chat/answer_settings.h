// How an answer is drawn, by the names that users give: --temperature 0.7 on the command line and
// `/set temperature 0.7` in a chat are the same words with the same limits. Names are those of the
// completions API, but for `tokens`, its max_tokens. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipes/serve/sampling.h"

namespace trireme {

struct AnswerSettings {
  Sampling sampling{.temperature = 0.8, .top_k = 40, .seed = 1};
  std::int64_t tokens = 0;              // at most so many; 0: as many as the context has room for
  std::vector<std::string> stops = {};  // end the answer, and are cut off it
};

// temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed,
// tokens, stop.
const std::vector<std::string>& setting_names();

// Sets one of them from a text. Empty, or what is wrong: "top_p = 2: expected a number above 0, up
// to 1"; the settings are unchanged then. An unknown name is told with the nearest. `stop` adds a
// string; an empty one forgets all.
std::string set_answer(AnswerSettings& settings, const std::string& name, const std::string& value);

// As set_answer() would take it; of several stops, quoted and with commas between.
std::string setting_text(const AnswerSettings& settings, const std::string& name);

}  // namespace trireme
