#include "recipes/load/load_run.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "framework/base/error.h"
#include "framework/base/random.h"
#include "recipes/load/server_events.h"

namespace trireme {

namespace {

constexpr double kLook = 0.1;             // seconds between looks at stopped()
constexpr std::size_t kErrorBytes = 300;  // of an answer that is told as an error

std::vector<std::pair<std::string, std::string>> fields_of(const std::string& key) {
  if (key.empty()) return {};
  return {{"Authorization", "Bearer " + key}};
}

// The sentence of an error in OpenAI's shape, else the text.
std::string error_text(int status, const std::string& body) {
  std::string sentence = body.substr(0, kErrorBytes);
  try {
    const Json json = parse_json(body, "answer");
    if (const Json* error = json.find("error"))
      if (const Json* message = error->find("message")) sentence = message->text("message");
  } catch (const Error&) {
    // not JSON: its beginning is told
  }
  return status == 0 ? sentence : join(status, ": ", sentence);
}

}  // namespace

std::vector<double> send_times(std::int64_t count, const std::optional<double>& rate,
                               const std::optional<double>& burstiness, std::uint64_t seed) {
  std::vector<double> times(static_cast<std::size_t>(count));
  if (!rate || count == 0) return times;
  std::mt19937_64 random(seed);
  std::gamma_distribution<double> gap(burstiness.value_or(1), 1 / burstiness.value_or(1));
  double at = 0;
  for (double& time : times) time = at += burstiness ? gap(random) : 1;
  const double scale = static_cast<double>(count) / *rate / at;
  for (double& time : times) time *= scale;
  return times;
}

ServerAnswer ask_server(HttpClient& client, const std::string& key, const std::string& method,
                        const std::string& path, const std::string& body, double seconds) {
  ServerAnswer answer;
  client.ask(
      {.method = method, .path = path, .body = body, .fields = fields_of(key), .seconds = seconds},
      {.head = [&](int status) { answer.status = status; },
       .body = [&](std::string_view piece) { answer.body += piece; },
       .end =
           [&](const std::string& problem) {
             answer.problem = problem;
             if (!problem.empty()) answer.status = 0;
           }});
  client.run();
  return answer;
}

std::optional<double> metric_of(const std::string& text, const std::string& name) {
  std::optional<double> sum;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(name) || line.size() == name.size()) continue;
    if (line[name.size()] != '{' && line[name.size()] != ' ') continue;
    const std::size_t blank = line.rfind(' ');
    sum = sum.value_or(0) + std::strtod(line.c_str() + blank, nullptr);
  }
  return sum;
}

// What is under way.
struct LoadRun::Sent {
  std::size_t index;
  double start = 0, last = 0;  // 0: no piece yet
  int status = 0;
  bool done = false, counted = false;  // [DONE] came; the answer told how many tokens it has
  std::string error_body = {};
  ServerEvents events = {};
};

LoadRun::LoadRun(HttpClient& client, const LoadPlan& plan, std::vector<std::int32_t> alphabet,
                 std::function<void(std::int64_t)> told, std::function<bool()> stopped)
    : client_(client),
      plan_(plan),
      alphabet_(std::move(alphabet)),
      told_(std::move(told)),
      asked_(std::move(stopped)) {
  check(!alphabet_.empty(), "there are no tokens that prompts can be made of");
}

std::vector<LoadOutcome> LoadRun::warm_up() {
  return send(std::vector<double>(static_cast<std::size_t>(plan_.warmups)), 1);
}

std::vector<LoadOutcome> LoadRun::run() {
  const double begin = client_.now();
  auto outcomes = send(send_times(plan_.prompts, plan_.rate, plan_.burstiness, plan_.seed), 0);
  duration_ = finished_ - begin;
  return outcomes;
}

std::vector<LoadOutcome> LoadRun::send(const std::vector<double>& times, std::uint64_t stream) {
  outcomes_.assign(times.size(), {});
  due_ = begun_ = 0;
  ended_ = 0;
  stream_ = stream;
  if (times.empty() || gone_) return {};
  const auto due = [this] {
    ++due_;
    begin_waiting();
  };
  for (const double time : times) {
    if (time > 0)
      client_.after(time, due);
    else
      due();
  }
  look();
  client_.run();
  return std::move(outcomes_);
}

void LoadRun::look() {
  if (ended_ == std::ssize(outcomes_)) return;
  if (asked_ && asked_()) {
    gone_ = true;
    return client_.stop();
  }
  client_.after(kLook, [this] { look(); });
}

