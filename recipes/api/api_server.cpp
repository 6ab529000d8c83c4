#include "recipes/api/api_server.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <new>

#include "framework/base/random.h"
#include "recipes/api/api_answer.h"
#include "recipes/api/api_keys.h"
#include "recipes/api/api_props.h"
#include "recipes/api/api_tokens.h"
#include "recipes/api/openapi.h"
#include "recipes/page/chat_page.h"

namespace trireme {

namespace {

constexpr std::string_view kOneModel = "/v1/models/";

Json model_json(const ServedModel& model) {
  return Json::Object{{"id", model.name},
                      {"object", "model"},
                      {"created", model.created},
                      {"owned_by", "trireme"},
                      {"root", model.name},
                      {"parent", Json()},
                      {"max_model_len", model.context}};
}

double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t wall_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// splitmix64: ids and seeds that do not repeat.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t z = seed + number * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::string hex(std::uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[value >> shift & 15];
  return text;
}

int hex_digit(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::size_t at = kDigits.find(static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c));
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

// Is `spelled`, a part of a path, this name? Clients spell a slash, a blank and others as %2F, %20.
// What it stands for is compared, and goes nowhere else.
bool spells(std::string_view spelled, std::string_view name) {
  std::string plain;
  for (std::size_t i = 0; i < spelled.size(); ++i) {
    if (spelled[i] != '%' || i + 2 >= spelled.size()) {
      plain += spelled[i];
      continue;
    }
    const int high = hex_digit(spelled[i + 1]), low = hex_digit(spelled[i + 2]);
    if (high < 0 || low < 0) return false;
    plain += static_cast<char>(16 * high + low);
    i += 2;
  }
  return plain == name;
}

HttpResponse json_response(const Json& json) { return {.body = to_text(json) + "\n"}; }

HttpResponse response_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const ApiError& error) {
    return error_response(error);
  } catch (const std::bad_alloc&) {
    return error_response(ApiError(503, "out of memory", {}, "no_memory"));
  } catch (const std::exception& error) {
    return error_response(ApiError(500, reason_of(error), {}, "internal_error"));
  }
}

// Sends what f says of a failure; without memory even for that the connection ends.
template <typename F>
void answered(HttpReply& reply, F f) noexcept {
  try {
    f();
  } catch (...) {
    try {
      reply.send(response_of(std::current_exception()));
    } catch (...) {
      reply.drop();
    }
  }
}

