// The serving engine's passes: which rows, and what becomes of what they say.
#include <algorithm>
#include <new>
#include <optional>

#include "framework/base/error.h"
#include "recipes/serve/serve_engine_parts.h"

namespace trireme {

std::vector<InferenceRows> ServeEngine::rows_for_replicas(Flight& flight) const {
  std::vector<InferenceRows> passes(static_cast<std::size_t>(model_.replicas()));
  flight.places.assign(flight.rows.size(), {});
  flight.chosen.assign(flight.rows.size(), {});
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
  update_stats();  // a pass may take long
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
  choose(flight, answers);
  for (std::size_t i = 0; i < flight.rows.size(); ++i) {
    const PlannedRows& r = flight.rows[i];
    use_answer(r, flight.places[i], answers[static_cast<std::size_t>(r.replica)],
               std::move(flight.chosen[i]));
  }
}

// A token is a function of its own row and answer alone, so all are chosen at once. Asks for no
// memory outside of the choices, each of which may fail alone.
void ServeEngine::choose(Flight& flight, std::span<const PassAnswer> answers) {
  const auto choose_one = [&](std::size_t i) {
    const PlannedRows& r = flight.rows[i];
    try {
      flight.chosen[i].token =
          chosen_of(r, flight.places[i], answers[static_cast<std::size_t>(r.replica)]);
    } catch (...) {
      flight.chosen[i].error = std::current_exception();
    }
  };
  model_.share(std::ssize(flight.rows), [&choose_one](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) choose_one(static_cast<std::size_t>(i));
  });
}

std::span<const float> ServeEngine::logits_of(const PassAnswer& answer, std::size_t row) const {
  return std::span<const float>(answer.logits)
      .subspan(row * static_cast<std::size_t>(model_.vocab()), static_cast<std::size_t>(vocab_));
}

std::optional<ChosenToken> ServeEngine::chosen_of(const PlannedRows& r, const Place& place,
                                                  const PassAnswer& answer) const {
  const auto it = choices_.find(r.number);
  if (it == choices_.end() || !r.last) return {};
  const Choice& c = *it->second;
  const GenerationRequest& wanted = c.request.wanted;
  if (wanted.max_tokens <= 0) return {};
  if (!place.scores && !place.whole)
    return choose_token(answer.top[place.top], wanted.sampling, context_of(c));
  const std::size_t last = place.scores ? static_cast<std::size_t>(r.count - 1) : 0;
  return choose_token(logits_of(answer, place.logits + last), wanted.sampling, context_of(c));
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
void ServeEngine::use_answer(const PlannedRows& r, const Place& place, const PassAnswer& answer,
                             Chosen chosen) {
  const auto it = choices_.find(r.number);
  if (it == choices_.end()) return;
  Choice& c = *it->second;
  std::optional<FinishReason> end;
  try {
    if (place.scores)
      for (std::int64_t i = 0; i < r.count; ++i)
        score_prompt(c, r.first + i, logits_of(answer, place.logits + static_cast<std::size_t>(i)));
    if (chosen.error) std::rethrow_exception(chosen.error);
    if (chosen.token)
      end = take_token(c, std::move(*chosen.token));
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
  const auto is_of = [&](const std::vector<std::int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token.id) != ids.end();
  };
  if (is_of(wanted.ends)) {
    if (is_of(wanted.told)) c.pending.stop_id = token.id;
    return FinishReason::kStop;
  }
  ServedSequence& s = *c.sequence;
  s.tokens.push_back(token.id);
  ++counted_.output_tokens;
  c.pending.text += c.text.push(token.id, s.length() - s.prompt > wanted.min_tokens);
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

}  // namespace trireme
