#include "recipes/serve/serve_engine.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <thread>

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

namespace {

constexpr const char* kNoMemory = "out of memory: the answer was given up so that others go on";
constexpr int kTries = 100;  // to say an end, 10 ms apart

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// One answer that is being made.
struct ServeEngine::Choice {
  Request& request;
  int index;
  ServedSequence* sequence;
  OutputText text;
  GenerationEvent pending;  // of this pass
  double started = 0;
  std::int64_t scored = 0;  // tokens of the prompt
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
    for (auto it = requests_.find(c.number); it != requests_.end();
         it = requests_.find(c.number)) {  // gone with the last of its choices
      const auto open = std::find_if(it->second->choices.begin(), it->second->choices.end(),
                                     [](const auto& choice) { return choice->sequence; });
      finish(**open, FinishReason::kCancelled);
    }
  }
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

std::vector<InferenceRows> ServeEngine::rows_for_replicas(Flight& flight) const {
  std::vector<InferenceRows> passes(static_cast<std::size_t>(model_.replicas()));
  flight.places.assign(flight.rows.size(), {});
  for (std::size_t i = 0; i < flight.rows.size(); ++i) {
    const PlannedRows& r = flight.rows[i];
    InferenceRows& pass = passes[static_cast<std::size_t>(r.replica)];
    const ServedSequence& s = *r.sequence;
    want(r, pass, flight.places[i]);
    pass.sequences.push_back({std::ssize(pass.ids), r.count, r.first, s.pages});
    const auto begin = s.tokens.begin() + r.first;
    pass.ids.insert(pass.ids.end(), begin, begin + r.count);
  }
  return passes;
}

// What is needed of the rows that go to the end of the pass.
void ServeEngine::want(const PlannedRows& r, InferenceRows& pass, Place& place) const {
  const Choice& c = *choices_.at(r.number);
  const GenerationRequest& wanted = c.request.wanted;
  const std::int64_t begin = std::ssize(pass.ids), end = begin + r.count;
  place = {.logits = pass.logit_rows.size(),
           .top = pass.top.rows.size(),
           .scores = wanted.echo_logprobs && r.first < r.sequence->prompt};
  if (place.scores)
    for (std::int64_t row = begin; row < end; ++row) pass.logit_rows.push_back(row);
  if (place.scores || !r.last) return;
  const std::int64_t enough = enough_top(wanted.sampling, context_of(c).masked.size());
  place.whole = enough == 0;
  if (place.whole) return pass.logit_rows.push_back(end - 1);
  pass.top.rows.push_back(end - 1);
  pass.top.count = std::max(pass.top.count, enough);
  pass.top.ids = vocab_;
  pass.top.sums |= wanted.sampling.logprobs >= 0;
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

// Begins a pass, and ends the oldest one when as many are in flight as keep the model busy. Of one
// stage that is the same one.
bool ServeEngine::pass() {
  bool did = flights_[next_flight_].active;
  if (did) end_pass(flights_[next_flight_]);  // an error came between
  did |= begin_pass(flights_[next_flight_]);
  next_flight_ = (next_flight_ + 1) % flights_.size();
  if (Flight& oldest = flights_[next_flight_]; oldest.active) {
    end_pass(oldest);
    did = true;
  }
  did |= std::any_of(flights_.begin(), flights_.end(), [](const Flight& f) { return f.active; });
  update_stats();
  return did;
}

bool ServeEngine::begin_pass(Flight& flight) {
  flight.rows = scheduler_.plan();
  if (flight.rows.empty()) return false;
  const double begun = options_.clock();
  const std::vector<InferenceRows> passes = rows_for_replicas(flight);
  for (const PlannedRows& r : flight.rows) {
    Choice& c = *choices_.at(r.number);
    if (c.started == 0) c.started = begun;
    if (!c.request.waits) continue;
    c.request.waits = false;
    std::scoped_lock lock(mutex_);
    --queued_;
  }
  with_model([&] { model_.start(passes); });
  flight.active = true;
  scheduler_.started(flight.rows);
  count_pass(flight.rows);
  return true;
}

void ServeEngine::end_pass(Flight& flight) {
  std::span<PassAnswer> answers;
  with_model([&] { answers = model_.finish(); });
  flight.active = false;
  scheduler_.computed(flight.rows);
  for (std::size_t i = 0; i < flight.rows.size(); ++i) {
    const PlannedRows& r = flight.rows[i];
    use_answer(r, flight.places[i], answers[static_cast<std::size_t>(r.replica)]);
  }
}

// Memory that ends in a pass is the newest's loss where the model survives that.
template <typename Work>
void ServeEngine::with_model(const Work& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    if (model_.survives()) throw;
    fail("out of memory in a pass of the model");
  } catch (const Error& error) {
    if (model_.survives() && std::string_view(error.what()).starts_with("out of memory"))
      throw std::bad_alloc();
    throw;
  }
}

void ServeEngine::count_pass(const std::vector<PlannedRows>& rows) {
  std::int64_t tokens = 0;
  for (const PlannedRows& r : rows) {
    const std::int64_t prompt = r.sequence->prompt - r.first;
    counted_.prompt_tokens += std::clamp<std::int64_t>(prompt, 0, r.count);
    tokens += r.count;
  }
  const auto& bounds = ServeStats::kPassTokens;
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), tokens) - bounds.begin();
  ++counted_.passes_of[static_cast<std::size_t>(at)];
  counted_.computed_tokens += tokens;
  ++counted_.passes;
}

