// trireme bench-serve [--base-url http://127.0.0.1:8000] [--num-prompts N] [--request-rate R] ...:
// a load on a server of the completions API, and what it measured, as `vllm bench serve` tells it.
// docs/serve.md.
#include <chrono>
#include <ctime>
#include <map>
#include <ostream>

#include "framework/base/error.h"
#include "recipes/api/api_keys.h"
#include "recipes/cli/values.h"
#include "recipes/commands/output_place.h"
#include "recipes/commands/process.h"
#include "recipes/load/load_run.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

// Prompts are made of its tokens: words, numbers and signs as any tokenizer knows them.
constexpr const char* kAlphabet =
    "In the year 1803 the captain of a small ship wrote down what the wind did, hour by hour; and "
    "his mate, who could not write, counted waves instead. \"Seven,\" he said, \"is enough for "
    "anyone.\" They sailed past islands of sand, past harbours full of oars (each as long as three "
    "men), and sold oil, salt, 240 jars of honey & one old map: its edges were burnt.";

struct Wishes {
  LoadPlan plan;
  LoadGoals goals;
  HttpPlace place;
  std::string url, save;
  double ready_wait = 10;
  bool json = false, detailed = false;
};

// Nothing for "inf".
std::optional<double> rate_of(const CommandLine& line, const char* name,
                              std::optional<double> otherwise) {
  const auto given = line.options.find(name);
  if (given == line.options.end()) return otherwise;
  if (given->second == "inf") return std::nullopt;
  const auto value = parse_number(given->second);
  if (!value || *value < 1e-6 || *value > 1e6)
    throw UsageError(
        join("--", name, " = ", given->second, ": expected a number from 1e-6 to 1e6, or inf"));
  return *value;
}

double seconds_of(const CommandLine& line, const char* name, double otherwise, double least) {
  const auto given = line.options.find(name);
  if (given == line.options.end()) return otherwise;
  const auto value = parse_number(given->second);
  if (!value || *value < least || *value > 86400)
    throw UsageError(join("--", name, " = ", given->second, ": expected seconds from ",
                          number_text(least), " to 86400"));
  return *value;
}

std::string key_of(Process& process, const CommandLine& line) {
  const auto given = line.options.find("api-key-file");
  if (given == line.options.end()) {
    const std::string key = process.variable("TRIREME_API_KEY");
    return key.empty() ? process.variable("OPENAI_API_KEY") : key;
  }
  if (process.files.status(given->second).kind != FileKind::kFile)
    throw UsageError(join("--api-key-file: there is no file ", given->second));
  const auto keys = keys_in(read_whole(process.files, given->second));
  if (keys.empty()) throw UsageError(join("--api-key-file: ", given->second, " has no key"));
  return keys[0];
}

// As OpenAI's clients are given it, too: the paths that are asked begin with /v1.
std::string server_url(std::string url) {
  constexpr std::string_view kVersion = "/v1";
  while (url.ends_with('/') && !url.ends_with("://")) url.pop_back();
  if (url.ends_with(kVersion)) url.erase(url.size() - kVersion.size());
  return url;
}

