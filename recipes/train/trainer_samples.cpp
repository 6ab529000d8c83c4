// What the model says while it is trained. Every rank of data coordinate 0 takes part, rank 0 among
// them; at ZeRO stage 3 all ranks do, for all hold weights.
#include <algorithm>

#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/train/run_leftovers.h"
#include "recipes/train/sampler.h"
#include "recipes/train/trainer.h"

namespace trireme {

namespace {

constexpr std::int64_t kPromptTokens = 32;

}  // namespace

bool Trainer::samples_here() const { return mesh_.coord().data == 0 || recipe_.zero.stage == 3; }

std::int64_t Trainer::sampled_ids() const {
  return std::min(recipe_.model.vocab, inputs_.tokenizer.vocabulary());
}

// The beginning of the held-out text (of the training text without one): a classifier needs a whole
// window of it.
std::vector<std::int32_t> Trainer::prompt() const {
  const SampleSet* held_out = inputs_.data.validation();
  std::vector<std::int32_t> ids, labels;
  (held_out ? *held_out : inputs_.data.train()).fill(0, 1, ids, labels);
  if (recipe_.model.family != "mlp") ids.resize(std::min<std::size_t>(ids.size(), kPromptTokens));
  return ids;
}

std::string Trainer::sample_text(std::int64_t request) {
  std::vector<std::int32_t> ids = prompt();
  const std::vector<std::int32_t> text =
      sample(engine_, mesh_, *backend_, ids, recipe_.train.sample_tokens, recipe_.batch.sequence,
             sampled_ids(),
             {.temperature = 0.7,
              .top_k = 40,
              .seed = static_cast<std::uint64_t>(recipe_.train.seed),
              .request = request});
  if (recipe_.model.family == "mlp")
    ids.assign(ids.end() - std::min<std::ptrdiff_t>(std::ssize(ids), kPromptTokens), ids.end());
  ids.insert(ids.end(), text.begin(), text.end());
  return printable(inputs_.tokenizer.decode(ids));
}

std::vector<Answer> Trainer::answers() {
  std::vector<Answer> answers;
  for (const SamplePrompt& prompt : inputs_.samples.prompts) {
    const std::vector<std::int32_t> text =
        sample(engine_, mesh_, *backend_, prompt.ids, recipe_.train.sample_tokens,
               recipe_.batch.sequence, sampled_ids(), {.ends = inputs_.samples.ends});
    answers.push_back({.prompt = prompt.text,
                       .text = printable(added_text(inputs_.tokenizer, prompt.ids, text, true)),
                       .ended = std::ssize(text) < recipe_.train.sample_tokens});
  }
  return answers;
}

// Without prompts the text itself, as the answer to nothing.
std::vector<Answer> Trainer::samples_of(std::int64_t step) {
  if (!samples_here()) return {};
  const double from = now();
  std::vector<Answer> said = inputs_.samples.prompts.empty()
                                 ? std::vector<Answer>{{.prompt = {}, .text = sample_text(step)}}
                                 : answers();
  time_["samples"] += now() - from;
  return said;
}

bool Trainer::tunes() const { return !recipe_.model.from.empty(); }

// What the model folder can do: of a run that begins.
void Trainer::note_tuning_start() {
  const double from = now();
  if (evaluates(recipe_.train.steps - 1)) before_.validation_loss = validation_loss();
  time_["evaluation"] += now() - from;
  if (recipe_.train.sample_every > 0 && !inputs_.samples.prompts.empty())
    before_.answers = samples_of(0);
  if (!speaks() || (!before_.validation_loss && before_.answers.empty())) return;
  write_whole_atomically(inputs_.files, path_join(recipe_.train.folder, kBeforeName),
                         tuning_start_json(before_));
  if (before_.validation_loss)
    inputs_.voice->say("before the first step: validation loss " +
                       fixed(*before_.validation_loss, 4));
  inputs_.voice->samples(0, before_.answers);
}

// Of a run that goes on; an older one has none.
void Trainer::recall_tuning_start() {
  const std::string path = path_join(recipe_.train.folder, kBeforeName);
  if (speaks() && inputs_.files.exists(path))
    before_ = tuning_start_from_json(read_whole(inputs_.files, path), path);
}

}  // namespace trireme
