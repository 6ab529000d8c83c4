// Answers many requests at a time with one model.
//
// Two threads: any one (an event loop) submits and cancels requests; the engine's own thread calls
// step() again and again, or run(). Submitting never waits for a pass: commands are queued and
// taken up before the next one. Everything that a request says comes through its sink, on the
// engine's thread, in order: texts as they come, then one end of each choice; after the last one
// nothing more.
//
// A request is refused at once, with a sentence, where it can never be answered or the queue is
// full. A model that says no finite number ends that request, not the others; so does memory that
// ends: the request that needed it, or else the one that was admitted last, ends with an error.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "recipes/serve/model_runner.h"
#include "recipes/serve/output_text.h"
#include "recipes/serve/sampling.h"
#include "recipes/serve/scheduler.h"

namespace trireme {

struct GenerationRequest {
  std::vector<std::int32_t> prompt;
  Sampling sampling = {};
  std::int64_t max_tokens = 16;         // of the output; 0: the prompt is only scored
  std::int64_t min_tokens = 0;          // ends are masked until then, stops looked for behind
  std::vector<std::int32_t> ends = {};  // ids that end the text; they are no part of it
  std::vector<std::int32_t> told = {};  // those of them that the event's end tells
  std::vector<std::string> stops = {};  // end the text, and are cut off it
  bool include_stop = false;
  bool skip_special = true;  // tokens of control are not text
  int choices = 1;
  bool echo_logprobs = false;  // of the prompt's tokens, too
  std::int64_t salt = 0;       // prefixes are shared among equal ones only
  std::uint64_t client = 0;    // who asks: clients take turns
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError };
std::string_view name_of(FinishReason reason);  // "stop", "length", "cancelled", "error"

struct GenerationEvent {
  std::uint64_t request = 0;
  int choice = 0;
  std::string text = {};                     // to be appended
  std::vector<ChosenToken> tokens = {};      // new ones, those of a prompt first (echo)
  std::optional<FinishReason> finish = {};   // the choice's end; the fields below with it
  std::string stop = {};                     // the stop string that was found
  std::optional<std::int32_t> stop_id = {};  // or the one of `told`
  std::string error = {};
  std::int64_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  bool no_memory = false;  // why it is an error
  bool last = false;       // nothing more of this request
  double started = 0;      // by the engine's clock, when its first pass began; 0: not yet
  double said = 0;         // when the pass ended that said this
};
// May throw std::bad_alloc: an end is then said again, anything else ends the choice.
using EventSink = std::function<void(GenerationEvent&&)>;

// Why a request was not taken.
class RequestRefused : public Error {
 public:
  enum class Kind : std::uint8_t { kInvalid, kOverloaded, kClosed };
  RequestRefused(Kind why, const std::string& sentence) : Error(sentence), kind(why) {}
  const Kind kind;
};

struct ServeOptions {
  std::int64_t budget = 512;    // tokens a pass
  std::int64_t sequences = 32;  // at a time
  std::int64_t queue = 1024;    // requests that wait
  std::uint64_t hash_key = 0;   // of shared prefixes
  // A pass of streamed weights costs the same with few rows as with many: before each, so many
  // seconds are waited for more requests, if more can run.
  double grow_seconds = 0;
  // Seconds from any beginning; empty: a steady clock.
  std::function<double()> clock = {};
};

struct ServeStats {
  std::int64_t running = 0, waiting = 0, free_pages = 0, pages = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0, passes = 0, preemptions = 0;
  std::int64_t prefix_queries = 0, prefix_hits = 0;
  std::int64_t computed_tokens = 0;  // of all passes
  StreamTimes streamed = {};         // of rank 0's weights
  // Passes of at most so many tokens, each counted at its first; the last: of more.
  static constexpr std::array<std::int64_t, 13> kPassTokens{1,   8,    16,   32,   64,   128,  256,
                                                            512, 1024, 2048, 4096, 8192, 16384};
  std::array<std::int64_t, 14> passes_of = {};
};

class ServeEngine {
 public:
  // Model and tokenizer must outlive it. Ids from the tokenizer's vocabulary on are never chosen.
  ServeEngine(ModelRunner& model, const Tokenizer& tokenizer, const ServeOptions& options);
  ~ServeEngine();

