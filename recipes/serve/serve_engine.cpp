#include "recipes/serve/serve_engine.h"

#include <algorithm>
#include <new>
#include <thread>

#include "framework/backend/infer_kernels.h"
#include "recipes/serve/serve_engine_parts.h"

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

namespace {

constexpr int kTries = 100;  // to say an end, 10 ms apart

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ServeEngine::ServeEngine(ModelRunner& model, const Tokenizer& tokenizer,
                         const ServeOptions& options)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      vocab_(std::min(model.vocab(), tokenizer.vocabulary())),
      scheduler_({.pages = model.pages(),
                  .budget = options.budget,
                  .sequences = options.sequences,
                  .hash_key = options.hash_key,
                  .replicas = model.replicas(),
                  .stages = model.stages()}),
      flights_(static_cast<std::size_t>(model.stages())) {
  if (!options_.clock) options_.clock = steady_seconds;
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
                         join("the server is overloaded: ", queued_,
                              queued_ == 1 ? " request waits" : " requests wait", " already"));
  const std::uint64_t number = next_request_++;
  auto request = std::make_unique<Request>();
  request->number = number;
  request->left = static_cast<std::size_t>(wanted.choices);
  request->wanted = std::move(wanted);
  request->sink = std::move(sink);
  commands_.push_back({Command::Kind::kStart, number, std::move(request)});
  ++queued_;
  wake_.notify_one();
  return number;
}

void ServeEngine::cancel(std::uint64_t number) {
  std::scoped_lock lock(mutex_);
  commands_.push_back({Command::Kind::kCancel, number});
  wake_.notify_one();
}

void ServeEngine::pause(std::uint64_t number, bool paused) {
  std::scoped_lock lock(mutex_);
  commands_.push_back({paused ? Command::Kind::kPause : Command::Kind::kResume, number});
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
  for (int r = 0; r < model_.replicas(); ++r) {
    now.pages += scheduler_.pool(r).pages();
    now.free_pages += scheduler_.pool(r).free();
  }
  now.streamed = model_.streamed();
  now.preemptions = scheduler_.preemptions();
  now.prefix_queries = scheduler_.prefix_queries();
  now.prefix_hits = scheduler_.prefix_hits();
  std::scoped_lock lock(mutex_);
  shown_ = now;
}

// All choices of a request, or none and std::bad_alloc.
void ServeEngine::add_choices(Request& r) {
  const std::uint64_t first = next_sequence_;
  r.choices.reserve(static_cast<std::size_t>(r.wanted.choices));
  for (int i = 0; i < r.wanted.choices; ++i) {
    const auto prompt = std::ssize(r.wanted.prompt);
    r.choices.push_back(std::make_unique<Choice>(
        Choice{r,
               i,
               nullptr,
               OutputText(tokenizer_, r.wanted.prompt, r.wanted.skip_special, r.wanted.stops,
                          r.wanted.include_stop),
               {}}));
    Choice*& place = choices_[next_sequence_];
    place = r.choices.back().get();
    place->sequence = &scheduler_.add({.number = next_sequence_++,
                                       .client = r.wanted.client,
                                       .tokens = r.wanted.prompt,
                                       .prompt = prompt,
                                       .most = prompt + r.wanted.max_tokens,
                                       .salt = r.wanted.salt,
                                       .shares_prefix = !r.wanted.echo_logprobs,
                                       .waits_for = i == 0 ? 0 : first});
  }
}

void ServeEngine::start(std::unique_ptr<Request> owned) {
  Request& r = *owned;
  const std::uint64_t first = next_sequence_;
  try {
    auto& place = requests_[r.number];
    add_choices(r);
    place = std::move(owned);
  } catch (const std::bad_alloc&) {
    for (std::uint64_t n = first; n <= next_sequence_; ++n) {
      scheduler_.remove(n);
      choices_.erase(n);
    }
    ++next_sequence_;
    requests_.erase(r.number);
    return refuse(std::move(owned));
  }
  if (r.wanted.max_tokens == 0 && !r.wanted.echo_logprobs)
    for (int i = r.wanted.choices; i-- > 0;)
      finish(*r.choices[static_cast<std::size_t>(i)], FinishReason::kLength);
}