Wishes wishes_of(Process& process, const CommandLine& line) {
  if (!line.names.empty())
    throw UsageError(join("bench-serve: \"", line.names[0],
                          "\": it measures a server that runs: trireme bench-serve [--base-url "
                          "http://127.0.0.1:8000] [--num-prompts 1000] [--request-rate inf] "
                          "[--max-concurrency N]; trireme bench FOLDER measures a model"));
  if (!line.flags.empty())
    throw UsageError(join("bench-serve: --", line.flags[0].name,
                          " is no option of it, and recipe keys are the server's"));
  Wishes w;
  const auto text = [&](const char* name, const std::string& otherwise) {
    const auto given = line.options.find(name);
    if (given == line.options.end()) return otherwise;
    if (given->second.empty()) throw UsageError(join("--", name, " is empty"));
    return given->second;
  };
  try {
    w.url = server_url(text("base-url", "http://127.0.0.1:8000"));
    w.place = http_place_of(w.url);
    if (const std::string goals = text("goodput", "-"); goals != "-")
      w.goals = load_goals_of(goals);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(
        join(line.options.contains("goodput") && !w.place.host.empty() ? "--goodput" : "--base-url",
             ": ", error.what()));
  }
  LoadPlan& p = w.plan;
  p.model = text("model", "");
  p.key = key_of(process, line);
  p.prompts = count_option(line, "num-prompts", p.prompts, 1, 10'000'000);
  p.input = count_option(line, "random-input-len", p.input, 1, 1 << 24);
  p.output = count_option(line, "random-output-len", p.output, 1, 1 << 24);
  p.rate = rate_of(line, "request-rate", std::nullopt);
  p.burstiness = rate_of(line, "burstiness", 1);
  if (line.options.contains("burstiness") && !p.rate)
    throw UsageError("--burstiness: only with --request-rate; without one all is sent at once");
  if (line.options.contains("max-concurrency"))
    p.concurrency = count_option(line, "max-concurrency", 1, 1, 65536);
  p.warmups = count_option(line, "num-warmups", p.concurrency.value_or(1), 0, 1'000'000);
  p.seed = static_cast<std::uint64_t>(count_option(line, "seed", 0, 0, std::int64_t{1} << 52));
  p.ignore_eos = line.options.contains("ignore-eos");
  if (const auto given = line.options.find("temperature"); given != line.options.end()) {
    p.temperature = parse_number(given->second);
    if (!p.temperature || *p.temperature < 0 || *p.temperature > 2)
      throw UsageError(join("--temperature = ", given->second, ": expected a number from 0 to 2"));
  }
  p.timeout = seconds_of(line, "timeout", p.timeout, 0.001);
  w.ready_wait = seconds_of(line, "ready-wait", w.ready_wait, 0);
  w.save = text("save-result", "");
  if (!w.save.empty()) check_output_place(process.files, "save-result", w.save);
  w.json = line.options.contains("json");
  w.detailed = line.options.contains("save-detailed");
  if (w.detailed && w.save.empty() && !w.json)
    throw UsageError("--save-detailed: only with --save-result FILE or --json");
  return w;
}

class Bench {
 public:
  Bench(Process& process, Wishes wishes)
      : process_(process),
        w_(std::move(wishes)),
        client_(w_.place),
        console_(process.err, process.terminal, nullptr) {}

  int run() {
    if (!wait_until_ready()) return kInterrupted;
    if (w_.plan.model.empty()) w_.plan.model = first_model();
    LoadRun load(
        client_, w_.plan, alphabet(), [this](std::int64_t ended) { progress(ended); },
        [this] { return process_.signals.load() > 0; });
    all_ = w_.plan.warmups;
    for (const LoadOutcome& o : load.warm_up()) check(o.success, "the warm-up failed: ", o.error);
    const std::string before = metrics();
    all_ = w_.plan.prompts;
    const auto outcomes = load.run();
    console_.clear();
    if (load.stopped()) return kInterrupted;
    return tell(outcomes, load.duration(), cache_hits(before, metrics()));
  }

 private:
  ServerAnswer ask(const std::string& method, const std::string& path,
                   const std::string& body = {}) {
    return ask_server(client_, w_.plan.key, method, path, body);
  }

  // False if it was interrupted meanwhile.
  bool wait_until_ready() {
    const double begun = client_.now();
    for (;;) {
      const ServerAnswer answer = ask_server(client_, w_.plan.key, "GET", "/health", {}, 5);
      if (answer.status == 200) return true;
      if (process_.signals.load() > 0) return false;
      check(answer.status == 0 || answer.status == 503, w_.url, "/health says ", answer.status,
            ": is this the address of a server that has /health?");
      check(client_.now() - begun < w_.ready_wait, w_.url, " is not ready after ",
            number_text(w_.ready_wait),
            " s: ", answer.status == 0 ? answer.problem : join("/health says ", answer.status),
            "; --ready-wait waits longer");
      client_.after(0.1, [] {});
      client_.run();
    }
  }