// A call that must not be lost for want of a little memory.
template <typename F>
void post_surely(HttpServer& http, const F& call) {
  for (int tries = 100;; --tries) try {
      return http.post(call);
    } catch (const std::bad_alloc&) {
      if (tries == 0) throw;
      if (tries < 100) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

HttpOptions with_refusals(HttpOptions options) {
  if (!options.clock) options.clock = steady_now;
  options.refusal = [](const HttpProblem& problem) {
    return error_response(ApiError(problem.status, problem.sentence, {}, "bad_request"));
  };
  return options;
}

}  // namespace

// A request whose body is read by the worker; `request` and what was read are its own meanwhile.
struct ApiServer::Reading {
  HttpRequest request;
  Reply reply;
  const ServedModel& model;
  std::int64_t salt = 0;
  std::uint64_t client = 0, number = 0;
  double begun = 0;
  std::atomic<bool> gone{false};
  std::optional<ApiRequest> asked = {};       // what was read, or
  std::optional<HttpResponse> response = {};  // the answer
};

// A request that is being answered. On the thread of run().
struct ApiServer::Exchange {
  Reply reply;
  ApiAnswer answer;
  bool streams = false, over = false;  // over: nothing more is said
  bool deserted = false;               // its client has left
  std::size_t left = 0;                // prompts without their end
  std::vector<std::uint64_t> numbers = {};
  std::map<std::pair<std::size_t, int>, ChoiceTimes> times = {};
  double begun = 0;
};

ApiServer::ApiServer(const HttpOptions& http, const ApiOptions& options)
    : http_options_(with_refusals(http)),
      options_(options),
      http_(http_options_,
            [this](const HttpRequest& request, const Reply& reply) { handle(request, reply); }),
      worker_(options.reading) {
  http_.every_tick([this] { tick(); });
}

ApiServer::~ApiServer() = default;

void ApiServer::serve(const ServedModel& model, ServeEngine& engine) {
  std::scoped_lock lock(mutex_);
  model_ = &model;
  engine_ = &engine;
  encoder_ = model.tokenizer.encoder();
}

void ApiServer::withdraw() {
  {
    std::scoped_lock lock(mutex_);
    engine_ = nullptr;
  }
  const auto pass_loop = [&](const std::function<void()>& last) {
    std::promise<void> passed;  // behind what was posted before
    post_surely(http_, [&] {
      last();
      passed.set_value();
    });
    passed.get_future().wait();
  };
  pass_loop([] {});  // whoever saw the engine has handed its request to the worker
  worker_.settle();
  pass_loop([&] {
    std::scoped_lock lock(mutex_);
    model_ = nullptr;
    encoder_.reset();
  });
}

void ApiServer::finish() {
  http_.post([this] { http_.finish(); });
}

void ApiServer::tick() {
  const double now = http_options_.clock();
  if (!draining_ && options_.asked_to_end && options_.asked_to_end()) drain(now);
  if (!draining_) return;
  std::scoped_lock lock(mutex_);
  if (!engine_ || now - drain_began_ > options_.drain_seconds) stop_ = true;
  if (engine_ && active_ == 0) engine_->close();
}

void ApiServer::drain(double now) {
  draining_ = true;
  drain_began_ = now;
  if (!options_.drains) return;
  const std::int64_t all = metrics_.under_way();
  DrainBegin begin{.reading = reading_};
  {
    std::scoped_lock lock(mutex_);
    if (engine_) begin.running = std::min(all, engine_->stats().running);
  }
  begin.waiting = all - begin.running;
  options_.drains(begin);
}

void ApiServer::count_end(const Exchange& exchange, FinishReason reason) {
  const bool whole = reason == FinishReason::kStop || reason == FinishReason::kLength;
  ++(exchange.deserted ? drained_.left : whole ? drained_.finished : drained_.cut);
}

void ApiServer::handle(const HttpRequest& request, const Reply& reply) {
  answered(*reply, [&] {
    check_caller(request);
    route(request, reply);
  });
}

// Pages of other origins must not ask through a user's browser, not even under a name that they
// made point here.
void ApiServer::check_caller(const HttpRequest& request) const {
  const std::string_view host = request.field("host"), origin = request.field("origin");
  if (!options_.hosts.empty() && !host.empty() &&
      std::find(options_.hosts.begin(), options_.hosts.end(), host_name(host)) ==
          options_.hosts.end())
    throw ApiError(403, "this server is not known by the name that Host gives", {}, "bad_host");
  if (!origin.empty() && origin != "http://" + std::string(host) &&
      origin != "https://" + std::string(host))
    throw ApiError(403, "pages of another origin may not ask this server", {}, "bad_origin");
  if (request.path != "/health" && request.path != "/") key_of(request);
}

// Which of the keys; 0 where none is needed.
std::int64_t ApiServer::key_of(const HttpRequest& request) const {
  if (options_.keys.empty()) return 0;
  const std::int64_t key = find_key(options_.keys, bearer_of(request.field("authorization")));
  if (key < 0)
    throw ApiError(401, "a key is needed: Authorization: Bearer KEY", {}, "invalid_api_key");
  return key + 1;
}

bool ApiServer::lent() const {
  std::scoped_lock lock(mutex_);
  return engine_ != nullptr;
}

const ServedModel& ApiServer::served() const {
  std::scoped_lock lock(mutex_);
  if (draining_) throw ApiError(503, "the server is shutting down", {}, "shutting_down");
  if (engine_ && model_) return *model_;
  if (was_ready_) throw ApiError(503, "the model is gone; the server ends", {}, "shutting_down");
  throw ApiError(503, "Loading model", {}, "loading");
}

void ApiServer::route(const HttpRequest& request, const Reply& reply) {
  const std::string& path = request.path;
  const bool get = request.method == "GET" || request.method == "HEAD";
  const bool reads = path == "/health" || path == "/ready" || path == "/metrics" ||
                     path == "/v1/models" || path == "/version" || path == "/openapi.json" ||
                     path == "/docs" || path == "/" || path == "/props" ||
                     path.starts_with(kOneModel);
  const bool posts = path == "/v1/completions" || path == "/v1/chat/completions" ||
                     path == "/tokenize" || path == "/detokenize";
  if (!reads && !posts)
    throw ApiError(404, "there is nothing at " + path.substr(0, 128), {}, "not_found");
  if (reads ? !get : request.method != "POST") {
    HttpResponse response = error_response(ApiError(
        405, join(path, " is asked with ", reads ? "GET" : "POST"), {}, "method_not_allowed"));
    response.fields.emplace_back("Allow", reads ? "GET, HEAD" : "POST");
    return reply->send(response);
  }
  if (posts) return post_route(request, reply);
  if (path == "/version") return reply->send(json_response(Json::Object{{"version", "0.1.0"}}));
  if (path == "/openapi.json") return reply->send(json_response(openapi(options_.limits)));
  if (path == "/")
    return reply->send({.type = "text/html; charset=utf-8",
                        .body = std::string(chat_page()),
                        .fields = {{"Content-Security-Policy", chat_page_policy()},
                                   {"Referrer-Policy", "no-referrer"}}});
  if (path == "/docs")
    return reply->send(
        {.type = "text/html; charset=utf-8",
         .body = api_page(openapi(options_.limits)),
         .fields = {{"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"}}});
  if (path == "/health" || path == "/ready") {
    // Whoever drains is healthy as long as the model is.
    if (path == "/ready" || !draining_ || !lent()) served();
    return reply->send(json_response(Json::Object{{"status", "ok"}}));
  }
  if (path == "/v1/models") return reply->send(json_response(models()));
  if (path.starts_with(kOneModel)) {
    const std::string spelled = path.substr(kOneModel.size());
    if (!spells(spelled, served().name)) check_name(spelled, served());
    return reply->send(json_response(model_json(served())));
  }
  if (path == "/props") return reply->send(json_response(props()));
  ServeStats stats;
  std::string name;
  {
    std::scoped_lock lock(mutex_);
    if (engine_) stats = engine_->stats();
    if (model_) name = model_->name;
  }
  reply->send({.type = "text/plain; version=0.0.4; charset=utf-8",
               .body = metrics_.text(name, stats, http_.counts())});
}

void ApiServer::post_route(const HttpRequest& request, const Reply& reply) {
  const ServedModel& model = served();
  was_ready_ = true;
  const std::int64_t key = key_of(request);
  const auto reading = std::make_shared<Reading>(
      request, reply, model, key, key > 0 ? static_cast<std::uint64_t>(key) : request.connection,
      ++requests_, http_options_.clock());
  reply->when_gone([reading] { reading->gone = true; });
  const bool taken = worker_.post([this, reading] {
    read(*reading);
    post_surely(http_, [this, reading] { was_read(reading); });
  });
  if (!taken)
    throw ApiError(
        429, join("the server is overloaded: ", options_.reading, " requests wait to be read"), {},
        "overloaded");
  ++active_;
  ++reading_;
}

// On the worker's thread.
void ApiServer::read(Reading& r) {
  if (r.gone) return;
  try {
    const Json body = api_body(r.request.body);
    r.request.body = {};
    const std::uint64_t seed = mixed(options_.seed, 2 * r.number - 1);
    if (r.request.path == "/tokenize")
      r.response = json_response(api_tokenize(body, r.model, options_.limits, *encoder_));
    else if (r.request.path == "/detokenize")
      r.response = json_response(api_detokenize(body, r.model));
    else if (r.request.path == "/v1/completions")
      r.asked = read_completion(body, r.model, options_.limits, *encoder_, seed);
    else
      r.asked = read_chat(body, r.model, options_.limits, *encoder_, seed);
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    try {
      r.response = response_of(failure);
    } catch (...) {  // nothing: no memory even for that
    }
  }
}

void ApiServer::was_read(const std::shared_ptr<Reading>& reading) {
  Reading& r = *reading;
  --active_;
  --reading_;
  if (r.gone) return;
  answered(*r.reply, [&] {
    if (r.response) return r.reply->send(*r.response);
    if (!r.asked) throw std::bad_alloc();
    generate(r);
  });
}

Json ApiServer::models() const {
  return Json::Object{{"object", "list"}, {"data", Json::Array{model_json(served())}}};
}

Json ApiServer::props() const {
  const ServedModel& model = served();
  ServeStats stats;
  {
    std::scoped_lock lock(mutex_);
    if (engine_) stats = engine_->stats();
  }
  return props_json(model, stats);
}

void ApiServer::generate(Reading& r) {
  ApiRequest& request = *r.asked;
  const std::string id =
      join(request.chat ? "chatcmpl-" : "cmpl-", hex(mixed(options_.seed, 2 * r.number)));
  for (GenerationRequest& prompt : request.prompts) {
    prompt.salt = r.salt;
    prompt.client = r.client;
  }
  auto exchange = std::make_shared<Exchange>(
      Exchange{.reply = r.reply,
               .answer = ApiAnswer(request, r.model, id, options_.now ? options_.now : wall_now()),
               .streams = request.stream,
               .left = request.prompts.size(),
               .begun = r.begun});
  for (std::size_t i = 0; i < request.prompts.size(); ++i)
    for (int choice = 0; choice < request.choices; ++choice)
      exchange->times[{i, choice}].begun = r.begun;
  exchange->numbers.reserve(request.prompts.size());
  const Reply reply = r.reply;
  reply->when_gone([this, exchange] {
    exchange->deserted = true;
    cancel(*exchange);
  });
  reply->when_full([this, exchange](bool full) { pause(*exchange, full); });
  submit(exchange, request);
  ++active_;
  if (!exchange->streams) return;
  try {
    reply->begin({.type = "text/event-stream; charset=utf-8"});
  } catch (...) {
    cancel(*exchange);
    throw;
  }
  try {
    reply->write(exchange->answer.first_pieces());
  } catch (const std::exception&) {
    end_with(*exchange, 503, "out of memory", "no_memory");
  }
}

// All prompts, or none.
void ApiServer::submit(const std::shared_ptr<Exchange>& exchange, ApiRequest& request) {
  using Kind = RequestRefused::Kind;
  std::scoped_lock lock(mutex_);
  if (!engine_) throw ApiError(503, "the server is shutting down", {}, "shutting_down");
  try {
    for (std::size_t i = 0; i < request.prompts.size(); ++i)
      exchange->numbers.push_back(
          engine_->submit(std::move(request.prompts[i]), [this, exchange, i](GenerationEvent&& e) {
            http_.post([this, exchange, i, event = std::move(e)] { heard(exchange, i, event); });
          }));
  } catch (const std::exception& failure) {
    exchange->over = true;
    for (const std::uint64_t number : exchange->numbers) engine_->cancel(number);
    metrics_.submitted(static_cast<int>(exchange->numbers.size()) * request.choices);
    if (!exchange->numbers.empty()) ++active_;  // until those have ended
    exchange->left = exchange->numbers.size();
    const auto* refused = dynamic_cast<const RequestRefused*>(&failure);
    if (!refused) throw;
    if (refused->kind == Kind::kOverloaded) throw ApiError(429, refused->what(), {}, "overloaded");
    if (refused->kind == Kind::kClosed) throw ApiError(503, refused->what(), {}, "shutting_down");
    throw ApiError(400, refused->what(), {}, "invalid_value");
  }
  metrics_.submitted(static_cast<int>(request.prompts.size()) * request.choices);
}

// Without memory even for that its answers are made to their end, for nobody.
void ApiServer::cancel(Exchange& exchange) noexcept {
  exchange.over = true;
  std::scoped_lock lock(mutex_);
  if (!engine_) return;
  try {
    for (const std::uint64_t number : exchange.numbers) engine_->cancel(number);
  } catch (const std::bad_alloc&) {
  }
}

// Its client reads less than is said.
void ApiServer::pause(const Exchange& exchange, bool paused) {
  std::scoped_lock lock(mutex_);
  if (!engine_ || exchange.over) return;
  for (const std::uint64_t number : exchange.numbers) engine_->pause(number, paused);
}

void ApiServer::heard(const std::shared_ptr<Exchange>& exchange, std::size_t prompt,
                      const GenerationEvent& event) {
  Exchange& x = *exchange;
  if (event.last && --x.left == 0) --active_;
  metrics_.heard(event, x.times.at({prompt, event.choice}));
  if (draining_ && event.finish) count_end(x, *event.finish);
  if (x.over) return;
  const bool failed = event.finish && (*event.finish == FinishReason::kError ||
                                       *event.finish == FinishReason::kCancelled);
  if (failed) return fail(x, event);
  try {
    if (x.streams)
      x.reply->write(x.answer.piece(prompt, event));
    else
      x.answer.add(prompt, event);
    if (x.left > 0) return;
    x.over = true;
    if (!x.streams) return x.reply->send(json_response(x.answer.whole()));
    x.reply->write(x.answer.last_pieces());
    x.reply->end();
  } catch (const std::exception&) {
    end_with(x, 503, "out of memory", "no_memory");
  }
}

// The other choices of the request end with it.
void ApiServer::fail(Exchange& x, const GenerationEvent& event) {
  if (*event.finish == FinishReason::kCancelled)
    return end_with(x, 503, "the server is shutting down", "shutting_down");
  if (event.no_memory) return end_with(x, 503, "out of memory", "no_memory");
  end_with(x, 500, event.error, "internal_error");
}

void ApiServer::end_with(Exchange& x, int status, const std::string& sentence,
                         const char* code) noexcept {
  cancel(x);
  try {
    const ApiError error(status, sentence, {}, code);
    if (!x.streams) return x.reply->send(error_response(error));
    x.reply->write(ApiAnswer::error_piece(error));
    x.reply->end();
  } catch (...) {
    x.reply->drop();
  }
}

}  // namespace trireme
