#include "recipes/commands/text_engine.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "framework/base/error.h"
#include "framework/data/chat_prompt.h"
#include "recipes/huggingface/folder.h"
#include "recipes/report/numbers.h"

namespace trireme {

std::int64_t trained_context(Files& files, const ModelSource& source) {
  const Recipe& r = source.recipe;
  if (!r.model.from.empty() && source.step == 0) return hf_model_of(files, r.model.from).context;
  return r.batch.sequence;
}

void read_chat_template(const ModelSource& source, ServedModel& model) {
  if (!has_chat_template(model.tokenizer)) return;
  try {
    model.chat = std::make_shared<ConversationEncoder>(model.tokenizer, LossOn::kAll);
  } catch (const Error& error) {  // for those who ask for a conversation
    model.chat_problem = join(source.recipe.data.tokenizer, ": ", error.what());
  }
}

ServedModel served_model(Files& files, const ModelSource& source, const std::string& name) {
  const Tokenizer& tokenizer = *source.tokenizer;
  ServedModel model{.name = name,
                    .tokenizer = tokenizer,
                    .vocab = std::min(source.recipe.model.vocab, tokenizer.vocabulary()),
                    .context = trained_context(files, source),
                    .start = source.start,
                    .ends = source.ends,
                    .answer_ends = source.answer_ends};
  read_chat_template(source, model);
  return model;
}

std::string folder_name(const std::string& path) {
  std::error_code gone;  // the folder that paths begin in
  const auto whole = std::filesystem::absolute(path, gone).lexically_normal();
  const std::string name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return gone || name.empty() ? path : name;
}

void with_text_engine(const OpenedModel& opened, const ServedModel& model,
                      const TextEngineWishes& wishes,
                      const std::function<void(const TextEngine&)>& work) {
  const RankParts rank{opened.engine, opened.mesh, opened.backend};
  const std::int64_t wanted =
      wishes.tokens > 0 ? pages_for(wishes.tokens) : wishes.sequences * pages_for(model.context);
  const std::int64_t pages = std::min(wanted, pages_within(rank, wishes.kv_bytes));
  check(pages >= 1, "the cache of keys and values has ", bytes_text(wishes.kv_bytes),
        ": not even one page fits");
  if (opened.mesh.world().rank() != 0) return follow_passes(rank, pages);
  ServedModel fitting = model;
  fitting.context = std::min(model.context, pages * kPageTokens);
  const auto runner = lead_passes(rank, pages, fitting.context);
  ServeEngine engine(*runner, model.tokenizer,
                     {.budget = std::max<std::int64_t>(512, wishes.sequences),
                      .sequences = wishes.sequences,
                      .queue = 1 << 20});
  work({engine, *runner, fitting});
}

}  // namespace trireme
