#include "recipes/serve/serve_engine.h"

#include <algorithm>
#include <numeric>

#include "framework/backend/infer_kernels.h"

namespace trireme {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    default:
      return "error";
  }
}

// One answer that is being made.
struct ServeEngine::Choice {
  Request& request;
  int index;
  ServedSequence* sequence;
  OutputText text;
  GenerationEvent pending;  // of this pass
};

struct ServeEngine::Request {
  std::uint64_t number;
  GenerationRequest wanted;
  EventSink sink;
  std::vector<std::unique_ptr<Choice>> choices;
  std::size_t left;  // choices without an end
  bool waits = true;
};

struct ServeEngine::Command {
  std::uint64_t number;
  std::unique_ptr<Request> start;  // null: cancel
};

ServeEngine::ServeEngine(ModelRunner& model, const Tokenizer& tokenizer,
                         const ServeOptions& options)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      vocab_(std::min(model.vocab(), tokenizer.vocabulary())),
      scheduler_({.pages = model.pages(),
                  .budget = options.budget,
                  .sequences = options.sequences,
                  .hash_key = options.hash_key}) {
  update_stats();
}

ServeEngine::~ServeEngine() = default;

void ServeEngine::check_request(const GenerationRequest& r) const {
  check_sampling(r.sampling, vocab_);
  check(!r.prompt.empty(), "the prompt has no tokens");
  for (const std::int32_t id : r.prompt)
    check(id >= 0 && id < vocab_, "prompt: token ", id, " is none of the ", vocab_,
          " of the vocabulary");
  const std::int64_t prompt = std::ssize(r.prompt);
  check(r.max_tokens >= 0, "max_tokens = ", r.max_tokens, ": expected 0 or more");
  check(r.min_tokens >= 0 && r.min_tokens <= r.max_tokens, "min_tokens = ", r.min_tokens,
        ": expected 0 to max_tokens, ", r.max_tokens);
  check(prompt <= model_.context() && r.max_tokens <= model_.context() - prompt,
        "This model's maximum context length is ", model_.context(),
        " tokens. However, you requested ", prompt, " of a prompt and ", r.max_tokens,
        " of an answer");
  const std::int64_t room = model_.pages() * kPageTokens;
  check(prompt + r.max_tokens <= room, "the request may have ", prompt + r.max_tokens,
        " tokens, but the key/value cache has room for ", room);
  check(r.choices >= 1 && r.choices <= 128, "n = ", r.choices, ": expected 1 to 128");
  for (const std::string& stop : r.stops)
    check(!stop.empty(), "stop: an empty string stops nothing");
}

std::uint64_t ServeEngine::submit(GenerationRequest wanted, EventSink sink) {
  using Kind = RequestRefused::Kind;
  try {
    check_request(wanted);
  } catch (const Error& error) {
    throw RequestRefused(Kind::kInvalid, error.what());
  }
  std::scoped_lock lock(mutex_);
  if (closed_) throw RequestRefused(Kind::kClosed, "the server is shutting down");
  if (queued_ >= options_.queue)
    throw RequestRefused(Kind::kOverloaded,
                         join("the server is overloaded: ", queued_, " requests wait already"));
  const std::uint64_t number = next_request_++;
  auto request = std::make_unique<Request>();
  request->number = number;
  request->left = static_cast<std::size_t>(wanted.choices);
  request->wanted = std::move(wanted);
  request->sink = std::move(sink);
  commands_.push_back({number, std::move(request)});
  ++queued_;
  wake_.notify_one();
  return number;
}

void ServeEngine::cancel(std::uint64_t number) {
  std::scoped_lock lock(mutex_);
  commands_.push_back({number, nullptr});
  wake_.notify_one();
}

void ServeEngine::close() {
  std::scoped_lock lock(mutex_);
  closed_ = true;
  wake_.notify_one();
}

ServeStats ServeEngine::stats() const {
  std::scoped_lock lock(mutex_);
  return shown_;
}

void ServeEngine::update_stats() {
  ServeStats now = counted_;
  now.running = scheduler_.running();
  now.waiting = scheduler_.waiting();
  now.pages = scheduler_.pool().pages();
  now.free_pages = scheduler_.pool().free();
  now.preemptions = scheduler_.preemptions();
  now.prefix_queries = scheduler_.prefix_queries();
  now.prefix_hits = scheduler_.prefix_hits();
  std::scoped_lock lock(mutex_);
  shown_ = now;
}

