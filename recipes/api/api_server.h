// The completions API over HTTP: the server that `trireme serve` runs. Three threads: one calls
// run() and owns everything here; the engine's lends its engine with serve() and takes it back with
// withdraw(); before and after, requests are answered with 503. The third one, its own, reads
// bodies and makes tokens of them, in the order in which they came: the first never waits for a
// long prompt.
//
// Every route but /health and / (the chat page) asks for a key where keys are given. Nothing that a
// request says opens a file or a connection.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "recipes/api/api_metrics.h"
#include "recipes/api/api_request.h"
#include "recipes/api/drain.h"
#include "recipes/api/worker.h"
#include "recipes/http/http_server.h"

namespace trireme {

struct ApiOptions {
  ApiLimits limits = {};
  std::vector<std::string> keys = {};   // empty: everybody may ask
  std::vector<std::string> hosts = {};  // names by which it may be called; empty: any
  double drain_seconds = 30;            // for answers that run when drain() is called
  std::size_t reading = 256;            // requests whose bodies wait to be read; then 429
  std::uint64_t seed = 0;               // of ids and of draws without a seed
  std::int64_t now = 0;                 // seconds since 1970; 0: the wall clock
  // Asked every 50 ms by the thread of run(): true begins to drain.
  std::function<bool()> asked_to_end = {};
  // Told by the thread of run() when it begins to drain.
  std::function<void(const DrainBegin&)> drains = {};
};

class ApiServer {
 public:
  // Binds. Throws Error.
  ApiServer(const HttpOptions& http, const ApiOptions& options);
  ~ApiServer();

  int port() const { return http_.port(); }
  // Until finish() and all is said.
  void run() { http_.run(); }

  // Any thread but that of run(), which must be running. Both outlive the call of withdraw().
  void serve(const ServedModel& model, ServeEngine& engine);
  // Returns when nothing of them is in use any more. All requests must have ended: after
  // ServeEngine::run().
  void withdraw();
  // What ServeEngine::run() is given: set when draining took too long.
  const std::atomic<bool>& stop() const { return stop_; }
  // Any thread: the end of run().
  void finish();
  // What became of the answers that drain() found or that came behind; after run().
  const DrainEnd& drained() const { return drained_; }

 private:
  struct Exchange;
  struct Reading;
  using Reply = std::shared_ptr<HttpReply>;
  void handle(const HttpRequest& request, const Reply& reply);
  void route(const HttpRequest& request, const Reply& reply);
  void post_route(const HttpRequest& request, const Reply& reply);
  void check_caller(const HttpRequest& request) const;
  std::int64_t key_of(const HttpRequest& request) const;
  const ServedModel& served() const;
  bool lent() const;
  Json models() const;
  Json props() const;
  void read(Reading& reading);
  void was_read(const std::shared_ptr<Reading>& reading);
  void generate(Reading& reading);
  void submit(const std::shared_ptr<Exchange>& exchange, ApiRequest& request);
  void heard(const std::shared_ptr<Exchange>& exchange, std::size_t prompt,
             const GenerationEvent& event);
  void fail(Exchange& exchange, const GenerationEvent& event);
  void end_with(Exchange& exchange, int status, const std::string& sentence,
                const char* code) noexcept;
  void cancel(Exchange& exchange) noexcept;
  void pause(const Exchange& exchange, bool paused);
  void tick();
  void drain(double now);
  void count_end(const Exchange& exchange, FinishReason reason);

  HttpOptions http_options_;
  ApiOptions options_;
  ApiMetrics metrics_;
  std::uint64_t requests_ = 0;
  std::int64_t active_ = 0;   // exchanges that wait for events, and of these
  std::int64_t reading_ = 0;  // such that are still read
  bool draining_ = false;
  double drain_began_ = 0;
  DrainEnd drained_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  const ServedModel* model_ = nullptr;
  ServeEngine* engine_ = nullptr;
  std::unique_ptr<Encoder> encoder_;  // the worker's
  bool was_ready_ = false;
  HttpServer http_;  // its handlers use the others
  Worker worker_;    // last: its jobs use all
};

}  // namespace trireme