void LoadRun::begin_waiting() {
  const std::int64_t most = plan_.concurrency.value_or(std::ssize(outcomes_));
  while (begun_ < due_ && static_cast<std::int64_t>(begun_) - ended_ < most) begin(begun_++);
}

std::string LoadRun::body_of(std::size_t index) const {
  const RngKey key = key_from_seed(plan_.seed).child("load").child(stream_).child(index);
  Json::Array prompt;
  for (std::int64_t i = 0; i < plan_.input; ++i) {
    const auto at = static_cast<std::size_t>(random_uniform(key, static_cast<std::uint64_t>(i)) *
                                             static_cast<double>(alphabet_.size()));
    prompt.emplace_back(std::int64_t{alphabet_[std::min(at, alphabet_.size() - 1)]});
  }
  Json::Object body{{"model", plan_.model},
                    {"prompt", std::move(prompt)},
                    {"max_tokens", plan_.output},
                    {"stream", true},
                    {"stream_options", Json::Object{{"include_usage", true}}},
                    {"seed", static_cast<std::int64_t>(plan_.seed + index)}};
  if (plan_.ignore_eos) body.emplace_back("ignore_eos", true);
  if (plan_.temperature) body.emplace_back("temperature", *plan_.temperature);
  return to_text(body);
}

void LoadRun::begin(std::size_t index) {
  auto sent = std::make_shared<Sent>(Sent{.index = index});
  const HttpCall call{.method = "POST",
                      .path = "/v1/completions",
                      .body = body_of(index),
                      .fields = fields_of(plan_.key),
                      .seconds = plan_.timeout};
  sent->start = client_.now();
  outcomes_[index].start = sent->start;
  outcomes_[index].input_tokens = plan_.input;
  client_.ask(call, {.head = [sent](int status) { sent->status = status; },
                     .body =
                         [this, sent](std::string_view piece) {
                           if (sent->status != 200) {
                             sent->error_body += piece;
                             return;
                           }
                           for (const std::string& data : sent->events.push(piece))
                             heard(*sent, data);
                         },
                     .end = [this, sent](const std::string& problem) { ended(*sent, problem); }});
}

void LoadRun::heard(Sent& sent, const std::string& data) {
  LoadOutcome& o = outcomes_[sent.index];
  if (data == "[DONE]") {
    sent.done = true;
    return;
  }
  Json event;
  try {
    event = parse_json(data, "event");
  } catch (const Error& error) {
    o.error = error.what();
    return;
  }
  if (event.find("error") != nullptr) {
    o.error = error_text(0, data);
    return;
  }
  if (const Json* usage = event.find("usage"); usage && !usage->is_null()) {
    const Json *said = usage->find("completion_tokens"), *read = usage->find("prompt_tokens");
    if (said && said->is(Json::Kind::kInteger)) o.output_tokens = said->integer("usage");
    if (read && read->is(Json::Kind::kInteger)) o.input_tokens = read->integer("usage");
    sent.counted = true;
  }
  const Json* choices = event.find("choices");
  if (!choices || !choices->is(Json::Kind::kArray) || choices->array("").empty()) return;
  const Json& choice = choices->array("")[0];
  const Json *text = choice.find("text"), *reason = choice.find("finish_reason");
  const std::string said = text && text->is(Json::Kind::kString) ? text->text("") : std::string();
  o.text += said;
  // A last event without text is no token, unless it is all there is.
  if (said.empty() && reason && !reason->is_null() && sent.last > 0) return;
  const double now = client_.now();
  if (sent.last > 0)
    o.itl.push_back(now - sent.last);
  else
    o.ttft = now - sent.start;
  sent.last = now;
  o.latency = now - sent.start;
}

void LoadRun::ended(Sent& sent, const std::string& problem) {
  LoadOutcome& o = outcomes_[sent.index];
  if (sent.status != 0 && sent.status != 200)
    o.error = error_text(sent.status, sent.error_body);
  else if (!problem.empty() && o.error.empty())
    o.error = problem;
  else if (o.error.empty() && (sent.last == 0 || !sent.done))
    o.error = "the stream ended without [DONE]";
  o.success = o.error.empty();
  if (o.success && !sent.counted) o.output_tokens = std::ssize(o.itl) + 1;
  ++ended_;
  if (told_) told_(ended_);
  begin_waiting();
  if (ended_ < std::ssize(outcomes_)) return;
  finished_ = client_.now();
  client_.stop();  // the clock of look()
}

}  // namespace trireme
