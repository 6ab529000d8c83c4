#include "recipes/train/run_samples.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "framework/base/error.h"
#include "framework/data/chat_prompt.h"
#include "recipes/huggingface/generation_config.h"
#include "recipes/report/printable.h"

namespace trireme {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;
constexpr std::size_t kQuestions = 3;          // of held-out conversations
constexpr std::int64_t kLookedAt = 1'000'000;  // tokens, for questions

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

std::vector<std::string> lines_of(Files& files, const std::string& path) {
  if (files.status(path).kind != FileKind::kFile)
    throw UsageError(join("train.sample_prompts = ", path, ": there is no such file"));
  std::istringstream text(read_whole(files, path, kMostBytes));
  text.exceptions(std::ios_base::badbit);  // no memory is no end of text
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!is_blank(line)) lines.push_back(line);
  }
  if (lines.empty() || lines.size() > kMostPrompts)
    throw UsageError(join("train.sample_prompts = ", path, " has ", lines.size(),
                          " lines with text; use 1 to ", kMostPrompts, ", a prompt each"));
  return lines;
}

std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, const std::string& text, bool chat) {
  if (chat) return chat_prompt(tokenizer, text);
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids, {.ends = true});
  std::vector<std::int32_t> plain;
  tokenizer.encode(text, plain);
  // What the tokenizer puts before a text belongs to it, what it puts behind would end it.
  const auto begin = std::search(ids.begin(), ids.end(), plain.begin(), plain.end());
  ids.resize(static_cast<std::size_t>(begin - ids.begin()) + plain.size());
  return ids;
}

std::vector<SamplePrompt> given_prompts(Files& files, const Recipe& recipe, bool chat,
                                        const Tokenizer& tokenizer) {
  std::vector<SamplePrompt> prompts;
  for (const std::string& line : lines_of(files, recipe.train.sample_prompts)) {
    SamplePrompt prompt{.text = printable(line), .ids = ids_of(tokenizer, line, chat)};
    if (std::ssize(prompt.ids) > recipe.batch.sequence)
      throw UsageError(join("train.sample_prompts = ", recipe.train.sample_prompts, ": \"",
                            prompt.text.substr(0, 40), "\" has ", prompt.ids.size(),
                            " tokens, but batch.sequence = ", recipe.batch.sequence));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// What stands before the first answer of a conversation; each once.
std::vector<SamplePrompt> questions(const TokenFile& file, std::int64_t begin, std::int64_t end,
                                    std::int64_t longest, const Tokenizer& tokenizer) {
  std::vector<SamplePrompt> found;
  const std::int64_t vocabulary = file.header().vocabulary;
  std::int64_t first = -1;  // of a conversation that has no answer yet
  end = std::min(end, begin + kLookedAt);
  for (std::int64_t at = begin; at < end && found.size() < kQuestions; ++at) {
    if (file.begins_document(at)) first = at;
    if (!file.trained(at) || first < 0) continue;
    const std::int64_t count = at - std::exchange(first, -1);
    if (count == 0 || count > longest) continue;
    SamplePrompt prompt{.text = {},
                        .ids = std::vector<std::int32_t>(static_cast<std::size_t>(count))};
    file.copy(at - count, count, vocabulary, prompt.ids.data());
    prompt.text = trimmed(printable(tokenizer.decode(prompt.ids, true)));
    const auto same = [&](const SamplePrompt& other) { return other.ids == prompt.ids; };
    if (std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(prompt));
  }
  return found;
}

}  // namespace

SamplePlan sample_plan(Files& files, const Recipe& recipe, const TokenDataset& data,
                       const Tokenizer& tokenizer) {
  SamplePlan plan;
  if (recipe.train.sample_every == 0) return plan;
  const TokenHeader& header = data.tokens().header();
  const bool chat = header.about.starts_with("chat");
  if (!recipe.train.sample_prompts.empty()) {
    plan.prompts = given_prompts(files, recipe, chat, tokenizer);
  } else if (chat && header.masked && header.bounded) {
    const SampleSet& set = data.validation() ? *data.validation() : data.train();
    plan.prompts =
        questions(data.tokens(), set.begin(), set.end(), recipe.batch.sequence, tokenizer);
  }
  if (plan.prompts.empty()) return plan;
  if (!recipe.model.from.empty()) plan.ends = end_ids_of(files, recipe.model.from);
  const std::vector<std::int32_t> learned = learned_ends(tokenizer);
  plan.ends.insert(plan.ends.end(), learned.begin(), learned.end());
  return plan;
}

std::string added_text(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt,
                       const std::vector<std::int32_t>& text, bool skip_special) {
  const std::size_t before = tokenizer.decode(prompt, skip_special).size();
  prompt.insert(prompt.end(), text.begin(), text.end());
  const std::string all = tokenizer.decode(prompt, skip_special);
  return all.substr(std::min(before, all.size()));
}

}  // namespace trireme