// Logits of the echoed rows of a prompt, and of the last row. Whoever ended on the way is gone.
void ServeEngine::use_answer(const PlannedRows& r, const Place& place, const PassAnswer& answer) {
  const auto it = choices_.find(r.number);
  if (it == choices_.end()) return;
  Choice& c = *it->second;
  const GenerationRequest& wanted = c.request.wanted;
  const auto row = [&](std::size_t i) {
    return std::span<const float>(answer.logits)
        .subspan((place.logits + i) * static_cast<std::size_t>(model_.vocab()),
                 static_cast<std::size_t>(vocab_));
  };
  std::optional<ChosenToken> chosen;
  std::optional<FinishReason> end;
  try {
    if (place.scores)
      for (std::int64_t i = 0; i < r.count; ++i)
        score_prompt(c, r.first + i, row(static_cast<std::size_t>(i)));
    if (r.last && wanted.max_tokens > 0 && !place.scores && !place.whole)
      chosen = choose_token(answer.top[place.top], wanted.sampling, context_of(c));
    else if (r.last && wanted.max_tokens > 0)
      chosen = choose_token(row(place.scores ? static_cast<std::size_t>(r.count - 1) : 0),
                            wanted.sampling, context_of(c));
    if (chosen)
      end = take_token(c, std::move(*chosen));
    else if (r.last)
      end = FinishReason::kLength;
  } catch (const Error& error) {
    return finish(c, FinishReason::kError, error.what());
  } catch (const std::bad_alloc&) {
    return finish(c, FinishReason::kError, kNoMemory, true);
  }
  if (end) finish(c, *end);
}

SamplingContext ServeEngine::context_of(const Choice& c) const {
  const GenerationRequest& wanted = c.request.wanted;
  const std::span<const std::int32_t> tokens = c.sequence->tokens;
  const auto prompt = static_cast<std::size_t>(c.sequence->prompt);
  const bool masks = c.sequence->length() - c.sequence->prompt < wanted.min_tokens;
  return {.prompt = tokens.first(prompt),
          .output = tokens.subspan(prompt),
          .masked =
              masks ? std::span<const std::int32_t>(wanted.ends) : std::span<const std::int32_t>(),
          .choice = static_cast<std::uint64_t>(c.index)};
}

// What the row of a prompt's token says of the next one; a prompt that is computed again has been
// scored.
void ServeEngine::score_prompt(Choice& c, std::int64_t position, std::span<const float> logits) {
  const ServedSequence& s = *c.sequence;
  const int count = std::max(0, c.request.wanted.sampling.logprobs);
  if (c.scored == 0) {  // nothing says how likely
    c.pending.tokens.push_back({.id = s.tokens[0]});
    c.scored = 1;
  }
  if (position + 1 != c.scored || c.scored >= s.prompt) return;
  c.pending.tokens.push_back(
      logprobs_of(logits, s.tokens[static_cast<std::size_t>(c.scored)], count));
  ++c.scored;
}

// Nothing if it goes on.
std::optional<FinishReason> ServeEngine::take_token(Choice& c, ChosenToken token) {
  const GenerationRequest& wanted = c.request.wanted;
  const bool ends = !wanted.ignore_ends && std::find(wanted.ends.begin(), wanted.ends.end(),
                                                     token.id) != wanted.ends.end();
  if (ends) return FinishReason::kStop;
  ServedSequence& s = *c.sequence;
  s.tokens.push_back(token.id);
  ++counted_.output_tokens;
  c.pending.text += c.text.push(token.id);
  c.pending.tokens.push_back(std::move(token));
  if (c.text.stopped()) return FinishReason::kStop;
  if (s.length() == s.most) return FinishReason::kLength;
  GenerationEvent event = std::move(c.pending);
  c.pending = {};
  event.request = c.request.number;
  event.choice = c.index;
  event.started = c.started;
  event.said = options_.clock();
  c.request.sink(std::move(event));
  return std::nullopt;
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