void ServeEngine::start(std::uint64_t number, std::unique_ptr<Request> owned) {
  Request& r = *(requests_[number] = std::move(owned));
  const std::uint64_t first = next_sequence_;
  for (int i = 0; i < r.wanted.choices; ++i) {
    const auto prompt = std::ssize(r.wanted.prompt);
    ServedSequence& s = scheduler_.add({.number = next_sequence_++,
                                        .tokens = r.wanted.prompt,
                                        .prompt = prompt,
                                        .most = prompt + r.wanted.max_tokens,
                                        .salt = r.wanted.salt,
                                        .shares_prefix = !r.wanted.echo_logprobs,
                                        .waits_for = i == 0 ? 0 : first});
    r.choices.push_back(std::make_unique<Choice>(
        Choice{r,
               i,
               &s,
               OutputText(tokenizer_, r.wanted.prompt, r.wanted.skip_special, r.wanted.stops,
                          r.wanted.include_stop),
               {}}));
    choices_[s.number] = r.choices.back().get();
  }
  if (r.wanted.max_tokens == 0 && !r.wanted.echo_logprobs)
    for (int i = r.wanted.choices; i-- > 0;)
      finish(*r.choices[static_cast<std::size_t>(i)], FinishReason::kLength);
}

void ServeEngine::take_commands() {
  std::deque<Command> commands;
  {
    std::scoped_lock lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& c : commands) {
    if (c.start) {
      start(c.number, std::move(c.start));
      continue;
    }
    const auto it = requests_.find(c.number);
    if (it == requests_.end()) continue;
    std::vector<Choice*> open;
    for (const auto& choice : it->second->choices)
      if (choice->sequence) open.push_back(choice.get());
    for (Choice* choice : open) finish(*choice, FinishReason::kCancelled);
  }
}

// The end of a choice, and of its request with the last one: then both are gone.
void ServeEngine::finish(Choice& c, FinishReason reason, const std::string& error) {
  Request& r = c.request;
  GenerationEvent event = std::move(c.pending);
  event.request = r.number;
  event.choice = c.index;
  event.text += c.text.finish();
  event.finish = reason;
  event.stop = c.text.stop();
  event.error = error;
  event.prompt_tokens = c.sequence->prompt;
  event.output_tokens = c.sequence->length() - c.sequence->prompt;
  event.cached_tokens = c.sequence->prefix_hits;
  event.last = --r.left == 0;
  const std::uint64_t number = c.sequence->number;
  c.sequence = nullptr;
  choices_.erase(number);
  scheduler_.remove(number);
  std::unique_ptr<Request> gone;
  if (event.last) {
    gone = std::move(requests_[r.number]);
    requests_.erase(gone->number);
    std::scoped_lock lock(mutex_);
    if (gone->waits) --queued_;
  }
  r.sink(std::move(event));
}

// Rows are dealt out to the micro-batch that has fewest; places tell where each one's are.
std::vector<InferenceRows> ServeEngine::micros_of(
    const std::vector<PlannedRows>& rows,
    std::vector<std::pair<std::size_t, std::size_t>>& places) {
  const auto groups = std::min(static_cast<std::size_t>(model_.groups()), rows.size());
  std::vector<InferenceRows> micros(groups);
  for (const PlannedRows& r : rows) {
    const auto least =
        std::min_element(micros.begin(), micros.end(),
                         [](const auto& a, const auto& b) { return a.ids.size() < b.ids.size(); });
    const ServedSequence& s = *r.sequence;
    const std::int64_t first = std::ssize(least->ids);
    places.emplace_back(least - micros.begin(), least->logit_rows.size());
    least->sequences.push_back({first, r.count, s.cached, s.pages});
    const auto begin = s.tokens.begin() + s.cached;
    least->ids.insert(least->ids.end(), begin, begin + r.count);
    const bool all = choices_.at(s.number)->request.wanted.echo_logprobs && s.cached < s.prompt;
    for (std::int64_t i = all ? 0 : r.count - 1; i < r.count; ++i)
      if (all || r.last) least->logit_rows.push_back(first + i);
  }
  return micros;
}

bool ServeEngine::step() {
  take_commands();
  const std::vector<PlannedRows> rows = scheduler_.plan();
  if (rows.empty()) {
    update_stats();
    return false;
  }
  for (const PlannedRows& r : rows) {
    Request& request = choices_.at(r.sequence->number)->request;
    if (!request.waits) continue;
    request.waits = false;
    std::scoped_lock lock(mutex_);
    --queued_;
  }
  std::vector<std::pair<std::size_t, std::size_t>> places;
  const std::vector<InferenceRows> micros = micros_of(rows, places);
  const std::span<const Logits> all = model_.run(micros);
  ++counted_.passes;
  for (const PlannedRows& r : rows) {
    const std::int64_t prompt = r.sequence->prompt - r.sequence->cached;
    counted_.prompt_tokens += std::clamp<std::int64_t>(prompt, 0, r.count);
  }
  scheduler_.computed(rows);
  const auto width = static_cast<std::size_t>(model_.vocab());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [micro, first] = places[i];
    const std::span<const float> logits = all[micro];
    use_logits(rows[i], logits.subspan(first * width));
  }
  update_stats();
  return true;
}