  // Any thread. Throws RequestRefused.
  std::uint64_t submit(GenerationRequest request, EventSink sink);
  // Any thread. The sink still gets ends; unknown numbers are ignored.
  void cancel(std::uint64_t request);
  // Any thread. What a paused request would say is not made until it is resumed; it holds no pages
  // and no place meanwhile, and is computed again where it stood. Unknown numbers are ignored.
  void pause(std::uint64_t request, bool paused);
  // Any thread: nothing more is taken; run() returns when all is answered.
  void close();
  ServeStats stats() const;

  // The engine's thread. One pass; false if there was nothing to do.
  bool step();
  // Passes until close() and all is answered, or `stop` is set: what runs is then cancelled. An
  // error of a pass ends all requests with it, and goes on to the caller.
  void run(const std::atomic<bool>& stop);

 private:
  struct Choice;
  struct Request;
  // Where what is said of planned rows is, in its replica's answer: rows of logits, or one of top.
  struct Place {
    std::size_t logits = 0, top = 0;
    bool scores = false;  // logits of every row
    bool whole = false;   // of the last row
  };
  // What a row says of the next token; nothing if none is to be chosen.
  struct Chosen {
    std::optional<ChosenToken> token;
    std::exception_ptr error;
  };
  struct Flight {
    std::vector<PlannedRows> rows;
    std::vector<Place> places;
    std::vector<Chosen> chosen;
    bool active = false;
  };
  void grow(const std::atomic<bool>& stop);
  void take_commands();
  void start(std::unique_ptr<Request> request);
  void add_choices(Request& request);
  void hold(std::uint64_t number, bool paused);
  void refuse(std::unique_ptr<Request> request);
  void say(const Request& request, const GenerationEvent& end);
  bool pass();
  bool begin_pass(Flight& flight);
  void end_pass(Flight& flight);
  template <typename Work>
  void with_model(const Work& work);
  void count_pass(const std::vector<PlannedRows>& rows);
  void give_up_newest();
  std::vector<InferenceRows> rows_for_replicas(Flight& flight) const;
  void want(const PlannedRows& rows, InferenceRows& pass, Place& place) const;
  void choose(Flight& flight, std::span<const PassAnswer> answers);
  std::span<const float> logits_of(const PassAnswer& answer, std::size_t row) const;
  std::optional<ChosenToken> chosen_of(const PlannedRows& rows, const Place& place,
                                       const PassAnswer& answer) const;
  void use_answer(const PlannedRows& rows, const Place& place, const PassAnswer& answer,
                  Chosen chosen);
  SamplingContext context_of(const Choice& choice) const;
  std::optional<FinishReason> take_token(Choice& choice, ChosenToken token);
  void score_prompt(Choice& choice, std::int64_t position, std::span<const float> logits);
  void finish(Choice& choice, FinishReason reason, const std::string& error = {},
              bool no_memory = false);
  void end_all(FinishReason reason, const std::string& error);
  void update_stats();
  void check_request(const GenerationRequest& request) const;

  ModelRunner& model_;
  const Tokenizer& tokenizer_;
  ServeOptions options_;
  std::int64_t vocab_;
  Scheduler scheduler_;
  std::map<std::uint64_t, std::unique_ptr<Request>> requests_;
  std::map<std::uint64_t, Choice*> choices_;  // by the number of their sequence
  std::uint64_t next_sequence_ = 1;
  std::vector<Flight> flights_;  // as many as the model has stages; the next one is free
  std::size_t next_flight_ = 0;
  ServeStats counted_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  struct Command;
  std::deque<Command> commands_;
  std::uint64_t next_request_ = 1;
  std::int64_t queued_ = 0;  // requests without a running sequence
  bool closed_ = false;
  ServeStats shown_;
};

}  // namespace trireme
