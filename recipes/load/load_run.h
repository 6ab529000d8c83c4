// A load on a server of the completions API: requests of random tokens with fixed lengths, sent at
// a rate, at most so many at a time, and when each piece of their answers came. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recipes/http/http_client.h"
#include "recipes/load/load_metrics.h"

namespace trireme {

struct LoadPlan {
  std::string model;                                        // its name for the server
  std::string key;                                          // empty: none
  std::int64_t prompts = 1000, input = 1024, output = 128;  // requests; tokens of each
  std::optional<double> rate = {};                          // requests a second; none: all at once
  std::optional<double> burstiness = 1;  // 1: a Poisson process; none: evenly; else a gamma process
  std::optional<std::int64_t> concurrency = {};
  std::int64_t warmups = 0;
  bool ignore_eos = false;
  std::optional<double> temperature = {};
  std::uint64_t seed = 0;
  double timeout = 600;  // seconds, for each request
};

// Seconds from the beginning at which each of `count` requests is sent: increasing, the last one at
// count / rate, as vLLM's; all 0 without a rate.
std::vector<double> send_times(std::int64_t count, const std::optional<double>& rate,
                               const std::optional<double>& burstiness, std::uint64_t seed);

// A request that is answered at once.
struct ServerAnswer {
  int status = 0;  // 0: none came, problem tells why
  std::string body, problem;
};
ServerAnswer ask_server(HttpClient& client, const std::string& key, const std::string& method,
                        const std::string& path, const std::string& body = {}, double seconds = 60);

// Sum of the samples of a metric in Prometheus' text format; nothing if there is none.
std::optional<double> metric_of(const std::string& text, const std::string& name);

class LoadRun {
 public:
  // `alphabet`: ids that prompts are made of. `told` is called at each end, with how many ended;
  // `stopped` ten times a second: true lets go of everything.
  LoadRun(HttpClient& client, const LoadPlan& plan, std::vector<std::int32_t> alphabet,
          std::function<void(std::int64_t)> told, std::function<bool()> stopped);

  // Each with a prompt of its own. Not measured.
  std::vector<LoadOutcome> warm_up();
  // In the order of sending.
  std::vector<LoadOutcome> run();
  double duration() const { return duration_; }  // of run()
  bool stopped() const { return gone_; }

 private:
  struct Sent;
  std::vector<LoadOutcome> send(const std::vector<double>& times, std::uint64_t stream);
  void begin_waiting();
  void begin(std::size_t index);
  void heard(Sent& sent, const std::string& data);
  void ended(Sent& sent, const std::string& problem);
  std::string body_of(std::size_t index) const;
  void look();

  HttpClient& client_;
  const LoadPlan& plan_;
  std::vector<std::int32_t> alphabet_;
  std::function<void(std::int64_t)> told_;
  std::function<bool()> asked_;
  std::vector<LoadOutcome> outcomes_;
  std::size_t due_ = 0, begun_ = 0;
  std::int64_t ended_ = 0;
  std::uint64_t stream_ = 0;
  double duration_ = 0, finished_ = 0;
  bool gone_ = false;
};

}  // namespace trireme