// Logits of the echoed rows of a prompt, and of the last row.
void ServeEngine::use_logits(const PlannedRows& rows, std::span<const float> logits) {
  Choice& c = *choices_.at(rows.sequence->number);
  const GenerationRequest& wanted = c.request.wanted;
  const bool scores =
      wanted.echo_logprobs && rows.sequence->cached - rows.count < rows.sequence->prompt;
  std::optional<ChosenToken> chosen;
  try {
    if (scores) score_prompt(c, rows, logits);
    if (rows.last && wanted.max_tokens > 0) {
      const std::size_t at = scores ? static_cast<std::size_t>(rows.count - 1) : 0;
      chosen = choose(c, logits.subspan(at * static_cast<std::size_t>(model_.vocab()),
                                        static_cast<std::size_t>(vocab_)));
    }
  } catch (const Error& error) {
    return finish(c, FinishReason::kError, error.what());
  }
  if (chosen) return take_token(c, std::move(*chosen));
  if (rows.last) finish(c, FinishReason::kLength);
}

ChosenToken ServeEngine::choose(const Choice& c, std::span<const float> logits) const {
  const GenerationRequest& wanted = c.request.wanted;
  const std::span<const std::int32_t> tokens = c.sequence->tokens;
  const auto prompt = static_cast<std::size_t>(c.sequence->prompt);
  const bool masks = c.sequence->length() - c.sequence->prompt < wanted.min_tokens;
  return choose_token(logits, wanted.sampling,
                      {.prompt = tokens.first(prompt),
                       .output = tokens.subspan(prompt),
                       .masked = masks ? std::span<const std::int32_t>(wanted.ends)
                                       : std::span<const std::int32_t>(),
                       .choice = static_cast<std::uint64_t>(c.index)});
}

void ServeEngine::score_prompt(Choice& c, const PlannedRows& rows, std::span<const float> logits) {
  const ServedSequence& s = *rows.sequence;
  const int count = std::max(0, c.request.wanted.sampling.logprobs);
  const std::int64_t begin = s.cached - rows.count;
  if (begin == 0) c.pending.tokens.push_back({.id = s.tokens[0]});  // nothing says how likely
  for (std::int64_t i = 0; i < rows.count && begin + i + 1 < s.prompt; ++i)
    c.pending.tokens.push_back(
        logprobs_of(logits.subspan(static_cast<std::size_t>(i * model_.vocab()),
                                   static_cast<std::size_t>(vocab_)),
                    s.tokens[static_cast<std::size_t>(begin + i + 1)], count));
}

void ServeEngine::take_token(Choice& c, ChosenToken token) {
  const GenerationRequest& wanted = c.request.wanted;
  const bool ends = !wanted.ignore_ends && std::find(wanted.ends.begin(), wanted.ends.end(),
                                                     token.id) != wanted.ends.end();
  if (ends) return finish(c, FinishReason::kStop);
  ServedSequence& s = *c.sequence;
  s.tokens.push_back(token.id);
  ++counted_.output_tokens;
  c.pending.text += c.text.push(token.id);
  c.pending.tokens.push_back(std::move(token));
  if (c.text.stopped()) return finish(c, FinishReason::kStop);
  if (s.length() == s.most) return finish(c, FinishReason::kLength);
  GenerationEvent event = std::move(c.pending);
  c.pending = {};
  event.request = c.request.number;
  event.choice = c.index;
  c.request.sink(std::move(event));
}

void ServeEngine::end_all(FinishReason reason, const std::string& error) {
  take_commands();
  std::vector<Choice*> open;
  for (const auto& [number, choice] : choices_) open.push_back(choice);
  for (Choice* choice : open) finish(*choice, reason, error);
  update_stats();
}

void ServeEngine::run(const std::atomic<bool>& stop) {
  constexpr int kIdleWaits = 10;
  int waits = 0;  // without a pass
  try {
    while (!stop.load()) {
      if (step()) {
        waits = 0;
        continue;
      }
      if (++waits % kIdleWaits == 0) model_.idle();
      std::unique_lock lock(mutex_);
      if (closed_ && commands_.empty()) return;
      wake_.wait_for(lock, std::chrono::milliseconds(100),
                     [&] { return !commands_.empty() || closed_ || stop.load(); });
    }
    close();
    end_all(FinishReason::kCancelled, {});
  } catch (const std::exception& error) {  // a rank died, or memory ended
    close();
    end_all(FinishReason::kError, reason_of(error));
    throw;
  }
}

}  // namespace trireme
