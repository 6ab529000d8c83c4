// One text: said as it comes, or told as JSON at the end.
#include <algorithm>
#include <ostream>

#include "framework/base/error.h"
#include "framework/data/chat_prompt.h"
#include "recipes/chat/answer_run.h"
#include "recipes/commands/generate.h"
#include "recipes/commands/text_engine.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"

namespace trireme {

namespace {

constexpr std::int64_t kTemplateTokens = 256;  // around a message, at a guess

class TextMaker {
 public:
  TextMaker(Process& process, const GenerateWishes& wishes) : process_(process), wishes_(wishes) {}

  // Before any rank starts.
  ModelWork prepare(const ModelSource& source) {
    model_.emplace(served_model(process_.files, source, folder_name(wishes_.folder)));
    place_ = source.place;
    step_ = source.step;
    ids_ = prompt_of(source);
    skip_special_ = wishes_.chat || source.from_folder;
    ends_ = wishes_.chat ? source.answer_ends : source.ends;
    mlp_ = source.recipe.model.family == "mlp";
    if (mlp_ && !wishes_.settings.stops.empty())
      throw UsageError("--stop: not for model.family = mlp");
    if (mlp_)
      check(std::ssize(ids_) >= source.recipe.batch.sequence, "--prompt has ", ids_.size(),
            " tokens; model.family = mlp sees ", source.recipe.batch.sequence,
            " at once and needs that many");
    return [this](const OpenedModel& opened) { work(opened); };
  }

  // Of the process that has rank 0; others say nothing.
  int finish() {
    if (!leads_) return 0;
    if (wishes_.json) tell_json();
    if (!wishes_.json && process_.terminal.live() && end_.ids.size() > 1)
      process_.err << join(end_.ids.size(), " tokens, ",
                           fixed(static_cast<double>(end_.ids.size() - 1) / end_.reply_seconds, 1),
                           " tokens/s after the first, seed ", wishes_.settings.sampling.seed,
                           "\n");
    if (end_.reason == FinishReason::kError) fail("generate: ", end_.error);
    return end_.reason == FinishReason::kCancelled ? kInterrupted : 0;
  }

 private:
  std::vector<std::int32_t> prompt_of(const ModelSource& source) const {
    if (wishes_.chat) return chat_prompt(*source.tokenizer, wishes_.prompt);
    const auto encoder = source.tokenizer->encoder();
    auto ids = text_tokens(wishes_.prompt, true, *model_, *encoder);
    check(!ids.empty(), "--prompt has no tokens");
    return ids;
  }

  void work(const OpenedModel& opened) {
    if (mlp_) return by_window(opened);
    const std::int64_t all = std::ssize(ids_) + wishes_.settings.tokens;
    with_text_engine(opened, *model_,
                     {.tokens = std::min(all, model_->context), .kv_bytes = wishes_.kv_bytes},
                     [&](const TextEngine& text) { by_engine(text); });
  }

  void by_engine(const TextEngine& text) {
    leads_ = true;
    const std::int64_t context = text.model.context;
    const std::int64_t wanted = wishes_.settings.tokens;
    const std::int64_t first = model_->start && ids_[0] == *model_->start ? 1 : 0;
    AnswerJob job{
        .prompt = ids_, .settings = wishes_.settings, .ends = ends_, .skip_special = skip_special_};
    if (std::ssize(job.prompt) >= context) job.prompt = last_tokens(ids_, context, wanted, first);
    job.slide = [&, first](std::span<const std::int32_t> said) {
      std::vector<std::int32_t> whole = ids_;
      whole.insert(whole.end(), said.begin(), said.end());
      return last_tokens(whole, context, wanted - std::ssize(said), first);
    };
    job.say = [&](const std::string& piece) { say(piece); };
    job.interrupted = [&] { return process_.signals.load() > 0; };
    if (!wishes_.chat) say(wishes_.prompt);
    end_ = answer(text.engine, text.model, job);
    say("\n");
  }

  void by_window(const OpenedModel& opened) {
    if (opened.mesh.coord().data != 0 && opened.source.recipe.zero.stage < 3) return;
    const bool first = opened.mesh.world().rank() == 0;
    OutputText text(*opened.source.tokenizer, ids_, skip_special_, {}, false);
    if (first) say(wishes_.prompt);
    const auto ids = generate_by_window(opened, ids_, wishes_.settings.tokens,
                                        wishes_.settings.sampling, [&](std::int32_t id) {
                                          if (!first) return;
                                          const std::string piece = text.push(id);
                                          end_.text += piece;
                                          say(piece);
                                        });
    if (!first) return;
    leads_ = true;
    end_.ids = ids;
    const std::string rest = text.finish();
    end_.text += rest;
    say(rest + "\n");
  }

  void say(const std::string& text) {
    if (!wishes_.json && !text.empty()) process_.out << printable(text) << std::flush;
  }

  void tell_json() const {
    std::string tokens;
    for (const std::int32_t id : end_.ids) tokens += join(tokens.empty() ? "" : ", ", id);
    process_.out << join("{\"checkpoint\": ", json_string(place_), ", \"step\": ", step_,
                         ", \"prompt\": ", json_string(printable(wishes_.prompt)),
                         ", \"text\": ", json_string(printable(end_.text)), ", \"tokens\": [",
                         tokens,
                         "], \"ended\": ", end_.reason == FinishReason::kStop ? "true" : "false",
                         ", \"seed\": ", wishes_.settings.sampling.seed, "}\n");
  }

  Process& process_;
  const GenerateWishes& wishes_;
  std::optional<ServedModel> model_;
  std::string place_;
  std::int64_t step_ = 0;
  std::vector<std::int32_t> ids_, ends_;
  bool skip_special_ = true, mlp_ = false, leads_ = false;
  AnswerEnd end_;
};

}  // namespace

int generate_text(Process& process, const CommandLine& line, const GenerateWishes& wishes) {
  GenerateWishes own = wishes;
  TextMaker maker(process, own);
  // A token has a byte at least.
  const std::int64_t most = std::ssize(wishes.prompt) + kTemplateTokens + wishes.settings.tokens;
  open_model(process, line, wishes.folder,
             [&](const ModelSource& source) {
               use_defaults(source.drawing, line, own.settings.sampling);
               return maker.prepare(source);
             },
             {.bytes = wishes.kv_bytes, .tokens = most, .whole = true});
  return maker.finish();
}

}  // namespace trireme