// A request that there was no memory to begin with.
void ServeEngine::refuse(std::unique_ptr<Request> request) {
  {
    std::scoped_lock lock(mutex_);
    --queued_;
  }
  for (int i = 0; i < request->wanted.choices; ++i)
    say(*request, {.request = request->number,
                   .choice = i,
                   .finish = FinishReason::kError,
                   .error = kNoMemory,
                   .prompt_tokens = std::ssize(request->wanted.prompt),
                   .no_memory = true,
                   .last = i + 1 == request->wanted.choices,
                   .said = options_.clock()});
}

// An end, which must not be lost.
void ServeEngine::say(const Request& request, const GenerationEvent& end) {
  for (int i = 1;; ++i) try {
      return request.sink(GenerationEvent(end));
    } catch (const std::bad_alloc&) {
      if (i == kTries) throw;
      if (i > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

void ServeEngine::take_commands() {
  std::deque<Command> commands;
  {
    std::scoped_lock lock(mutex_);
    commands.swap(commands_);
  }
  for (Command& c : commands) {
    if (c.start) {
      start(std::move(c.start));
      continue;
    }
    if (c.kind != Command::Kind::kCancel) {
      hold(c.number, c.kind == Command::Kind::kPause);
      continue;
    }
    for (auto it = requests_.find(c.number); it != requests_.end();
         it = requests_.find(c.number)) {  // gone with the last of its choices
      const auto open = std::find_if(it->second->choices.begin(), it->second->choices.end(),
                                     [](const auto& choice) { return choice->sequence; });
      finish(**open, FinishReason::kCancelled);
    }
  }
}

void ServeEngine::hold(std::uint64_t number, bool paused) {
  const auto it = requests_.find(number);
  if (it == requests_.end()) return;
  for (const auto& choice : it->second->choices)
    if (choice->sequence) scheduler_.pause(choice->sequence->number, paused);
}

// The end of a choice, and of its request with the last one: then both are gone.
void ServeEngine::finish(Choice& c, FinishReason reason, const std::string& error, bool no_memory) {
  Request& r = c.request;
  GenerationEvent event = std::move(c.pending);
  try {
    event.text += c.text.finish();
    event.stop = c.text.stop();
    event.error = error;
  } catch (const std::bad_alloc&) {
    reason = FinishReason::kError;
    no_memory = true;
  }
  event.request = r.number;
  event.choice = c.index;
  event.finish = reason;
  event.no_memory = no_memory;
  event.prompt_tokens = c.sequence->prompt;
  event.output_tokens = c.sequence->length() - c.sequence->prompt;
  event.cached_tokens = c.sequence->prefix_hits;
  event.started = c.started;
  event.said = options_.clock();
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
  say(r, event);
}

bool ServeEngine::step() {
  try {
    take_commands();
    return pass();
  } catch (const std::bad_alloc&) {
    give_up_newest();
    return true;
  }
}

// There was no memory to prepare a pass: whoever came last goes, so that the others have more.
void ServeEngine::give_up_newest() {
  const ServedSequence* newest = scheduler_.newest();
  if (!newest && choices_.empty()) return;
  Choice& c = newest ? *choices_.at(newest->number) : *choices_.rbegin()->second;
  finish(c, FinishReason::kError, kNoMemory, true);
  update_stats();
}

void ServeEngine::end_all(FinishReason reason, const std::string& error) {
  take_commands();
  while (!choices_.empty()) finish(*choices_.begin()->second, reason, error);
  update_stats();
}

// Waits until as many requests are there as can run, for a while.
void ServeEngine::grow(const std::atomic<bool>& stop) {
  if (options_.grow_seconds <= 0) return;
  std::unique_lock lock(mutex_);
  if (commands_.empty() && shown_.running + shown_.waiting == 0) return;
  wake_.wait_for(lock, std::chrono::duration<double>(options_.grow_seconds), [&] {
    const auto coming = std::count_if(commands_.begin(), commands_.end(),
                                      [](const Command& c) { return c.start != nullptr; });
    return closed_ || stop.load() || shown_.running + shown_.waiting + coming >= options_.sequences;
  });
}

void ServeEngine::run(const std::atomic<bool>& stop) {
  constexpr int kIdleWaits = 10;
  int waits = 0;  // without a pass
  try {
    while (!stop.load()) {
      grow(stop);
      if (step()) {
        waits = 0;
        continue;
      }
      if (++waits % kIdleWaits == 0) model_.idle();
      std::unique_lock lock(mutex_);
      if (closed_ && commands_.empty() && requests_.empty()) return;
      wake_.wait_for(lock, std::chrono::milliseconds(100), [&] {
        const bool all_said = closed_ && requests_.empty();
        return !commands_.empty() || all_said || stop.load();
      });
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