  [[noreturn]] void refused(const std::string& path, const ServerAnswer& answer) {
    const std::string said = answer.body.substr(0, answer.body.find_last_not_of("\r\n") + 1);
    fail(w_.url, path, ": ",
         answer.status == 0 ? answer.problem : join(answer.status, " ", said.substr(0, 300)),
         answer.status == 401 ? "; the key comes from --api-key-file FILE or TRIREME_API_KEY" : "");
  }

  std::string first_model() {
    const ServerAnswer answer = ask("GET", "/v1/models");
    if (answer.status != 200) refused("/v1/models", answer);
    const Json models = parse_json(answer.body, "/v1/models");
    const Json::Array& all = models.at("data", "/v1/models").array("/v1/models");
    check(!all.empty(), w_.url, "/v1/models names no model");
    return all[0].at("id", "/v1/models").text("/v1/models");
  }

  std::vector<std::int32_t> alphabet() {
    const Json body = Json::Object{{"model", w_.plan.model}, {"prompt", kAlphabet}};
    ServerAnswer answer = ask("POST", "/tokenize", to_text(body));
    if (answer.status == 400)
      answer = ask("POST", "/tokenize", to_text(Json::Object{{"prompt", kAlphabet}}));
    if (answer.status != 200) refused("/tokenize", answer);
    const Json told = parse_json(answer.body, "/tokenize");
    std::vector<std::int32_t> ids;
    for (const Json& id : told.at("tokens", "/tokenize").array("/tokenize"))
      ids.push_back(static_cast<std::int32_t>(id.integer("/tokenize")));
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  std::string metrics() {
    // Of a server that says nothing any more they are not waited for.
    const ServerAnswer answer = ask_server(client_, w_.plan.key, "GET", "/metrics", {}, 5);
    return answer.status == 200 ? answer.body : std::string();
  }

  static std::optional<double> cache_hits(const std::string& before, const std::string& after) {
    const auto grown = [&](const std::string& name) -> std::optional<double> {
      const auto then = metric_of(before, name), now = metric_of(after, name);
      if (!then || !now) return std::nullopt;
      return *now - *then;
    };
    const auto asked = grown("vllm:prefix_cache_queries_total"),
               hits = grown("vllm:prefix_cache_hits_total");
    if (!asked || !hits || *asked <= 0) return std::nullopt;
    return *hits / *asked;
  }

  void progress(std::int64_t ended) {
    console_.bar(ended, all_, all_ == w_.plan.prompts ? "requests" : "warm-up");
  }

  int tell(const std::vector<LoadOutcome>& outcomes, double duration,
           const std::optional<double>& hits) {
    const LoadMetrics metrics = measure_load(outcomes, duration, w_.goals);
    LoadTold told{.model = w_.plan.model,
                  .prompts = w_.plan.prompts,
                  .rate = w_.plan.rate,
                  .burstiness = w_.plan.burstiness,
                  .concurrency = w_.plan.concurrency,
                  .cache_hits = hits};
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char date[32];
    std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", &local);
    told.date = date;
    const Json json = load_json(told, metrics, w_.goals, outcomes, w_.detailed);
    if (!w_.save.empty()) write_whole_atomically(process_.files, w_.save, to_text(json) + "\n");
    process_.out << (w_.json ? to_text(json, 2) + "\n" : load_text(told, metrics, w_.goals));
    std::map<std::string, int> reasons;
    for (const LoadOutcome& o : outcomes)
      if (!o.success) ++reasons[o.error];
    for (const auto& [reason, count] : reasons)
      process_.err << join("failed, ", count, " times: ", reason, "\n");
    return metrics.failed > 0 ? 1 : 0;
  }

  Process& process_;
  Wishes w_;
  HttpClient client_;
  Console console_;
  std::int64_t all_ = 0;
};

}  // namespace

int bench_serve_command(Process& process, const CommandLine& line) {
  return Bench(process, wishes_of(process, line)).run();
}

}  // namespace trireme
