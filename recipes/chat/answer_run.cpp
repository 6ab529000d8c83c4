#include "recipes/chat/answer_run.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace trireme {

namespace {

constexpr std::uint64_t kNextPart = 0x9E3779B97F4A7C15;  // between the seeds of an answer's parts

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Run {
 public:
  Run(ServeEngine& engine, const ServedModel& model, const AnswerJob& job)
      : engine_(engine),
        context_(model.context),
        job_(job),
        text_(model.tokenizer, job.prompt, job.skip_special, job.settings.stops, false),
        begun_(now()) {}

  AnswerEnd run() {
    std::vector<std::int32_t> prompt = job_.prompt;
    for (std::uint64_t part = 0;; ++part) {
      const std::int64_t room = context_ - std::ssize(prompt);
      if (room > 0 && !go_on(prompt, std::min(room, left()), part)) break;
      if (left() == 0) break;
      prompt = job_.slide ? job_.slide(end_.ids) : std::vector<std::int32_t>();
      if (prompt.empty() || std::ssize(prompt) >= context_) {
        end_.context_full = true;
        break;
      }
    }
    say(text_.finish());
    end_.stop = text_.stop();
    end_.reply_seconds = last_ - first_;
    end_.first_seconds = end_.ids.empty() ? now() - begun_ : first_ - begun_;
    return std::move(end_);
  }

 private:
  std::int64_t left() const {
    const std::int64_t wanted = job_.settings.tokens;
    return wanted == 0 ? std::numeric_limits<std::int32_t>::max() : wanted - std::ssize(end_.ids);
  }

  // One request; true if it ended for want of room or of tokens.
  bool go_on(const std::vector<std::int32_t>& prompt, std::int64_t count, std::uint64_t part) {
    GenerationRequest request{.prompt = prompt,
                              .sampling = job_.settings.sampling,
                              .max_tokens = count,
                              .ends = job_.ends};
    request.sampling.seed += part * kNextPart;
    bool ended = false;
    const std::uint64_t number = engine_.submit(request, [&](GenerationEvent&& event) {
      for (const ChosenToken& token : event.tokens) take(token.id);
      ended = event.last;
      if (!ended) return;
      end_.reason = *event.finish;
      end_.used = event.prompt_tokens + event.output_tokens;
      end_.error = event.error;
      if (part > 0) return;
      end_.prompt_tokens = event.prompt_tokens;
      end_.cached_tokens = event.cached_tokens;
    });
    bool cancelled = false;
    while (!ended) {
      const bool stops = text_.stopped() || (job_.interrupted && job_.interrupted());
      if (stops && !cancelled) engine_.cancel(number);
      cancelled = cancelled || stops;
      engine_.step();
    }
    if (text_.stopped()) end_.reason = FinishReason::kStop;
    return end_.reason == FinishReason::kLength;
  }

  void take(std::int32_t id) {
    if (text_.stopped()) return;
    last_ = now();
    if (end_.ids.empty()) first_ = last_;
    end_.ids.push_back(id);
    say(text_.push(id));
  }

  void say(const std::string& text) {
    end_.text += text;
    if (job_.say && !text.empty()) job_.say(text);
  }

  ServeEngine& engine_;
  std::int64_t context_;
  const AnswerJob& job_;
  AnswerEnd end_;
  OutputText text_;
  double begun_, first_ = 0, last_ = 0;
};

}  // namespace

AnswerEnd answer(ServeEngine& engine, const ServedModel& model, const AnswerJob& job) {
  return Run(engine, model, job).run();
}

std::vector<std::int32_t> last_tokens(std::span<const std::int32_t> ids, std::int64_t context,
                                      std::int64_t more, std::int64_t kept_first) {
  const std::int64_t room = std::max<std::int64_t>(1, std::min(more, context / 2));
  const std::int64_t kept = std::max<std::int64_t>(1, context - room - kept_first);
  if (std::ssize(ids) <= kept + kept_first) return {ids.begin(), ids.end()};
  std::vector<std::int32_t> result(ids.begin(), ids.begin() + kept_first);
  result.insert(result.end(), ids.end() - kept, ids.end());
  return result;
}

}  // namespace trireme
